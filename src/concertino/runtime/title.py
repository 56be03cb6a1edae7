"""The title of a conversation: one short run, made once."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from math import inf
from typing import Any, Protocol

from ..errors import ConcertinoError, RunExistsError, RunStateError
from ..ids import child_run_id
from ..messages import UserMessage
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.journal.data_policy import DataPolicy, KeepFor, keeps_text, text_seconds
from ..providers.base import Model
from ..scope import AnyScope, Scope
from ..storage.base import Store
from ..storage.conversation_types import ENDED_STATES, StoredConversation, StoredTurn
from .kept_text import kept_text
from .live_run import LiveRun
from .own_agent import OwnAgent
from .schedules import store_time
from .turn_input import in_conversation

_LONGEST_PART = 2_000
_LONGEST_TITLE = 80
_TRIES = 3


class _Runs(Protocol):
    """The part of the runtime that writes a title."""

    store: Store

    async def _start(self, chat: Chat, agent: AgentConfig[Any] | str, run_id: str) -> LiveRun: ...

    async def resume(self, scope: AnyScope, run_id: str) -> LiveRun: ...


class TitleAgent(OwnAgent):
    """Writes the title of a conversation, under the data policy of the conversation's agent."""

    name = "conversation_title"
    prompt = (
        "Write a title for the conversation below: at most six words, in its language, without quotation marks and "
        "without a full stop. Answer with the title alone."
    )


def title_question(message: str, answer: str) -> str:
    """Return the message that asks for the title of a conversation that begins with *message* and *answer*."""
    return f"User: {message[:_LONGEST_PART]}\n\nAssistant: {answer[:_LONGEST_PART]}"


async def _admitted(store: Store, scope: Scope, turn: StoredTurn) -> str:
    """Return the user's message as the agent admitted it: `turn.message` is what the user sent."""
    stored = [each.message for each in await store.messages(scope, turn.run_id)]
    return next((message.text for message in stored if isinstance(message, UserMessage)), "")


async def _age(store: Store, scope: Scope, run_id: str) -> float:
    """Return the seconds since the end of a run, by the store's clock: `RunEnd.ended` is that of some process."""
    journal = await store.load(scope, run_id, from_snapshot=True)
    ends = [] if journal is None else [entry.at for entry in journal.entries if entry.kind == "ended"]
    return await store_time(store) - ends[-1] if ends else inf


def cleaned_title(answer: str) -> str:
    """Return a model's answer as a title: one line, without quotation marks."""
    line = next(iter(answer.strip().splitlines()), "").strip().strip("\"'“”«»").rstrip(".").strip()
    return line[:_LONGEST_TITLE]


async def write_title(
    runs: _Runs, policy: DataPolicy, scope: Scope, conversation: StoredConversation, model: Model | str | None
) -> str:
    """Write and store the title of *conversation*, and return it; "" without an answer, as *policy* leaves it.

    The run's id follows from the conversation, so that several processes write one title and pay for one run.
    """
    turns = await runs.store.all_turns(scope, conversation.id)
    first = next((turn for turn in turns if turn.state in ENDED_STATES and turn.answer), None)
    source = None if first is None else await runs.store.run(scope, first.run_id)
    if first is None or source is None or source.end is None or not keeps_text(policy):
        return ""
    if (seconds := text_seconds(policy)) is not None:  # the title does not outlive the turn that it is made from
        seconds -= await _age(runs.store, scope, first.run_id)
        if seconds <= 0:
            return ""
        policy = dataclasses.replace(policy, text=KeepFor(seconds))
    question = title_question(await _admitted(runs.store, scope, first), first.answer)
    chat = in_conversation(Chat(question, model=model), scope, conversation.id)
    error: str | None = None
    for number in range(1, _TRIES + 1):
        run_id = child_run_id(f"{scope.key}{conversation.id}:{conversation.created}:title", number)
        try:
            live = await runs._start(chat, TitleAgent(policy), run_id)
        except RunExistsError:
            with suppress(RunStateError):  # it has ended, or another process has it
                await (await runs.resume(scope, run_id)).result()
        else:
            await live.result()
        stored = await runs.store.run(scope, run_id)
        if stored is None or stored.end is None:
            return ""  # another process is writing it
        if stored.end.status in ("completed", "limited"):
            title, seconds = kept_text(policy, cleaned_title(stored.end.answer))
            store = runs.store
            return title and await store.set_title(scope, conversation.id, title, replace=False, keep_seconds=seconds)
        error = stored.end.error
    raise ConcertinoError(f"the title of conversation {conversation.id!r} could not be written: {error}")
