"""The part that remembers facts about users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...messages import Message, SystemMessage
from ...number_checks import check_whole
from ...orchestrator.agent import Part
from ...orchestrator.run import RunContext
from ...storage.base import Memories

_HEADING = "Facts that the user has asked to remember:"


class UserMemory(Part):
    """Offers the tools `store_memory` and `retrieve_memory`, and adds known facts to the conversation.

    Before the first step of a run it searches the user's memories for the message, and adds up to *retrieve* facts that
    the conversation does not contain yet. Without a user, nothing is remembered and nothing is found.
    """

    def __init__(self, memories: Memories, retrieve: int = 5) -> None:
        from ...tools.builtin.memory import retrieve_memory, store_memory  # noqa: PLC0415 - pydantic is slow to import

        self.tools = (store_memory(memories), retrieve_memory(memories))
        self._memories = memories
        check_whole("UserMemory", "retrieve", retrieve, 0)
        self._retrieve = retrieve

    async def prepare(self, run: RunContext[Any]) -> Sequence[Message]:
        """Return a message with the facts that are new to the conversation."""
        owner = run.chat.scope
        if not owner.user or not self._retrieve or not run.chat.memory_enabled:
            return ()
        found = await self._memories.recall(owner, run.chat.message, self._retrieve)
        known = "\n".join(message.text for message in run.messages if isinstance(message, SystemMessage))
        facts = [f"- {memory.text}" for memory in found if f"\n- {memory.text}\n" not in f"\n{known}\n"]
        return (SystemMessage("\n".join([_HEADING, *facts])),) if facts else ()
