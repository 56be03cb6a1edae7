"""All recorded exchanges, streamed and not, by the format of their answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from .recordings import TRAFFIC, answers

KINDS = {
    "messages": "anthropic",
    "responses": "responses",
    "chat_completions": "chat",
    "generateContent": "google",
    "generateContent_vertex": "google",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as they were recorded."""

    name: str
    kind: str
    host: str
    features: frozenset[str]
    request: Any
    """The request's JSON; None where it is not known."""
    status: int
    headers: dict[str, str]
    body: bytes
    streamed: bool

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The objects in the lines of a stream."""
        lines = (line[5:].strip() for line in self.body.decode().splitlines() if line.startswith("data:"))
        return [json.loads(line) for line in lines if line and line != "[DONE]"]


@cache
def cases() -> dict[str, list[Exchange]]:
    """By file name, in order."""
    found = {}
    for path in sorted(TRAFFIC.glob("*/*/*.json")):
        name = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
        found[name] = list(_exchanges(name, json.loads(path.read_text())["interactions"]))
    return found


def exchanges(kind: str) -> Iterator[Exchange]:
    """Those of one format."""
    return (exchange for case in cases().values() for exchange in case if exchange.kind == kind)


def _exchanges(name: str, interactions: list[dict[str, Any]]) -> Iterator[Exchange]:
    for number, found in enumerate(interactions):
        asked, response = found["request"], found["response"]
        if found["endpoint"] not in KINDS:
            continue
        body = response.get("body")
        data = base64.b64decode(response.get("body_base64") or "") if body is None else body.encode()
        headers = {key.lower(): value for key, value in (response.get("headers") or {}).items()}
        streamed = "event-stream" in str(headers.get("content-type")) or data[:5] in (b"data:", b"event")
        for part in answers(data.decode()) if streamed and found["endpoint"] == "messages" else [data.decode()]:
            yield Exchange(
                name=f"{name}#{number}",
                kind=KINDS[found["endpoint"]],
                host=asked.get("host") or "",
                features=frozenset(found["features"]),
                request=_json(asked.get("body")),
                status=response["status"],
                headers=headers,
                body=part.encode(),
                streamed=streamed,
            )


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None
