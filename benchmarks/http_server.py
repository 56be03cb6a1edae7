"""A provider in a process of its own, so that its work does not count: `python -m benchmarks.http_server`.

It prints its port, and then answers each request at once, in the format of the request's path. The path begins with the
scene to play: `/loop/N/...` calls the tool until the request has N results, `/burst/N/...` streams N pieces of text in
one write, `/written/N/...` in one write each, `/paced/N/...` one each millisecond. The process ends with its standard
input, so also when the measuring process is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS

DONE = "done."
_MARKS = {
    "chat": b'"tool_call_id"',
    "responses": b'"function_call_output"',
    "messages": b'"tool_result"',
    "gemini": b'"functionResponse"',
}
"""A text that each result has once in a request."""
_PAUSES = {"written": 0.0, "paced": 0.001}


def _format(path: str) -> str:
    if path.endswith("/chat/completions"):
        return "chat"
    return "responses" if path.endswith("/responses") else "messages" if "/messages" in path else "gemini"


def _sse(event: dict[str, Any]) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _chat(pieces: list[str], call: str) -> list[dict[str, Any]]:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if call:
        function = {"name": "ping", "arguments": ""}
        begun = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}],
        }
        wrote = {"tool_calls": [{"index": 0, "function": {"arguments": '{"n": 1}'}}]}
        events = [chunk(begun), chunk(wrote), chunk({}, "tool_calls")]
    else:
        events = [*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")]
    used = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS}
    return [*events, {**base, "choices": [], "usage": {**used, "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS}}]


def _responses(pieces: list[str], call: str) -> list[dict[str, Any]]:
    used = {"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS, "total_tokens": 110}
    response = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "status": "in_progress",
        "output": [],
    }
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    item: dict[str, Any]
    if call:
        item = {"type": "function_call", "id": "f" + call, "call_id": call, "name": "ping", "arguments": ""}
        whole = {**item, "arguments": '{"n": 1}', "status": "completed"}
        events.append({"type": "response.output_item.added", "output_index": 0, "item": item})
        events.append({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": item["id"],
                       "arguments": whole["arguments"]})  # fmt: skip
    else:
        item = {"type": "message", "id": "m", "role": "assistant", "status": "in_progress", "content": []}
        text = {"type": "output_text", "text": "".join(pieces), "annotations": []}
        whole = {**item, "status": "completed", "content": [text]}
        events.append({"type": "response.output_item.added", "output_index": 0, "item": item})
        place = {"output_index": 0, "content_index": 0, "item_id": "m"}
        events += [{"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces]
    events.append({"type": "response.output_item.done", "output_index": 0, "item": whole})
    done = {**response, "status": "completed", "output": [whole], "usage": used}
    return [*events, {"type": "response.completed", "response": done}]


def _messages(pieces: list[str], call: str) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    message |= {"content": [], "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": 1}}
    block: dict[str, Any] = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    if call:
        block = {"type": "tool_use", "id": call, "name": "ping", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": '{"n": 1}'}]
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use" if call else "end_turn"},
         "usage": {"output_tokens": COMPLETION_TOKENS}},
        {"type": "message_stop"},
    ]  # fmt: skip


def _gemini(pieces: list[str], call: str) -> list[dict[str, Any]]:
    used = {"promptTokenCount": PROMPT_TOKENS, "candidatesTokenCount": COMPLETION_TOKENS, "totalTokenCount": 110}
    parts: list[dict[str, Any]] = [{"text": piece} for piece in pieces]
    if call:
        parts = [{"functionCall": {"id": call, "name": "ping", "args": {"n": 1}}}]
    events: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], "modelVersion": "gemini-3-flash"}
        for part in parts
    ]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    events[-1]["usageMetadata"] = used
    return events


_WRITERS = {"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini}


def _answer(path: str, body: bytes) -> tuple[list[bytes], float | None]:
    """Return the events of the answer, and the seconds after each write; None for all in one write."""
    _, play, number, *_ = path.split("/")
    kind = _format(path.partition("?")[0])
    pieces, call = [DONE], ""
    if play == "loop":
        results = body.count(_MARKS[kind])
        call = f"call_{results}" if results < int(number) else ""
    else:
        pieces = [f"word{place}," for place in range(int(number))]
    events = list(map(_sse, _WRITERS[kind](pieces, call)))
    if kind == "gemini":
        events = [event.replace(b"\n\n", b"\r\n\r\n") for event in events]
    return [*events, b"data: [DONE]\n\n"] if kind == "chat" else events, _PAUSES.get(play)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            events, pause = _answer(head[0].split(" ")[1], body)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for data in [b"".join(events)] if pause is None else events:
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                if pause is not None:
                    await writer.drain()
                    await asyncio.sleep(pause)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
