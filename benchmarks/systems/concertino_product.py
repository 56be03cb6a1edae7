"""concertino as a chat product embeds it: a `Runtime` on SQLite, conversations, the log of events, media and parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.common import QUESTION, SCRIPT, Outcome
from benchmarks.systems.concertino import NO_LIMIT, USED, booked, message_of
from concertino import AgentConfig, Chat, Resources, RunContext, Scope, ToolCall, ToolOrchestrator, tool
from concertino.agents import InputGuardrail, OutputGuardrail, TextRedaction, ToolGuardrail
from concertino.events import TextDelta, TurnCompleted
from concertino.messages import Media
from concertino.providers.base import ModelEvent, ModelRequest, Reply, TextChunk, ToolCallChunk
from concertino.runtime import Runtime
from concertino.storage.sqlite import SqliteStore

DISTRIBUTIONS: tuple[str, ...] = ("concertino",)
_USER = Scope("acme", "ann")


class _Model:
    """The script as a model that takes its time for each piece."""

    provider = "openai"
    name = "gpt-5"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer with the next turn of the script."""
        script = SCRIPT.get()
        turn = await script.next(len(request.messages))
        for call in turn.calls:
            yield ToolCallChunk(call.id, call.name, call.arguments)
        async for piece in script.pieces(turn):
            yield TextChunk(piece)
        yield Reply(message_of(turn), USED)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _admit(run: RunContext[Any], text: str) -> None:
    """Admit a text."""


def _admit_call(run: RunContext[Any], call: ToolCall, arguments: dict[str, Any]) -> None:
    """Admit a call."""


def _admit_result(run: RunContext[Any], call: ToolCall, text: str) -> None:
    """Admit a result."""


class _Process:
    def __init__(self, runtime: Runtime, agent: AgentConfig[None]) -> None:
        self._runtime = runtime
        self._agent = agent

    async def say(self, message: str, image: str = "") -> str:
        conversation = await self._runtime.conversation(_USER, "the one", agent=self._agent)
        picture = [Media("image/png", data=image)] if image else []
        turn = await conversation.send(Chat(message, media=picture))
        return (await turn.result()).text

    async def start(self) -> str:
        return (await self._runtime.start(Chat(QUESTION, scope=_USER), self._agent)).id

    async def follow(self, run_id: str) -> AsyncIterator[str]:
        seen = 0
        async for _, event in self._runtime.events(_USER, run_id):
            if isinstance(event, TextDelta):
                seen += len(event.text)
                yield event.text
            elif isinstance(event, TurnCompleted):  # stands for the pieces that were not read before it came
                yield event.message.text[seen:]


class _Product:
    def __init__(self, function: Callable[..., Any]) -> None:
        class Agent(AgentConfig[None]):
            name = "agent"
            tools = (tool(effect="read")(function),)
            tool_call_limit = NO_LIMIT

        class Guarded(Agent):
            name = "guarded"
            parts = (
                InputGuardrail(_admit),
                OutputGuardrail(_admit),
                ToolGuardrail(_admit_call, _admit_result),
                TextRedaction(),
            )

        self._agents = {False: Agent(), True: Guarded()}
        self._resources = Resources(model=_Model())

    @asynccontextmanager
    async def process(self, path: str) -> AsyncIterator[_Process]:
        agent = self._agents[False]
        async with (
            await SqliteStore.open(path) as store,
            Runtime([agent], Resources(model=_Model(), store=store)) as it,
        ):
            yield _Process(it, agent)

    async def run(self, *, guarded: bool) -> Outcome:
        result = await ToolOrchestrator(Chat(QUESTION), self._agents[guarded], resources=self._resources).run()
        return Outcome(result.text, lambda: booked(result))


def build(function: Callable[..., Any]) -> _Product:
    """Return an agent with one tool, and the same agent with guardrails."""
    return _Product(function)
