"""The content of each provider's answers that reaches the engine, measured: a table of docs/providers.md."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from concertino.errors import ContentFilteredError, ContextTooLongError, ProviderError, RateLimitError
from concertino.messages import UserMessage
from concertino.providers import Model, ReasoningChunk, Reply, TextChunk
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel

from .test_faults import FULL
from .wire_kit import events_of, model_of, reply_of, request, serving

JSON = {"content-type": "application/json"}
WHOLES: dict[str, Callable[[str], Model]] = {
    "anthropic": lambda url: AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=url, streams=False),
    "responses": lambda url: OpenAIModel("gpt-5", api_key="k", base_url=f"{url}/v1", api="responses", streams=False),
    "chat": lambda url: OpenAIModel("gpt-5", api_key="k", base_url=f"{url}/v1", streams=False),
    "google": lambda url: GoogleModel("gemini-3-flash", api_key="k", base_url=url, streams=False),
}
SOURCE = "https://source.example"


def answer(kind: str, text: str = "", stop: str = "", part: Any = None) -> dict[str, Any]:
    """Return a whole answer with *text*, the stop reason *stop*, and a native block *part* before it."""
    own = [] if part is None else [part]
    match kind:
        case "anthropic":
            blocks = [*own, *([{"type": "text", "text": text}] if text else [])]
            return {"type": "message", "model": "m", "content": blocks, "stop_reason": stop or "end_turn", "usage": {}}
        case "responses":
            reading = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            whole: dict[str, Any] = {"model": "m", "output": [*own, *([reading] if text else [])]}
            if stop:
                return {**whole, "status": "incomplete", "incomplete_details": {"reason": stop}}
            return {**whole, "status": "completed"}
        case "chat":
            message = {"role": "assistant", "content": text or None, **(part or {})}
            return {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": stop or "stop"}]}
        case _:
            parts = [*own, *([{"text": text}] if text else [])]
            return {"candidates": [{"content": {"parts": parts}, "finishReason": stop or "STOP"}]}


async def whole(kind: str, body: dict[str, Any]) -> Reply:
    """Return the reply to an unstreamed answer."""
    async with serving() as server:
        model = WHOLES[kind](server.url)
        server.play(json.dumps(body), headers=dict(JSON))
        try:
            return reply_of(await events_of(model))
        finally:
            await model.close()


async def streamed(kind: str, body: str, **how: Any) -> list[Any]:
    async with serving() as server, model_of(kind, server) as model:
        server.play(body, **how)
        return await events_of(model)


async def back(kind: str, reply: Reply) -> str:
    """Return the request that sends *reply* back."""
    async with serving() as server, model_of(kind, server) as model:
        server.play(FULL[kind])
        await events_of(model, request(UserMessage("Hi"), reply.message, UserMessage("And?")))
    return json.dumps(server.asked[0].body)


async def comes_in_pieces(kind: str) -> str:
    events = await streamed(kind, FULL[kind])
    texts = [event for event in events if isinstance(event, TextChunk)]
    return _yes(len(texts) > 1 and any(isinstance(event, ReasoningChunk) for event in events))


async def comes_whole(kind: str) -> str:
    return _yes((await whole(kind, answer(kind, "Yes."))).message.text == "Yes.")


async def is_kept_of_reasoning(kind: str) -> str:
    reply = reply_of(await streamed(kind, FULL[kind]))
    return _yes(any(part.kind == "reasoning" and part.text for part in reply.message.parts))


async def citations(kind: str) -> str:
    """Return whether citations are kept and sent back."""
    position: dict[str, Any] = {"type": "url_citation", "url": SOURCE, "start_index": 0, "end_index": 1, "title": "S"}
    match kind:
        case "anthropic":
            cited = {"type": "web_search_result_location", "url": SOURCE, "cited_text": "A"}
            body = answer(kind, part={"type": "text", "text": "A", "citations": [cited]})
        case "responses":
            content = [{"type": "output_text", "text": "A", "annotations": [position]}]
            body = answer(kind, part={"type": "message", "role": "assistant", "content": content})
        case "chat":
            body = answer(kind, "A", part={"annotations": [{"type": "url_citation", "url_citation": position}]})
        case _:
            body = answer(kind, "A")
            body["candidates"][0]["groundingMetadata"] = {"groundingChunks": [{"web": {"uri": SOURCE}}]}
    reply = await whole(kind, body)
    if not any(SOURCE in (part.raw or "") for part in reply.message.parts):
        return "no"
    return "kept, sent back" if SOURCE in await back(kind, reply) else "kept"


OWN_TOOLS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": SOURCE}},
    "responses": {"type": "web_search_call", "id": "ws_1", "status": "completed",
                  "action": {"type": "search", "query": SOURCE}},
    "google": {"executableCode": {"language": "PYTHON", "code": SOURCE}},
}  # fmt: skip


async def own_tools(kind: str) -> str:
    if kind not in OWN_TOOLS:
        return "no"
    reply = await whole(kind, answer(kind, "A", part=OWN_TOOLS[kind]))
    kept = [part for part in reply.message.parts if part.kind == "opaque"]
    return "kept, sent back" if kept and SOURCE in await back(kind, reply) else "no"


STOPS = {"anthropic": "refusal", "responses": "content_filter", "chat": "content_filter", "google": "SAFETY"}


async def refusals(kind: str) -> str:
    """Return whether a refusal is `filter` with text and an error without."""
    some = await whole(kind, answer(kind, "I", stop=STOPS[kind]))
    try:
        await whole(kind, answer(kind, stop=STOPS[kind]))
    except ContentFilteredError:
        return _yes(some.message.stop_reason == "filter")
    return "no"


async def counts(kind: str) -> str:
    tokens = reply_of(await streamed(kind, FULL[kind])).tokens
    if tokens is None:
        return "no"
    named = {"read from cache": tokens.cached, "written to it": tokens.cache_write, "reasoning": tokens.reasoning}
    return "all, " + ", ".join(name for name, count in named.items() if count)


async def partial_answer(kind: str) -> str:
    body = FULL[kind].encode()
    try:
        await streamed(kind, body[: len(body) * 3 // 4].decode(errors="ignore"), broken=True)
    except ProviderError as error:
        return _yes(error.partial is not None and bool(error.partial.parts))
    return "no"


async def no_usage_is_unknown(kind: str) -> str:
    reply = await whole(kind, answer(kind, "A"))
    return _yes(reply.tokens is None and reply.source == "unknown")


async def _refused(kind: str, status: int, error: dict[str, Any], **headers: str) -> ProviderError | None:
    async with serving() as server, model_of(kind, server) as model:
        server.play(json.dumps({"error": error}), status=status, headers={**JSON, **headers})
        try:
            await events_of(model)
        except ProviderError as found:
            return found
    return None


TOO_LONG: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "invalid_request_error", "message": "prompt is too long: 213462 tokens > 200000 maximum"},
    "responses": {"code": "context_length_exceeded", "message": "Your input exceeds the context window."},
    "chat": {"code": "context_length_exceeded", "message": "This model's maximum context length is 128000 tokens."},
    "google": {"code": 400, "message": "The input token count (1250074) exceeds the maximum number of tokens allowed."},
}


async def too_long(kind: str) -> str:
    return _yes(isinstance(await _refused(kind, 400, TOO_LONG[kind]), ContextTooLongError))


async def delay(kind: str) -> str:
    """Return the forms in which the provider may ask for a delay."""
    found = []
    ways: list[tuple[str, dict[str, Any], dict[str, str]]] = [("`retry-after`", {}, {"retry-after": "7"})]
    ways.append(("`retry-after-ms`", {}, {"retry-after-ms": "7000"}))
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    ways += [("`RetryInfo`", {"details": [info]}, {})] if kind == "google" else []
    for name, more, headers in ways:
        error = await _refused(kind, 429, {"code": 429, "message": "Slow", **more}, **headers)
        if isinstance(error, RateLimitError) and error.retry_after == 7.0:
            found.append(name)
    return ", ".join(found) or "no"


@dataclass(frozen=True, slots=True)
class Probe:
    """A property of answers, and the function that measures it."""

    label: str
    try_out: Callable[[str], Awaitable[str]]
    no: tuple[str, ...] = ()
    """The formats without this property."""


PROBES = (
    Probe("streamed, with reasoning", comes_in_pieces),
    Probe("not streamed (`streams=False`)", comes_whole),
    Probe("reasoning kept", is_kept_of_reasoning),
    Probe("citations", citations),
    Probe("calls of the provider's own tools", own_tools, no=("chat",)),
    Probe("refusals: `filter`, or `ContentFilteredError`", refusals),
    Probe("usage", counts),
    Probe("unreported usage is unknown, not zero", no_usage_is_unknown),
    Probe("partial answer of a broken stream (`error.partial`)", partial_answer),
    Probe("`ContextTooLongError`", too_long),
    Probe("requested delay (`error.retry_after`)", delay),
)


async def rows(names: dict[str, str]) -> list[list[str]]:
    """Return the table."""
    found = [["", *names.values()], ["---"] * (len(names) + 1)]
    for probe in PROBES:
        found.append([probe.label, *[await probe.try_out(kind) for kind in names]])
    return found


def _yes(value: bool) -> str:
    return "yes" if value else "no"
