"""The OpenAPI document and the routes agree: Schemathesis sends what the document allows and what it does not."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from .kit import User, shop
from .test_processes import server

EXAMPLES = 100
SEED = 1
CONFIG = """
headers = {{ "x-session" = "acme/ann" }}

[generation]
max-examples = {examples}
"""
SEEDED = """
[parameters]
"path.turn" = "{turn}"
"path.run" = "{turn}"
"path.worker" = "analyst"

[[operations]]
include-path-regex = "conversation./"
parameters = {{ "path.conversation" = "{conversation}" }}
"""
"""The operations find a conversation, a turn and a worker."""


async def test_every_operation_is_described() -> None:
    async with shop() as app:
        document = await User(app, "")("GET", "/api/openapi.json")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"].endswith("."), f"{method} {path}"
            assert "default" in operation["responses"]
            assert len(operation["responses"]) == (3 if path.endswith(("{run}/events", "{turn}/events")) else 2)
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phases", "config"),
    [("examples,coverage,fuzzing", CONFIG + SEEDED), ("stateful", CONFIG)],
    ids=["single", "stateful"],
)
async def test_schemathesis_finds_nothing(phases: str, config: str, tmp_path: Path) -> None:
    async with server(tmp_path, stream_seconds=0.2) as one:
        turn = await one.send(await one.new_conversation(), "Hello")
        await one.follow(turn)
        _, _, _, conversation, _, run = turn.split("/")
        path = tmp_path / "schemathesis.toml"
        path.write_text(config.format(examples=EXAMPLES, conversation=conversation, turn=run))
        command = (sys.executable, "-m", "schemathesis.cli", "--config-file", str(path), "run", "--seed", str(SEED))
        url = f"{one.http.base_url}/api/openapi.json"
        process = await asyncio.create_subprocess_exec(
            *(*command, url, "--no-color", "--phases", phases),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()[-5000:]
