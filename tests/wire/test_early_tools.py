"""A call is announced as soon as the wire proves it complete, and the reply contains the announced calls."""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.errors import BrokenStreamError, ProviderError
from concertino.messages import ToolCall
from concertino.providers import Model, ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallReady

from . import test_wire_anthropic as anthropic
from . import test_wire_chat as chat
from . import test_wire_google as google
from . import test_wire_responses as responses
from .conftest import Source
from .recordings import FOLDERS, recordings
from .wire_kit import Server, model_of, played, reply_of, request, serving, sse

FULL = {"anthropic": anthropic.FULL, "responses": responses.FULL, "chat": chat.FULL, "google": google.FULL}
A, B = ToolCall("a", "f", '{"x": "é}"}'), ToolCall("b", "g", '{"y": [1]}')


def ready_of(events: list[ModelEvent]) -> list[ToolCall]:
    """Return the announced calls."""
    return [event.call for event in events if isinstance(event, ToolCallReady)]


def calls_of(events: list[ModelEvent]) -> list[ToolCall]:
    """Return the calls of the reply."""
    return list(reply_of(events).message.tool_calls)


def order_of(events: list[ModelEvent]) -> list[str]:
    """Return texts and ready calls in order."""
    names = []
    for event in events:
        if isinstance(event, TextChunk | ReasoningChunk):
            names.append(event.text)
        elif isinstance(event, ToolCallReady):
            names.append(f"={event.call.id}")
        elif isinstance(event, Reply):
            names.append("!")
    return names


def nameless(call: ToolCall) -> ToolCall:
    """Return *call* without a generated id."""
    return ToolCall("" if re.fullmatch(r"call_[0-9a-f]{24}", call.id) else call.id, call.name, call.arguments)


async def until_broken(model: Model, server: Server, body: bytes) -> list[ModelEvent]:
    """Return the events of *body* before the connection is lost."""
    events: list[ModelEvent] = []
    server.play(body, broken=True)
    try:
        async for event in model.stream(request()):
            events.append(event)
    except ProviderError:
        pass
    return events


def borders(body: str) -> list[int]:
    """Return the byte offsets of the events' ends."""
    return [found.end() for found in re.finditer(rb"\r?\n\r?\n", body.encode())]


# Recordings


@pytest.mark.parametrize("kind", FOLDERS)
async def test_calls_are_ready_once_in_order_and_before_the_reply(kind: str, source: Source) -> None:
    wrong: list[str] = []
    count = 0
    chance = random.Random(kind)
    async with serving() as server, model_of(kind, server) as model:
        for name, features, body in recordings(kind, source.root):
            if "tool_call" not in features:
                continue
            whole = await until_broken(model, server, body.encode())
            if not whole or not isinstance(whole[-1], Reply):
                continue
            calls = calls_of(whole)
            count += bool(calls)
            if ready_of(whole) != calls:
                wrong.append(f"{name}: {ready_of(whole)} is not {calls}")
            positions = borders(body)
            for position in chance.sample(positions, min(4, len(positions))):
                cut = [nameless(call) for call in ready_of(await until_broken(model, server, body.encode()[:position]))]
                if cut != [nameless(call) for call in calls][: len(cut)]:
                    wrong.append(f"{name}, cut at {position}: {cut}")
    assert not wrong, "\n".join(wrong)
    assert count >= source.at_least(10)


# All formats


@pytest.mark.parametrize("kind", FULL)
async def test_a_cut_stream_announces_a_prefix_of_the_calls(kind: str) -> None:
    body = FULL[kind].encode()
    async with serving() as server, model_of(kind, server) as model:
        whole = [nameless(call) for call in ready_of(await until_broken(model, server, body))]
        assert len(whole) == 2
        lengths = []
        for position in borders(FULL[kind]):
            cut = [nameless(call) for call in ready_of(await until_broken(model, server, body[:position]))]
            assert cut == whole[: len(cut)]
            lengths.append(len(cut))
    assert lengths == sorted(lengths)
    assert lengths[-1] == 2


