"""The judges accept recorded requests that were answered, and refuse those refused for their form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..wire.exchanges import Exchange, exchanges
from ..wire.recordings import TRAFFIC
from . import anthropic, chat, google, responses

OWN = {
    "anthropic": ("anthropic.com",),
    "google": ("googleapis.com",),
    "responses": ("openai.com", "azure.com"),
    "chat": ("openai.com", "azure.com"),
}
"""Who made the format. Others that speak it have fields of their own, and may ask for less."""

OTHERS_FIELDS = (
    "provider",
    "usage",
    "cache_control",
    "prefix",
    "random_seed",
    "reasoning_content",
    "reasoning_details",
    "reasoning_effort",
    "reasoning_format",
    "service_tier",
    "function.index",
    "plugins",
    "transforms",
    "modalities",
    "reasoning",
)
OTHERS_WORDS = (
    "image_url.image_url: ",  # Mistral: an address in place of an object
    "content.str: ",
    "tool_choice",  # Mistral: "any"
    "tools.",  # Mistral: without a type; OpenRouter: tools of its own
    "tool_calls is empty",
    "content is an empty list",
    "characters",  # xAI: longer ids
    " of a reasoning",  # xAI and DeepSeek: ids that begin otherwise
    " a second time",  # xAI: one id for two items
    "reasoning followed by reasoning",
)

REFUSED = {
    "anthropic/messages/anthropic-completion-error-yaml-61cf643f.json#0": "messages.0",
    "openai/responses/test-model-call-with-tools-yaml-c6ce59e0.json#1": "not required: unit",
    "openai/responses/test-openai-responses-thinking-with-modified-history-yaml-0689f01d.json#1": "not its item",
    "openai/chat_completions/openai-gpt-5-mini-completions-yaml-f94102af.json#0": "stop",
}
"""The recorded refusals (400) of invalid forms, and the judge's problems."""

OTHER_REASONS = (
    "does not exist",  # a model
    "too long",  # a prompt
    "exceeds the maximum",
    "API key",
    "'temperature' is not supported with this model",
    "unsupported image",
    "Error while downloading",
    "Tool call validation failed",  # Groq: what the model called
    "No tool output found for tool call call-a",  # DeepSeek: a call's output comes before anything else is reading
)


def judged(exchange: Exchange) -> list[str]:
    """Return the problems of a recorded request."""
    body = dict(exchange.request)
    if "azure" in exchange.host:
        body.setdefault("model", "gpt-4o")  # there it is in the address
    match exchange.kind:
        case "anthropic":
            return anthropic.problems(body)
        case "google":
            return google.problems(body, model_of(exchange))
        case "responses":
            return responses.problems(body)
        case _:
            return chat.problems(body)


def model_of(exchange: Exchange) -> str:
    name, _, number = exchange.name.rpartition("#")
    asked: str = json.loads((TRAFFIC / name).read_text())["interactions"][int(number)]["request"]["path"]
    return asked.partition("/models/")[2].partition(":")[0]


def recorded(kind: str) -> Iterator[Exchange]:
    seen: set[str] = set()
    for exchange in exchanges(kind):
        if exchange.name not in seen and exchange.request is not None:
            seen.add(exchange.name)
            yield exchange


def is_own(exchange: Exchange) -> bool:
    return exchange.host.endswith(OWN[exchange.kind])


@pytest.mark.parametrize(("kind", "least"), [("anthropic", 300), ("responses", 300), ("chat", 380), ("google", 250)])
def test_answered_requests_are_accepted(data: Path, kind: str, least: int) -> None:
    answered = [exchange for exchange in recorded(kind) if exchange.status < 300 and is_own(exchange)]
    assert len(answered) >= least
    assert {exchange.name: found for exchange in answered if (found := judged(exchange))} == {}


@pytest.mark.parametrize(("kind", "least"), [("responses", 20), ("chat", 90)])
def test_requests_to_other_servers_differ_in_known_fields_only(data: Path, kind: str, least: int) -> None:
    answered = [exchange for exchange in recorded(kind) if exchange.status < 300 and not is_own(exchange)]
    assert len(answered) >= least
    odd = {
        exchange.name: found
        for exchange in answered
        for found in judged(exchange)
        if not found.partition(": ")[0].endswith(OTHERS_FIELDS) and not any(words in found for words in OTHERS_WORDS)
    }
    assert odd == {}


@pytest.mark.parametrize("kind", ["responses", "chat"])
def test_calls_of_other_servers_have_results_by_the_same_rule(data: Path, kind: str) -> None:
    for exchange in recorded(kind):
        if exchange.status < 300 and not is_own(exchange):
            found = (
                chat.rule_problems(exchange.request) if kind == "chat" else responses.rule_problems(exchange.request)
            )
            assert not [words for words in found if "result" in words or "output for" in words], exchange.name


def test_refused_requests_are_refused(data: Path) -> None:
    refused = [exchange for kind in OWN for exchange in recorded(kind) if exchange.status == 400]
    reading = {exchange.name: judged(exchange) for exchange in refused if exchange.name in REFUSED}
    assert set(reading) == set(REFUSED)
    for name, words in REFUSED.items():
        assert any(words in problem for problem in reading[name]), (name, reading[name])


def test_every_recorded_refusal_is_accounted_for(data: Path) -> None:
    for kind in OWN:
        for exchange in recorded(kind):
            if exchange.status == 400 and exchange.name not in REFUSED:
                reading: Any = exchange.body.decode()
                assert any(words in reading for words in OTHER_REASONS), (exchange.name, reading)
