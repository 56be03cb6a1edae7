"""Sample exchanges in every wire format, written from the vendors' documentation: `python -m tests.wire.samples`.

Each scenario is an abstract answer. A dialect writes it as a whole body and as a stream, so both must read the same.
The files have the layout of recorded traffic (see `exchanges.py`), so the same tests read both.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .sample_dialects import DIALECTS, Dialect

SAMPLES = Path(__file__).parent / "data"
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCall:
    """A tool call of an answer."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleUsage:
    """The tokens of an answer; `prompt` and `completion` include the others."""

    prompt: int = 40
    completion: int = 20
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAnswer:
    """An answer in no format."""

    text: tuple[str, ...] = ()
    """Pieces of the text, as a stream sends them."""
    reasoning: tuple[str, ...] = ()
    calls: tuple[SampleCall, ...] = ()
    stop: str = "end"
    usage: SampleUsage = field(default_factory=SampleUsage)


BONN = SampleCall(id="call_bonn1", name="weather", arguments={"city": "Bonn"})
KYOTO = SampleCall(id="call_kyoto", name="weather", arguments={"city": "京都", "days": [1, 2], "note": 'a "b" \\ c'})
NOW = SampleCall(id="call_now01", name="now", arguments={})

SCENARIOS: dict[str, SampleAnswer] = {
    "text": SampleAnswer(text=("It ", "rains", " in Bonn.")),
    "unicode": SampleAnswer(text=("Grüße aus 京都 ", "🌧️ — ", "naïve\n\ttext, “quoted” \\ “too”")),
    "reasoning": SampleAnswer(
        reasoning=("The user asks ", "about rain."),
        text=("Rain.",),
        usage=SampleUsage(completion=60, reasoning=45),
    ),
    "call": SampleAnswer(calls=(BONN,), stop="calls"),
    "parallel_calls": SampleAnswer(calls=(BONN, KYOTO), stop="calls"),
    "call_without_arguments": SampleAnswer(calls=(NOW, BONN), stop="calls"),
    "reasoning_and_call": SampleAnswer(
        reasoning=("I need the weather.",), calls=(BONN,), stop="calls", usage=SampleUsage(completion=50, reasoning=30)
    ),
    "length": SampleAnswer(text=("It rains and",), stop="length"),
    "cached": SampleAnswer(text=("Again.",), usage=SampleUsage(prompt=2_000, cached=1_500, cache_write=400)),
}

DEVIATING = ("text", "reasoning", "call", "parallel_calls", "reasoning_and_call", "cached")
"""The scenarios of servers that implement Chat Completions, where they differ from OpenAI's."""

RESULT = "Rain, 12 °C"
STREAMED = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


def write(folder: Path) -> int:
    """Write all samples below *folder*, replacing what is there, and return the number of exchanges."""
    shutil.rmtree(folder, ignore_errors=True)
    count = 0
    for dialect in DIALECTS:
        own = "compat" not in dialect.folder
        scenarios = SCENARIOS if own else DEVIATING
        cases = {name: list(_both(dialect, SCENARIOS[name])) for name in scenarios}
        cases["tool_loop"] = list(_tool_loop(dialect))
        if own:
            cases["errors"] = list(_errors(dialect))
        for name, interactions in cases.items():
            path = folder / dialect.folder / f"{dialect.name}-{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            content = {"case": path.stem, "interactions": interactions}
            path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
            count += len(interactions)
    return count


def _interaction(
    dialect: Dialect,
    body: str,
    *features: str,
    request: Any = None,
    status: int = 200,
    headers: dict[str, str] = STREAMED,
) -> dict[str, Any]:
    return {
        "provider": dialect.folder.partition("/")[0],
        "endpoint": dialect.folder.partition("/")[2],
        "features": list(features),
        "request": {"host": dialect.host, "body": None if request is None else json.dumps(request, ensure_ascii=False)},
        "response": {"status": status, "headers": headers, "body": body},
    }


def _both(dialect: Dialect, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
    features = ["tool_call"] if answer.calls else []
    yield _interaction(dialect, dialect.stream(answer), "stream", *features)
    body = json.dumps(dialect.whole(answer), ensure_ascii=False)
    yield _interaction(dialect, body, *features, headers=JSON)


def _tool_loop(dialect: Dialect) -> Iterator[dict[str, Any]]:
    """Yield a question, a call, its result, and the answer; the second request returns the first answer."""
    asked, final = SCENARIOS["reasoning_and_call"], SCENARIOS["text"]
    first = dialect.request("Does it rain in Bonn?", WEATHER)
    second = dialect.request("Does it rain in Bonn?", WEATHER, answer=asked, result=RESULT)
    loop = ("stream", "agent_loop")
    yield _interaction(dialect, dialect.stream(asked), *loop, "tool_call", request=first)
    yield _interaction(dialect, dialect.stream(final), *loop, "req:tool_results", request=second)


def _errors(dialect: Dialect) -> Iterator[dict[str, Any]]:
    for status, kind, message in (
        (400, "invalid", "messages: at least one message is required"),
        (400, "too_long", "prompt is too long: 213462 tokens > 200000 maximum"),
        (401, "authentication", "invalid x-api-key"),
        (403, "permission", "this key may not use the model"),
        (404, "not_found", "model: no-such-model"),
        (429, "rate_limit", "too many requests"),
        (503, "overloaded", "the model is overloaded"),
    ):
        body = json.dumps(dialect.error(status, kind, message))
        headers = {**JSON, "retry-after": "7"} if status == 429 else JSON
        yield _interaction(dialect, body, f"error_{status}", status=status, headers=headers)


if __name__ == "__main__":
    print(f"{write(SAMPLES)} exchanges in {SAMPLES}")
