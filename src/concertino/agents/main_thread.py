"""The main thread: the agent that the user talks to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..messages import ForcedTool, Message, ToolCall, ToolMessage, UserMessage
from ..orchestrator.agent import AgentConfig
from ..orchestrator.lifecycle.open import CHATBOT_TOOL, RAG_TOOL
from ..orchestrator.outcome import CONTINUE, Continue, NextStep, Outcome, Special
from ..orchestrator.run import RunContext

_MANY = 2
"""The number of results that a model reads without a reminder."""
_WHOLE_ANSWER = (
    "There are several results above. Take all of them into account, name where they differ, and answer the user's "
    "whole question; or call a tool for what is still missing."
)


class MainThreadAgent(AgentConfig[None]):
    """The agent of a chat: it answers the user with the chat's tools, and everything is stored.

    It reports disabled tools to the user. Passages from RAG move into the user's message. A chatbot call that needs the
    knowledge base forces RAG next.
    """

    name = "main_thread"
    prompt = ""
    allow_prompt_override = True

    def on_tools_disabled(self, run: RunContext[None], calls: Sequence[ToolCall]) -> NextStep:
        """Report the disabled tools to the user, and continue."""
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        run.notify("tool_not_enabled", f"not enabled for you: {names}. Enable it in the settings.")
        return CONTINUE

    def after_step(self, run: RunContext[None], outcome: NextStep) -> NextStep:
        """Ask for an answer to the whole question after a turn with more than two results."""
        if outcome is CONTINUE and _new_results(run.messages) > _MANY:
            return Continue(prompt=_WHOLE_ANSWER)
        return outcome

    def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> Special | None:
        """Move RAG's passages into the user's message; force RAG after a chatbot call that needs its files."""
        if outcome.is_error:
            return None
        if call.name == RAG_TOOL and outcome.stored and outcome.content.strip():
            return Special(
                result="(the passages were added to the user's message)",
                messages=_with_passages(run.messages[:-1], outcome.content),
            )
        if call.name == CHATBOT_TOOL and RAG_TOOL in run.registry and _wants_knowledge(call):
            return Special(tool_choice=ForcedTool(RAG_TOOL))
        return None


def _new_results(messages: Sequence[Message]) -> int:
    """Return the number of results at the end of the conversation, as far as it matters."""
    newest = messages[-_MANY - 1 :]
    return len(newest) if all(isinstance(message, ToolMessage) for message in newest) else 0


def _with_passages(messages: Sequence[Message], passages: str) -> tuple[Message, ...]:
    """Return the conversation with *passages* before the text of the newest user message."""
    changed = list(messages)
    for index in range(len(changed) - 1, -1, -1):
        message = changed[index]
        if isinstance(message, UserMessage):
            # Each line is marked, so that no document can pretend to be the user.
            quoted = "\n".join([f"> {line}" for line in passages.splitlines()])
            changed[index] = UserMessage(f"{quoted}\n\nThe user asks: {message.text}", message.media)
            break
    return tuple(changed)


def _wants_knowledge(call: ToolCall) -> bool:
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        return False
    return isinstance(arguments, dict) and arguments.get("should_use_knowledge_base") is True
