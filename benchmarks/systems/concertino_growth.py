"""concertino as a chat product uses it: conversations with their context, trees of agents, followed runs, prices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks.common import QUESTION, SCRIPT, Outcome
from benchmarks.systems.concertino import NO_LIMIT, USED, booked, message_of
from concertino import AgentConfig, Chat, Resources, ToolContext, ToolOrchestrator, tool
from concertino.events import TextDelta, TurnCompleted
from concertino.messages import AssistantMessage, Text, ToolCall
from concertino.providers.base import ModelEvent, ModelRequest, Reply, TextChunk, ToolCallChunk
from concertino.runtime import Runtime
from concertino.storage.sqlite import MemoryStore

DISTRIBUTIONS: tuple[str, ...] = ("concertino",)


class _PricedModel:
    """The script as a model whose prices are known."""

    provider = "openai"
    name = "gpt-5"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer with the next turn of the script."""
        script = SCRIPT.get()
        turn = await script.next(len(request.messages))
        for call in turn.calls:
            yield ToolCallChunk(call.id, call.name, call.arguments)
        for delta in turn.deltas:
            if script.paced:
                await asyncio.sleep(0)
            yield TextChunk(delta)
        yield Reply(message_of(turn), USED)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class _TreeModel(_PricedModel):
    """A model for all levels of a tree: it starts the level below once, and then ends."""

    def __init__(self, width: int) -> None:
        calls = tuple(ToolCall(f"call_{n}", "below", f'{{"n": {n}}}') for n in range(width))
        self._calls = AssistantMessage(calls, "tool_calls", self.name)
        self._end = AssistantMessage((Text("done"),), "end", self.name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Call the tool, if there is one, until there are results."""
        begins = bool(request.tools) and request.messages[-1].role == "user"
        yield Reply(self._calls if begins else self._end, USED)


class _Level(AgentConfig[None]):
    """An agent that starts agents of the level below."""

    def __init__(self, levels: int) -> None:
        self.name = f"level-{levels}"
        child = _Level(levels - 1) if levels else None

        @tool(effect="read")
        async def below(n: int, ctx: ToolContext) -> str:  # noqa: ARG001 - it tells the calls apart
            """Start a sub-agent."""
            return (await ctx.spawn(child, QUESTION)).text

        self.tools = (below,) if levels else ()


class _Growth:
    def __init__(self, function: Callable[..., Any]) -> None:
        class Agent(AgentConfig[None]):
            name = "agent"
            tools = (tool(effect="read")(function),)
            tool_call_limit = NO_LIMIT

        self._model = _PricedModel()
        self._agent = Agent()
        self._resources = Resources(model=self._model)
        self._trees: dict[tuple[int, int], tuple[_Level, Resources]] = {}

    async def run(self, conversation: Any = None, *, keep: bool = False) -> Outcome:
        messages, context = conversation or ((), None)
        chat = Chat(QUESTION, history=messages, context=context)
        result = await ToolOrchestrator(chat, self._agent, resources=self._resources).run()
        return Outcome(result.text, lambda: booked(result), ((*messages, *result.messages), result.context))

    async def tree(self, levels: int, width: int) -> tuple[int, int]:
        if (levels, width) not in self._trees:
            self._trees[levels, width] = _Level(levels), Resources(model=_TreeModel(width))
        agent, resources = self._trees[levels, width]
        result = await ToolOrchestrator(Chat(QUESTION), agent, resources=resources).run()
        return len({record.run_id for record in result.usage}), booked(result)[0]

    async def follow(self) -> AsyncIterator[str]:
        async with Runtime([self._agent], Resources(model=self._model, store=MemoryStore())) as runtime:
            run = await runtime.start(Chat(QUESTION), self._agent)
            seen = 0
            async for _, event in run.events():
                if isinstance(event, TextDelta):
                    seen += len(event.text)
                    yield event.text
                elif isinstance(event, TurnCompleted):  # stands for the pieces that were not read before it came
                    yield event.message.text[seen:]


def build(function: Callable[..., Any]) -> _Growth:
    """Return an agent with one tool."""
    return _Growth(function)