# Anthropic


def use(index: int, call: ToolCall, *pieces: str) -> list[dict[str, Any]]:
    block = anthropic.start(index, type="tool_use", id=call.id, name=call.name, input={})
    deltas = [anthropic.delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [block, *deltas, anthropic.stop(index)]


async def test_anthropic_announces_a_call_when_its_block_ends() -> None:
    text = [
        anthropic.start(1, type="text", text="So. "),
        anthropic.delta(1, "text_delta", text="Then."),
        anthropic.stop(1),
    ]
    begin, end = anthropic.BEGIN, anthropic.end("tool_use", output_tokens=9)
    events = await played("anthropic", sse(begin, *use(0, A, A.arguments), *text, *use(2, B, B.arguments), *end))
    assert order_of(events) == ["=a", "So. ", "Then.", "=b", "!"]
    assert ready_of(events) == calls_of(events) == [A, B]


@pytest.mark.parametrize("pieces", [(), ("",), ('{"x": "Tr',)])
async def test_anthropic_call_cut_off_by_the_limit_is_not_ready(pieces: tuple[str, ...]) -> None:
    begin, end = anthropic.BEGIN, anthropic.end("max_tokens", output_tokens=9)
    events = await played("anthropic", sse(begin, *use(0, A, A.arguments), *use(1, B, *pieces), *end))
    assert ready_of(events) == [A]
    assert [call.id for call in calls_of(events)] == ["a", "b"]


async def test_anthropic_call_without_arguments_is_ready_when_the_next_block_starts() -> None:
    begin, end = anthropic.BEGIN, anthropic.end("tool_use", output_tokens=9)
    text = anthropic.start(1, type="text", text="So.")
    events = await played("anthropic", sse(begin, *use(0, A, ""), text, anthropic.stop(1), *use(2, B), *end))
    assert order_of(events) == ["=a", "So.", "=b", "!"]
    assert ready_of(events) == calls_of(events) == [ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}")]


async def test_anthropic_call_with_invalid_json_is_ready_at_the_end() -> None:
    begin, end = anthropic.BEGIN, anthropic.end("tool_use", output_tokens=9)
    events = await played("anthropic", sse(begin, *use(0, A, '{"x": oops}'), *use(1, B, B.arguments), *end))
    assert order_of(events) == ["=b", "=a", "!"]
    assert sorted(ready_of(events), key=lambda call: call.id) == calls_of(events)


async def test_anthropic_unended_block_is_ready_at_the_end() -> None:
    body = sse(anthropic.BEGIN, *use(0, A, A.arguments)[:-1], *anthropic.end("tool_use", output_tokens=9))
    events = await played("anthropic", body)
    assert ready_of(events) == calls_of(events) == [A]


async def test_anthropic_restart_is_an_error_after_a_ready_call() -> None:
    second = [anthropic.BEGIN, *use(0, B, B.arguments), *anthropic.end("tool_use", output_tokens=9)]
    events = await played("anthropic", sse(anthropic.BEGIN, *use(0, A, A.arguments)[:-1], *second))
    assert ready_of(events) == calls_of(events) == [B]
    with pytest.raises(BrokenStreamError, match="restarted"):
        await played("anthropic", sse(anthropic.BEGIN, *use(0, A, A.arguments), *second))


async def test_a_ready_call_cannot_change() -> None:
    end = anthropic.end("tool_use", output_tokens=9)
    with pytest.raises(BrokenStreamError, match="the call of f"):
        await played("anthropic", sse(anthropic.BEGIN, *use(0, A, A.arguments), *use(0, B, B.arguments), *end))


# Responses


def item(call: ToolCall, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments, **fields}


def arguments_done(index: int, arguments: str) -> dict[str, Any]:
    kind = "response.function_call_arguments.done"
    return {"type": kind, "output_index": index, "item_id": "x", "arguments": arguments}


async def test_responses_announce_a_call_once() -> None:
    body = sse(
        responses.added(0, item(A)),
        arguments_done(0, A.arguments),
        responses.delta("reasoning_summary_text", 1, "So."),
        responses.done(0, item(A, status="completed")),
        arguments_done(2, B.arguments),  # of an item that was never started
        responses.delta("output_text", 3, "Then."),
        responses.done(2, item(B)),
        arguments_done(2, B.arguments),
        responses.ended(),
    )
    events = await played("responses", body)
    assert order_of(events) == ["=a", "So.", "Then.", "=b", "!"]
    assert ready_of(events) == calls_of(events) == [A, B]


async def test_responses_keep_an_announced_call() -> None:
    other = ToolCall("a", "f", '{"x":"é}"}')
    for last in ([], [responses.done(0, item(other))]):
        body = sse(
            responses.added(0, item(A)),
            arguments_done(0, A.arguments),
            *last,
            responses.done(1, responses.MESSAGE),
            responses.ended(output=[item(other), responses.MESSAGE]),
        )
        events = await played("responses", body)
        assert ready_of(events) == calls_of(events) == [A]
        assert reply_of(events).message.text == "Größe: ∞"


async def test_responses_with_items_only_in_the_last_event() -> None:
    body = sse(responses.added(0, item(A)), arguments_done(0, A.arguments), responses.ended(output=[item(A), item(B)]))
    events = await played("responses", body)
    assert order_of(events) == ["=a", "=b", "!"]
    assert ready_of(events) == calls_of(events) == [A, B]


async def test_responses_call_without_arguments_is_ready_with_its_item() -> None:
    empty = item(ToolCall("a", "f", ""), status="completed")
    body = sse(
        responses.added(0, empty), arguments_done(0, ""), responses.done(0, empty),
        responses.delta("output_text", 1, "So."), responses.ended(),
    )  # fmt: skip
    events = await played("responses", body)
    assert order_of(events) == ["=a", "So.", "!"]
    assert ready_of(events) == calls_of(events) == [ToolCall("a", "f", "{}")]


@pytest.mark.parametrize("arguments", ["", '{"x": "Tr'])
async def test_responses_call_cut_off_by_the_limit_is_not_ready(arguments: str) -> None:
    cut = item(ToolCall("a", "f", arguments), status="incomplete")
    end = responses.ended("incomplete", incomplete_details={"reason": "max_output_tokens"})
    body = sse(responses.added(0, cut), arguments_done(0, arguments), responses.done(0, cut), end)
    events = await played("responses", body)
    assert ready_of(events) == []
    assert len(calls_of(events)) == 1


# Chat Completions


def begun(index: int | None, call: ToolCall, arguments: str = "") -> dict[str, Any]:
    return chat.chunk(tool_calls=[chat.call(index, arguments, call.id, call.name)])


def more(index: int | None, arguments: str) -> dict[str, Any]:
    return chat.chunk(tool_calls=[chat.call(index, arguments)])


@pytest.mark.parametrize("index", [0, None])
async def test_chat_call_is_ready_when_another_starts_or_content_follows(index: int | None) -> None:
    last = None if index is None else 1
    body = sse(
        begun(index, A), more(index, A.arguments[:3]), more(index, A.arguments[3:]), begun(last, B, B.arguments),
        chat.chunk(content=""), chat.chunk(reasoning="Hm."), chat.chunk(content="So."), chat.chunk("stop"), "[DONE]",
    )  # fmt: skip
    events = await played("chat", body)
    assert order_of(events) == ["=a", "=b", "Hm.", "So.", "!"]
    assert ready_of(events) == calls_of(events) == [A, B]


async def test_chat_last_call_is_ready_with_the_finish_reason() -> None:
    pieces = [begun(0, A), more(0, A.arguments), chat.chunk("tool_calls")]
    async with serving() as server, model_of("chat", server) as model:
        for known in range(4):
            body = sse(*pieces[:known], {"error": "Overloaded"}).encode()
            events = await until_broken(model, server, body)
            assert ready_of(events) == ([A] if known == 3 else [])


async def test_chat_ready_call_takes_no_more_arguments() -> None:
    body = sse(begun(0, A, A.arguments), begun(1, B, B.arguments), more(0, " \n"), more(1, "{}"), chat.chunk("stop"))
    events = await played("chat", body)
    assert calls_of(events)[0] == A
    assert sorted(ready_of(events), key=lambda call: call.id) == calls_of(events)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_chat_call_that_is_cut_off_is_not_ready(reason: str) -> None:
    body = sse(begun(0, A, A.arguments), begun(1, B), more(1, B.arguments[:4]), chat.chunk(reason))
    events = await played("chat", body)
    assert ready_of(events) == [A]
    assert len(calls_of(events)) == 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=6) | st.integers(), max_size=3), max_size=4),
    st.randoms(use_true_random=False),
)
def test_chat_calls_can_be_interleaved(objects: list[dict[str, Any]], chance: random.Random) -> None:
    calls = [ToolCall(f"c{position}", "f", json.dumps(value)) for position, value in enumerate(objects)]
    left = {position: call.arguments for position, call in enumerate(calls)}
    events = [begun(position, call) for position, call in enumerate(calls)]
    while left:
        position = chance.choice(list(left))
        size = chance.randint(1, 5)
        events.append(more(position, left[position][:size]))
        left[position] = left[position][size:]
        if not left[position]:
            del left[position]
    reading = asyncio.run(played("chat", sse(*events, chat.chunk("tool_calls"))))
    assert calls_of(reading) == calls
    assert sorted(ready_of(reading), key=lambda call: call.id) == calls


