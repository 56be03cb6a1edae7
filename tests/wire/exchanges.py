"""Exchanges with providers, streamed and not, from the samples in the tree or from recorded traffic."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
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
    """A request and its answer."""

    name: str
    kind: str
    host: str
    features: frozenset[str]
    request: Any
    """The request's JSON; None if it is unknown."""
    status: int
    headers: dict[str, str]
    body: bytes
    streamed: bool

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON objects of a stream."""
        lines = (line[5:].strip() for line in self.body.decode().splitlines() if line.startswith("data:"))
        return [json.loads(line) for line in lines if line and line != "[DONE]"]


@cache
def cases(root: Path = TRAFFIC) -> dict[str, list[Exchange]]:
    """Return the exchanges below *root* by file name, in order."""
    found = {}
    for path in sorted(root.glob("*/*/*.json")):
        name = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
        found[name] = list(_exchanges(name, json.loads(path.read_text())["interactions"]))
    return found


def exchanges(kind: str, root: Path = TRAFFIC) -> Iterator[Exchange]:
    """Return the exchanges of one format."""
    return (exchange for case in cases(root).values() for exchange in case if exchange.kind == kind)


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
