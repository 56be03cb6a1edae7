"""Every sampled and recorded answer, streamed or not, reads as the vendor's own objects do."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from concertino.errors import ProviderError
from concertino.messages import AssistantMessage
from concertino.providers import Reply
from concertino.providers.http.encoding import NOT_RETURNED

from .conftest import Source
from .exchanges import Exchange, exchanges
from .sdk_readings import READINGS, Reading, arguments_of
from .wire_kit import MODELS, events_of, model_of, reply_of, request, serving

STOPS = {
    "": {"end", "tool_calls"}, "end_turn": {"end"}, "stop_sequence": {"end"}, "tool_use": {"tool_calls"},
    "max_tokens": {"length"}, "pause_turn": {"pause"}, "refusal": {"filter"}, "compaction": {"end"},
    "max_output_tokens": {"length", "tool_calls"}, "content_filter": {"filter"}, "stop": {"end", "tool_calls"},
    "tool_calls": {"tool_calls", "end"}, "length": {"length"}, "error": {"end"}, "STOP": {"end", "tool_calls"},
    "MAX_TOKENS": {"length"}, "SAFETY": {"filter"}, "UNEXPECTED_TOOL_CALL": {"broken"},
    "MALFORMED_FUNCTION_CALL": {"broken"},
}  # fmt: skip
"""What each word of a provider may become: forced calls end in "stop" with some."""

TROUBLE = {"stream_empty", "stream_without_end", "error_in_stream", "error_body", "stop:SAFETY"}


KNOWN = {
    "anthropic/messages/anthropic-programmatic-tool-calling-1-json-c6b8f8ed.json#0: end_turn became tool_calls":
        "several answers that the source joined into one: calls, what came of them, and the end",
}  # fmt: skip


def of_ours(reply: Reply, reading: Reading) -> Reading:
    """Return our reply as a `Reading`."""
    message: AssistantMessage = reply.message
    found = Reading(text=message.text, model=message.model, stop=reading.stop)
    for part in message.parts:
        if part.kind == "reasoning":
            found.reasoning += part.text
            found.signatures += [part.signature] if part.signature else []
        elif part.kind == "tool_call":
            found.calls.append((part.name, arguments_of(part.arguments)))
        elif part.kind == "media":
            found.opaque.append("inlineData" if part.provider == "google" else "image_generation_call")
        elif part.kind == "opaque" and part.type not in NOT_RETURNED | {"search_results", "audio"}:
            found.opaque.append(part.type)
    if reply.tokens:
        found.prompt, found.completion = reply.tokens.prompt, reply.tokens.completion
    return found


def google_names(reading: Reading, reply: Reply) -> None:
    """Adopt the part names of Google's SDK, and compare signatures by number, because it decodes them."""
    reading.opaque = ["".join(word.capitalize() for word in name.split("_")) for name in reading.opaque]
    reading.opaque = [name[0].lower() + name[1:] for name in reading.opaque]
    raws = [part.raw or "" for part in reply.message.parts]
    calls = [call.signature for call in reply.message.tool_calls if call.signature]
    reading.signatures = [*calls, *[raw for raw in raws if '"thoughtSignature"' in raw]][: len(reading.signatures)]


def differences(exchange: Exchange, reply: Reply) -> list[str]:
    """Return the differences between our reading of *exchange* and the SDK's."""
    reading = READINGS[exchange.kind](exchange)
    ours = of_ours(reply, reading)
    if exchange.kind == "google":
        number = len(reading.signatures)
        google_names(reading, reply)
        ours.signatures = reading.signatures
        if len(reading.signatures) != number:
            return [f"{exchange.name}: {number} signatures"]
    wrong = [
        f"{exchange.name}: {name}: {getattr(ours, name)!r:.200} is not {getattr(reading, name)!r:.200}"
        for name in Reading.__slots__
        if getattr(ours, name) != getattr(reading, name)
    ]
    if reply.message.stop_reason not in STOPS[reading.stop]:
        wrong.append(f"{exchange.name}: {reading.stop} became {reply.message.stop_reason}")
    tokens = reply.tokens
    if tokens and not (tokens.cached + tokens.cache_write <= tokens.prompt and tokens.reasoning <= tokens.completion):
        wrong.append(f"{exchange.name}: {tokens}")
    return wrong


@pytest.mark.parametrize("kind", list(MODELS))
async def test_answers_read_as_the_sdk_reads_them(kind: str, source: Source) -> None:
    wrong: list[str] = []
    count: Counter[str] = Counter()
    chance = random.Random(kind)
    async with serving() as server, model_of(kind, server) as model:
        for exchange in exchanges(kind, source.root):
            if exchange.status >= 300:
                continue
            length = len(exchange.body)
            near = [position + 1 for position, byte in enumerate(exchange.body[:4000]) if byte >= 0x80][
                :20
            ]  # inside characters
            cuts = [chance.randrange(length + 1) for _ in range(12)] + near
            kinds = {} if exchange.streamed else {"headers": {"content-type": "application/json"}}
            server.play(exchange.body, cuts=cuts, **kinds)
            form = "streamed" if exchange.streamed else "whole"
            try:
                reply = reply_of(await events_of(model, request()))
            except ProviderError as error:
                count["trouble"] += 1
                if not TROUBLE & exchange.features:
                    wrong.append(f"{exchange.name}: {error!r}")
                continue
            count[form] += 1
            wrong += [line for line in differences(exchange, reply) if line not in KNOWN]
    assert not wrong, f"{len(wrong)} of {dict(count)}\n" + "\n".join(wrong)
    assert count["streamed"] >= source.at_least(20)
    assert count["whole"] >= source.at_least(50)
