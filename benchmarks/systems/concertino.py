"""concertino: runs share agent, registry and resources; a conversation is its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome, Turn
from concertino import AgentConfig, Chat, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.events import RunResult, TextDelta
from concertino.messages import AssistantMessage, Message, Text, ToolCall
from concertino.providers.base import ModelEvent, ModelRequest, Reply, TextChunk, ToolCallChunk
from concertino.usage import Tokens, total

DISTRIBUTIONS: tuple[str, ...] = ("concertino",)
USED = Tokens(PROMPT_TOKENS, COMPLETION_TOKENS)
NO_LIMIT = 1_000_000


class ScriptedModel:
    """The script as a model."""

    provider = "scripted"
    name = "script"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer with the next turn of the script."""
        turn = await SCRIPT.get().next(len(request.messages))
        for call in turn.calls:
            yield ToolCallChunk(call.id, call.name, call.arguments)
        for delta in turn.deltas:
            yield TextChunk(delta)
        yield Reply(message_of(turn), USED)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def message_of(turn: Turn) -> AssistantMessage:
    """Return *turn* as the answer of a model."""
    if turn.calls:
        calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in turn.calls)
        return AssistantMessage(calls, "tool_calls", "script")
    return AssistantMessage((Text(turn.text),), "end", "script")


def booked(result: RunResult) -> tuple[int, int]:
    """Return the prompt and completion tokens that a run reports."""
    tokens = total(result.usage).tokens
    return tokens.prompt, tokens.completion


class _Concertino:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._resources = Resources(model=ScriptedModel())
        self._config: AgentConfig[None] = AgentConfig()
        self._registry = ToolRegistry([tool(function)])

    def _engine(self, history: Sequence[Message] = ()) -> ToolOrchestrator:
        return ToolOrchestrator(
            Chat(QUESTION, history=history),
            self._config,
            self._registry,
            tool_call_limit=NO_LIMIT,
            resources=self._resources,
        )

    async def run(self, conversation: Sequence[Message] = (), *, keep: bool = False) -> Outcome:
        before = conversation or ()
        result = await self._engine(before).run()
        kept = (*before, *result.messages) if keep else None
        return Outcome(result.text, lambda: booked(result), kept)

    async def stream(self) -> AsyncIterator[str]:
        async for event in self._engine().stream():
            if isinstance(event, TextDelta):
                yield event.text


def build(function: Callable[..., Any]) -> _Concertino:
    """Return an agent with one tool."""
    return _Concertino(function)
