"""What holds for every run, whatever the model, its tools and the store do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    RunResult,
    Tool,
    ToolContext,
    ToolError,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import delegate
from concertino.errors import OverloadedError
from concertino.events import RunEnded, RunEvent, RunStarted, ToolDone, ToolFailed, ToolStarted, UsageRecorded
from concertino.messages import AssistantMessage, ToolMessage
from concertino.testing import Answer, ScriptedModel, call


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def block(text: str) -> str:
    """Say it again, from a thread."""
    return text


@tool
async def fail(text: str) -> None:
    """Fail."""
    raise ToolError(text)


@tool
async def stream(text: str, context: ToolContext) -> AsyncIterator[str]:
    """Say it letter by letter."""
    for letter in text:
        await asyncio.sleep(0)
        with context.progress.begin(letter):
            yield letter


class Child(AgentConfig[None]):
    """A sub-agent."""

    name = "child"
    prompt = "You are the child."
    tools = (echo, fail)
    enable_global_context_update = False


names = st.sampled_from(["echo", "block", "fail", "stream", "nobody", "child"])
texts = st.text(min_size=1, max_size=8)
good = st.builds(lambda name, text: call(name, **{"query" if name == "child" else "text": text}), names, texts)
bad = st.builds(call, names, st.text(max_size=8))
turns = st.lists(st.one_of(good, good, bad), min_size=1, max_size=6)
endings = st.one_of(
    texts.map(lambda text: Answer(text=text)),
    texts.map(lambda text: Answer(text=text, error=OverloadedError("busy"))),
    st.just(Answer(tokens=None)),
)


async def _run(script: list[Any], store: MemoryStore) -> tuple[list[RunEvent], RunResult, ScriptedModel]:
    model = ScriptedModel(*script, scripts={"You are the child": [lambda request: "child says so"] * 100})
    tools: list[Tool] = [echo, block, fail, stream, delegate(Child(), description="A child.")]
    orchestrator = ToolOrchestrator(
        Chat(model=model, message="go"),
        AgentConfig(),
        ToolRegistry(tools),
        tool_call_limit=100,
        resources=Resources(store=store),
    )
    events = [event async for event in orchestrator.stream()]
    assert orchestrator.result is not None
    return events, orchestrator.result, model


@given(st.lists(turns, max_size=5), endings)
@settings(max_examples=150, deadline=None)
def test_every_run(script: list[Any], ending: Answer) -> None:
    store = MemoryStore()
    events, result, model = asyncio.run(_run([*script, ending], store))

    calls = [c.id for m in result.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    results = [m.call_id for m in result.messages if isinstance(m, ToolMessage)]
    assert calls == results, "each call has one result, in order"
    for request in model.requests:
        open_calls: set[str] = set()
        for message in request.messages:
            if isinstance(message, AssistantMessage):
                assert not open_calls, "results come before the next answer"
                open_calls = {c.id for c in message.tool_calls}
            elif isinstance(message, ToolMessage):
                open_calls.remove(message.call_id)
        assert not open_calls

    assert len(result.usage) == len(model.requests) == len({r.id for r in result.usage}), "each attempt is booked once"
    booked = [e.record for e in events if isinstance(e, UsageRecorded)]
    assert len(booked) >= len(result.usage) - (result.status == "failed")

    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert [e.index for e in events] == sorted(e.index for e in events)
    started = [e.call_id for e in events if isinstance(e, ToolStarted)]
    ended = [e.call_id for e in events if isinstance(e, ToolDone | ToolFailed)]
    assert sorted(started) == sorted(ended) == sorted(calls)

    stored = asyncio.run(_stored(store, result.run_id))
    assert stored == list(result.messages), "what is stored is what happened"
    assert asyncio.run(_usage(store, result.run_id)) == list(result.usage)


async def _stored(store: MemoryStore, run_id: str) -> list[Any]:
    return [kept.message for kept in await store.messages(OPERATOR, run_id)]


async def _usage(store: MemoryStore, run_id: str) -> list[Any]:
    return list(await store.usage(OPERATOR, run_id))
