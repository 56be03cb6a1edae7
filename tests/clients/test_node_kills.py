"""Clients in Node whose server is killed in mid-answer, and that continue at another process of the store."""

from __future__ import annotations

import asyncio
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.server.kit import Json

from .conftest import HERE
from .test_kills import process
from .test_routes import RESUMED

pytestmark = pytest.mark.node


@pytest.mark.parametrize("kind", ["5", "6", "7", "ag-ui"])
async def test_a_message_is_whole_after_a_kill(kind: str, packages: Path, tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    shutil.copy(HERE / "kill.mjs", packages / "kill.mjs")
    # A slow answer does not end before its process is killed.
    async with process(database, pause=0.1) as (first, one), process(database) as (_, other):
        command = ("node", str(packages / "kill.mjs"), kind, str(first.pid), one, other)
        pipe = asyncio.subprocess.PIPE
        client = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        printed, errors = await client.communicate()
    assert client.returncode == 0, errors.decode()
    found = json.loads(printed)
    assert found["broken"]["status"] == "error"
    assert RESUMED.startswith(found["broken"]["text"])
    assert found["status"] == "ready"
    for messages in (found["messages"], found["history"]):
        question, answer = messages
        assert [part["text"] for part in question["parts"]] == ["conform:resume"]
        assert shown(answer) == RESUMED
    assert not any(part["type"] == "data-void" for part in found["history"][1]["parts"])


def shown(message: Json) -> str:
    """Return the text of a message without its void part, which the mark follows."""
    parts = [*message["parts"], {"type": "end"}]
    return "".join(part.get("text", "") for part, after in pairwise(parts) if after["type"] != "data-void")
