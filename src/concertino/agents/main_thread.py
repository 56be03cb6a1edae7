"""The main thread: the agent that the user talks to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..messages import ForcedTool, Message, ToolCall, UserMessage
from ..orchestrator.agent import AgentConfig
from ..orchestrator.lifecycle.open import CHATBOT_TOOL, RAG_TOOL
from ..orchestrator.outcome import CONTINUE, NextStep, Outcome, Special
from ..orchestrator.run import RunContext


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

    def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> Special | None:
        """Move RAG's passages into the user's message; force RAG after a chatbot call that needs its files."""
        if outcome.is_error:
            return None
        if call.name == RAG_TOOL and outcome.content.strip():
            return Special(
                result="(the passages were added to the user's message)",
                messages=_with_passages(run.messages[:-1], outcome.content),
            )
        if call.name == CHATBOT_TOOL and RAG_TOOL in run.registry and _wants_knowledge(call):
            return Special(tool_choice=ForcedTool(RAG_TOOL))
        return None


def _with_passages(messages: Sequence[Message], passages: str) -> tuple[Message, ...]:
    """Return the conversation with *passages* before the text of the newest user message."""
    changed = list(messages)
    for index in range(len(changed) - 1, -1, -1):
        message = changed[index]
        if isinstance(message, UserMessage):
            changed[index] = UserMessage(f"{passages}\n\nThe user asks: {message.text}", message.media)
            break
    return tuple(changed)


def _wants_knowledge(call: ToolCall) -> bool:
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        return False
    return isinstance(arguments, dict) and arguments.get("should_use_knowledge_base") is True
