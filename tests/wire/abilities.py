"""The abilities of each adapter, measured: the tables of docs/providers.md.

`python -m tests.wire.abilities` writes it there; `test_providers_page` fails when it is not what is found.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concertino.errors import UnsupportedError
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import OutputSchema
from concertino.providers.openai.chat.vendors import VENDORS

from .abilities_answers import rows as answers
from .test_clouds import CLOUDS
from .test_faults import STATUSES
from .test_typed_requests import NEW, written

PAGE = Path(__file__).resolve().parents[2] / "docs" / "providers.md"
BEGIN, END = "<!-- made by python -m tests.wire.abilities: do not edit -->", "<!-- end -->"
KINDS = {"anthropic": "Anthropic Messages", "responses": "OpenAI Responses", "chat": "OpenAI Chat", "google": "Gemini"}
OWNER = {"anthropic": "anthropic", "responses": "openai", "chat": "openai", "google": "google"}
TOOL = ToolSpec("weather", "Tells the weather.", {"type": "object", "properties": {}, "additionalProperties": False})
SCHEMA = OutputSchema("Answer", {"type": "object", "properties": {}, "additionalProperties": False})


@dataclass(frozen=True, slots=True)
class Ability:
    """A setting or content, and the JSON that proves that a request contains it."""

    label: str
    marks: dict[str, str]
    """By format: JSON that a request must contain. Formats without an entry lack the ability."""
    settings: dict[str, Any]
    messages: Callable[[str], tuple[Message, ...]] = lambda kind: (UserMessage("Hi"),)


def _same(mark: str, *without: str) -> dict[str, str]:
    return {kind: mark for kind in KINDS if kind not in without}


def _loop(kind: str, *parts: Any, **result: Any) -> tuple[Message, ...]:
    call = ToolCall("call_1", "weather", "{}", provider=OWNER[kind])
    return (UserMessage("Hi"), AssistantMessage((*parts, call)), ToolMessage("call_1", "weather", "mild", **result))


def _media(kind: str, media_type: str) -> tuple[Message, ...]:
    return (UserMessage("Look", (Media(media_type, data="QUJD", name="a.bin"),)),)


def _reasoned(kind: str) -> tuple[Message, ...]:
    return _loop(kind, Reasoning("Hm", id="rs_1", signature="c2lnbmVk", provider=OWNER[kind]))


def _opaque(kind: str) -> tuple[Message, ...]:
    raw = '{"type":"block","sent":"as it came"}'
    answer = AssistantMessage((Opaque(OWNER[kind], "block", raw), Text("So.")))
    return (UserMessage("Hi"), answer, UserMessage("And?"))


ABILITIES = (
    Ability("text", _same('"Hi"'), {}),
    Ability("tools", _same("Tells the weather."), {"tools": (TOOL,)}),
    Ability("the provider's own tools, next to ours (`extra`)", _same('{"type":"own_tool"}'),
            {"tools": (TOOL,), "extra": {"tools": [{"type": "own_tool"}]}}),
    Ability(
        "one tool forced",
        {"anthropic": '"tool_choice":{"type":"tool"', "responses": '"tool_choice":{', "chat": '"tool_choice":{',
         "google": "allowedFunctionNames"},
        {"tools": (TOOL,), "tool_choice": ForcedTool("weather")},
    ),
    Ability(
        "tools declared but forbidden",
        {"anthropic": '{"type":"none"}', "responses": '"tool_choice":"none"', "chat": '"tool_choice":"none"',
         "google": '"NONE"'},
        {"tools": (TOOL,), "tool_choice": "none"},
    ),
    Ability(
        "parallel calls disabled",
        {"anthropic": "disable_parallel_tool_use", "responses": "parallel_tool_calls", "chat": "parallel_tool_calls"},
        {"tools": (TOOL,), "parallel_tool_calls": False},
    ),
    Ability("failed results marked", {"anthropic": '"is_error":true'}, {"tools": (TOOL,)},
            lambda kind: _loop(kind, is_error=True)),
    Ability("structured output", {**_same("json_schema"), "google": "responseJsonSchema"}, {"output_schema": SCHEMA}),
    Ability(
        "reasoning effort",
        {"anthropic": '"effort":"high"', "responses": '"effort":"high"', "chat": '"reasoning_effort":"high"',
         "google": "HIGH"},
        {"effort": "high"},
    ),
    Ability("temperature, if the model accepts one", {**_same('"temperature":0.5')}, {"temperature": 0.5, "old": True}),
    Ability("`top_p`, if the model accepts one", {**_same('"top_p":0.5', "google"), "google": '"topP":0.5'},
            {"top_p": 0.5, "old": True}),
    Ability("seed", {"chat": '"seed":7', "google": '"seed":7'}, {"seed": 7}),
    Ability("penalties, if the model accepts them",
            {"chat": '"frequency_penalty":0.5,"presence_penalty":0.25', "google": '"presencePenalty":0.25'},
            {"frequency_penalty": 0.5, "presence_penalty": 0.25, "old": True}),
    Ability("probabilities of tokens, if the model reports them",
            {"responses": '"top_logprobs":2', "chat": '"top_logprobs":2', "google": '"logprobs":2'},
            {"logprobs": 2, "old": True}),
    Ability("service tier", {**_same('"service_tier":"flex"', "google"), "google": '"serviceTier":"flex"'},
            {"service_tier": "flex"}),
    Ability("stop texts", {"anthropic": "stop_sequences", "chat": '"stop"', "google": "stopSequences"},
            {"stop": ("END",)}),
    Ability("output limit", {"anthropic": "max_tokens", "responses": "max_output_tokens",
                                    "chat": "max_completion_tokens", "google": "maxOutputTokens"},
            {"max_output_tokens": 777}),
    Ability("images", _same("QUJD"), {}, lambda kind: _media(kind, "image/png")),
    Ability("PDFs", _same("QUJD"), {}, lambda kind: _media(kind, "application/pdf")),
    Ability("audio", _same("QUJD", "anthropic", "responses"), {}, lambda kind: _media(kind, "audio/wav")),
    Ability("video", _same("QUJD", "anthropic", "responses", "chat"), {}, lambda kind: _media(kind, "video/mp4")),
    Ability("signed reasoning sent back", _same("c2lnbmVk", "chat"), {"tools": (TOOL,)}, _reasoned),
    Ability("opaque blocks sent back", _same("as it came", "chat"), {}, _opaque),
    Ability("cache breakpoints", {"anthropic": "cache_control", "responses": "prompt_cache_breakpoint",
                                  "chat": "prompt_cache_breakpoint"}, {"breakpoints": (0,)}),
    Ability("cache key", {"responses": "prompt_cache_key", "chat": "prompt_cache_key"}, {"cache_key": "k"}),
)  # fmt: skip

OLD = {"anthropic": "claude-sonnet-4-5", "responses": "gpt-4.1", "chat": "gpt-4.1", "google": "gemini-2.5-flash"}


def cell(ability: Ability, kind: str) -> str:
    """Return `yes`, `no` if the format lacks it, or `refused` with the remedy of the error."""
    settings = dict(ability.settings)
    model = OLD[kind] if settings.pop("old", False) else NEW[kind]
    try:
        body = written(kind, *ability.messages(kind), model=model, **settings).data.decode()
    except UnsupportedError as error:
        return f"refused: {str(error).rpartition('; ')[2]}"
    has = kind in ability.marks and ability.marks[kind] in body
    return "yes" if has else "no"


def table() -> str:
    """Return the tables of requests, answers, clients, statuses and vendors."""
    rows = [["in a request", *KINDS.values()], ["---"] * (len(KINDS) + 1)]
    rows += [[ability.label, *(cell(ability, kind) for kind in KINDS)] for ability in ABILITIES]
    found = asyncio.run(answers(KINDS))
    found[0][0] = "in an answer"
    clients = [["client passed in", "path"], ["---"] * 2]
    clients += [[cloud.label, f"`{cloud.path.partition('?')[0]}`"] for cloud in CLOUDS]
    errors = [["HTTP status", "error"], ["---"] * 2]
    for kind in dict.fromkeys(error for _, error in STATUSES):
        errors.append([", ".join(str(status) for status, error in STATUSES if error is kind), f"`{kind.__name__}`"])
    return "\n\n".join(map(_joined, (rows, found, clients, errors, _vendors())))


def _vendors() -> list[list[str]]:
    head = [
        "vendor",
        "key",
        "field of returned reasoning",
        "schemas",
        "content",
        "cache",
        "parallel switch",
        "tool choices",
    ]
    names = [head, ["---"] * len(head)]
    for vendor in VENDORS:
        cache = "key" if vendor.cache_key else "breakpoints" if vendor.breakpoints else "automatic"
        cells = [f"`{vendor.name}`", f"`{vendor.key}`" if vendor.key else "none", vendor.reasoning or "none"]
        cells += [_yes(vendor.schemas), ", ".join(["text", *sorted(vendor.media)]), cache]
        names.append([*cells, _yes(vendor.parallel_switch), ", ".join(["auto", *vendor.choices])])
    return names


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _joined(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page(text: str) -> str:
    """Return *text* with current tables."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    sys.exit(0)
