"""Deviations of servers from OpenAI's Chat Completions that are not in the recordings."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from concertino.errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContextTooLongError,
    OverloadedError,
    ProviderError,
    RateLimitError,
)
from concertino.messages import ToolCall
from concertino.providers import ModelEvent, ToolCallReady

from . import test_wire_responses as responses
from .test_wire_chat import FULL, call, chunk
from .wire_kit import model_of, played, reply_of, request, serving, sse

# Error objects in any form

GOOGLES: dict[str, Any] = {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}
DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "23s"}
MISFIT = {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}
PAGE = "<!DOCTYPE html><html><head><style>b {}</style></head><h1>502</h1>\n<p>Bad Gateway</p></html>"
BODIES: list[tuple[int, Any, type[ProviderError], str]] = [
    (400, {"error": "No models loaded"}, BadRequestError, "No models loaded"),
    (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, AuthenticationError, "Incorrect API"),
    (400, {"error": "1 is greater than the context length."}, ContextTooLongError, "1 is greater"),
    (400, {"error": {"type": "exceed_context_size_error", "message": "Too big"}}, ContextTooLongError, "Too big"),
    (422, {"detail": [MISFIT]}, BadRequestError, "body.stream_options: Extra inputs are not permitted"),
    (422, {"object": "error", "message": {"detail": [MISFIT, MISFIT]}}, BadRequestError, "permitted; body.stream"),
    (422, {"detail": "Not like this"}, BadRequestError, "Not like this"),
    (400, {"object": "error", "message": "Wrong order", "code": "3230"}, BadRequestError, "Wrong order"),
    (400, {"success": False, "errors": [{"code": 7, "message": "No route"}]}, BadRequestError, "No route"),
    (400, {"fault": "who knows"}, BadRequestError, "who knows"),
    (429, [{"error": {**GOOGLES, "details": [DELAY]}}], RateLimitError, "Quota exceeded"),
    (
        400,
        [{"error": {"message": "No key", "details": [{"reason": "API_KEY_INVALID"}]}}],
        AuthenticationError,
        "No key",
    ),
    (400, "This model does not support tools", BadRequestError, "This model does not support tools"),
    (400, "<tools> is no role", BadRequestError, "<tools> is no role"),
    (502, PAGE, OverloadedError, "502 Bad Gateway"),
    (502, "x" * 9000, OverloadedError, "xxx…"),
]


@pytest.mark.parametrize(("status", "body", "expected", "words"), BODIES)
async def test_a_refusal_keeps_the_providers_message(
    status: int, body: Any, expected: type[ProviderError], words: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    headers = {"content-type": "text/plain", "retry-after": "5"}
    with pytest.raises(ProviderError) as caught:
        await played("chat", text, status=status, headers=headers)
    assert type(caught.value) is expected
    assert words in str(caught.value)
    assert len(str(caught.value)) < 1100
    assert caught.value.retry_after == (23.0 if isinstance(body, list) and status == 429 else 5.0)


async def test_a_deeply_nested_error_body() -> None:
    deep = '{"error":' * 900 + "1" + "}" * 900
    with pytest.raises(BadRequestError):
        await played("chat", deep, status=400, headers={"content-type": "application/json"})


@pytest.mark.parametrize("kind", ["chat", "responses"])
@pytest.mark.parametrize(
    "body", ['event: error\ndata: {"error":"boom"}\n\n', 'data: {"type":"error","error":"boom"}\n\n']
)
async def test_a_plain_text_error_in_a_stream(kind: str, body: str) -> None:
    with pytest.raises(OverloadedError, match="boom"):
        await played(kind, body)


async def test_a_bare_error_object_in_a_stream() -> None:
    error = {"object": "error", "message": "maximum context length is 8", "type": "BadRequestError", "code": 400}
    with pytest.raises(ContextTooLongError) as caught:
        await played("chat", sse(chunk(content="A"), error))
    assert caught.value.partial is not None


# How an answer ends


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "error", "abort", "aborted", "cancelled"])
async def test_half_an_answer_is_a_broken_stream(reason: str) -> None:
    half = chunk(content="Half an"), chunk(tool_calls=[call(0, '{"a":1}', "c", "f")])
    for body in (sse(*half, chunk(reason)), sse(*half, chunk(reason), "[DONE]")):
        with pytest.raises(BrokenStreamError, match=reason) as caught:
            await played("chat", body)
        assert caught.value.partial is not None
        assert (caught.value.partial.text, caught.value.partial.stop_reason) == ("Half an", "broken")
    whole = {"model": "m", "choices": [{"finish_reason": reason, "message": {"content": "Half an"}}]}
    with pytest.raises(BrokenStreamError, match=reason):
        await played("chat", json.dumps(whole), headers={"content-type": "application/json"})


async def test_calls_of_a_broken_stream_are_not_ready() -> None:
    events: list[ModelEvent] = []
    async with serving() as server, model_of("chat", server) as model:
        server.play(sse(chunk(tool_calls=[call(0, '{"a":1}', "c", "f")]), chunk("error")))
        with pytest.raises(BrokenStreamError):
            async for event in model.stream(request()):
                events.append(event)
    assert not any(isinstance(event, ToolCallReady) for event in events)


@pytest.mark.parametrize(("reason", "stop"), [("max_tokens", "length"), ("model_length", "length"), ("eos", "end")])
async def test_other_finish_reasons(reason: str, stop: str) -> None:
    assert reply_of(await played("chat", sse(chunk(reason, content="A")))).message.stop_reason == stop


@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_empty_data_is_ignored(kind: str) -> None:
    full = {"chat": FULL, "responses": responses.FULL}[kind].replace("[DONE]", "[DONE] ")
    first, rest = full.split("\n\n", 1)
    for body in (f"{full}data: [DONE] \n\n", f"{full}event: done\ndata:\n\n", f"{first}\n\ndata: \n\n{rest}"):
        assert len(reply_of(await played(kind, body)).message.tool_calls) == 2


# Which call a delta belongs to

CALLS = [("f", '{"x": 1}'), ("g", '{"y": [2]}'), ("g", '{"y": [3]}')]


def deltas(index: bool | None, ids: str, names: str, *, pieces: int = 1) -> list[dict[str, Any]]:
    """Return `CALLS` in pieces with distinct, equal or no indexes.

    *ids* and *names* are in all pieces of a call, in the first only, or in none.
    """
    found = []
    for position, (name, arguments) in enumerate(CALLS):
        size = -(-len(arguments) // pieces)
        for number in range(pieces):
            text = arguments[number * size : (number + 1) * size]
            given = f"id{position}" if ids == "all" or (ids == "first" and not number) else None
            named = name if names == "all" or not number else None
            found.append(call(None if index is None else position * index, text, given, named))
    return found


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("form", "pieces"),
    [(form, 1) for form in itertools.product((True, False, None), ("all", "none"), ("all",))]
    + [(form, 3) for form in itertools.product((True, False, None), ("all", "first", "none"), ("first",))]
    + [(form, 3) for form in itertools.product((True, False, None), ("all", "first", "none"), ("all",))],
)
async def test_calls_are_distinguished(form: tuple[bool | None, str, str], pieces: int, together: bool) -> None:
    reading = deltas(*form, pieces=pieces)
    chunks = [chunk(tool_calls=reading)] if together else [chunk(tool_calls=[delta]) for delta in reading]
    events = await played("chat", sse(*chunks, chunk("tool_calls")))
    calls = reply_of(events).message.tool_calls
    assert [(made.name, made.arguments) for made in calls] == CALLS
    assert len({made.id for made in calls}) == 3
    assert form[1] == "none" or [made.id for made in calls] == ["id0", "id1", "id2"]
    assert [event.call for event in events if isinstance(event, ToolCallReady)] == list(calls)


async def test_interleaved_calls_at_one_index_are_distinguished_by_id() -> None:
    reading = [
        call(0, "", "a", "f"),
        call(0, "", "b", "g"),
        call(0, '{"x":', "a"),
        call(0, "{}", "b"),
        call(0, "1}", "a"),
    ]
    calls = reply_of(await played("chat", sse(chunk(tool_calls=reading), chunk("stop")))).message.tool_calls
    assert calls == (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}"))


async def test_two_calls_with_one_id_stay_two() -> None:
    for indices in ((0, 1), (None, None)):
        reading = [call(index, f'{{"x":{position}}}', "a", "f") for position, index in enumerate(indices)]
        calls = reply_of(await played("chat", sse(chunk(tool_calls=reading), chunk("stop")))).message.tool_calls
        assert [made.arguments for made in calls] == ['{"x":0}', '{"x":1}']
        assert calls[0].id == "a" != calls[1].id


async def test_a_name_repeated_after_the_arguments_starts_no_call() -> None:
    reading = [call(0, "{}", "a", "f"), call(0, "", None, "f"), call(0, "", "a", "f")]
    calls = reply_of(await played("chat", sse(chunk(tool_calls=reading), chunk("stop")))).message.tool_calls
    assert calls == (ToolCall("a", "f", "{}"),)