# Google


def partial(pieces: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": pieces, **fields}}


TEXT = {"jsonPath": "$.x", "stringValue": "é"}


async def test_google_calls_are_ready_at_once() -> None:
    first = {"functionCall": {"id": "a", "name": "f", "args": {"x": "é"}}, "thoughtSignature": "c2ln"}
    second = {"functionCall": {"id": "b", "name": "g"}}
    parts: list[dict[str, Any]] = [first, {"text": "So."}, second, {"text": "Then."}]
    events = await played("google", sse(*(google.chunk(part) for part in parts), google.chunk(reason="STOP")))
    assert order_of(events) == ["=a", "So.", "=b", "Then.", "!"]
    assert ready_of(events) == calls_of(events)
    assert ready_of(events)[0] == ToolCall("a", "f", '{"x":"é"}', "c2ln")


async def test_google_calls_in_pieces_are_ready_with_the_last_piece() -> None:
    parts = [
        {"functionCall": {"id": "a", "name": "f", "willContinue": True}, "thoughtSignature": "c2ln"},
        partial([TEXT], willContinue=True),
        partial([TEXT], willContinue=True),
        {"functionCall": {}},
        {"text": "So."},
    ]
    events = await played("google", sse(*(google.chunk(part) for part in parts), google.chunk(reason="STOP")))
    assert order_of(events) == ["=a", "So.", "!"]
    assert ready_of(events) == calls_of(events) == [ToolCall("a", "f", '{"x":"éé"}', "c2ln")]


@pytest.mark.parametrize(("reason", "announced"), [("MAX_TOKENS", 0), ("STOP", 1)])
async def test_google_unfinished_call_in_pieces(reason: str, announced: int) -> None:
    parts = [{"functionCall": {"id": "a", "name": "f", "willContinue": True}}, partial([TEXT], willContinue=True)]
    events = await played("google", sse(*(google.chunk(part) for part in parts), google.chunk(reason=reason)))
    assert len(ready_of(events)) == announced
    assert calls_of(events) == [ToolCall("a", "f", '{"x":"é"}')]
