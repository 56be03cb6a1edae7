"""Shared parts of the cassette tests: a local provider, and products that send requests to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from ..wire.wire_kit import Server, sse

ANSWER = {"id": "1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Hello"}}]}
CHAT = sse(
    *({"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"content": word}}]} for word in ("Hel", "lo ", "ü")),
    {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    "[DONE]",
)


def written(path: Path) -> Any:
    """The recording as it stands in its file."""
    return json.loads(path.read_text())


def put(path: Path, found: Any) -> None:
    """Make a recording by hand."""
    path.write_text(found if isinstance(found, str) else json.dumps(found))


def names_in(folder: Path) -> list[str]:
    """The files there, hidden ones too."""
    return [one.name for one in folder.iterdir()]


async def post(url: str, body: Any, **how: Any) -> httpx2.Response:
    """A request that an SDK has nothing to do with."""
    async with httpx2.AsyncClient() as client:
        return await client.post(url, json=body, **how)


def play(server: Server, body: Any, **headers: str) -> None:
    """Have *server* answer with JSON."""
    found = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    server.play(json.dumps(body), headers=found)
