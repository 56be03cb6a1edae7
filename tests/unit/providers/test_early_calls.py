"""Models without a wire format announce their calls as well."""

from __future__ import annotations

import asyncio

from concertino.demo import DemoModel
from concertino.messages import ToolSpec, UserMessage
from concertino.providers import ModelRequest, Reply, ToolCallChunk, ToolCallReady
from concertino.testing import Answer, ScriptedModel, call


def request(*tools: ToolSpec) -> ModelRequest:
    """Return a request that asks for a search."""
    question = UserMessage("What is a task group in asyncio?")
    return ModelRequest(model="m", system="", messages=(question,), tools=tools)


async def test_scripted_calls_are_ready_before_the_answer_ends() -> None:
    gate = asyncio.Event()
    step = Answer(calls=(call("f", a=1), call("g", "{broken")), midway=gate.wait)
    with ScriptedModel(step) as model:
        stream = model.stream(request())
        seen = [await anext(stream) for _ in range(4)]
        assert [type(event) for event in seen] == [ToolCallChunk, ToolCallReady] * 2
        rest = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not rest.done()
        gate.set()
        reply = await rest
    assert isinstance(reply, Reply)
    assert [event.call for event in seen if isinstance(event, ToolCallReady)] == list(reply.message.tool_calls)


async def test_calls_of_the_demo_model_are_ready() -> None:
    search = ToolSpec("search_documents", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
    events = [event async for event in DemoModel(len).stream(request(search))]
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.tool_calls
    assert [event.call for event in events if isinstance(event, ToolCallReady)] == list(reply.message.tool_calls)
