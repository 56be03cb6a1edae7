"""The published tasks, and what the original environment recorded of them."""

from __future__ import annotations

import copy
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .airline import opened


class Published:
    """The published data, with the database in the form of the recorded results."""

    def __init__(self, folder: Path) -> None:
        self.policy = (folder / "policy.md").read_text()
        self.tools: list[dict[str, Any]] = json.loads((folder / "tools.json").read_text())["assistant"]
        self.gold = {task["task_id"]: task for task in json.loads((folder / "gold_replay.json").read_text())["tasks"]}
        self._asked = {task["id"]: task for task in json.loads((folder / "tasks.json").read_text())}
        self.database = opened(json.loads(gzip.decompress((folder / "db.json.gz").read_bytes())))

    def asked(self, task: str) -> str:
        """What the user comes with."""
        told = self._asked[task]["user_scenario"]["instructions"]
        return f"{told['reason_for_call']}\n\n{told['known_info']}"

    def expected(self, task: str) -> dict[str, Any]:
        """The database as it was recorded at the end."""
        database = dict(self.database)
        for change in self.gold[task]["db_diff"]:
            place: Any = database
            *way, last = change["path"]
            for step in way:
                place[step] = copy.copy(place[step])
                place = place[step]
            assert place.get(last) == change["before"], change["path"]
            if change["after"] is None:
                del place[last]
            else:
                place[last] = change["after"]
        return database


@cache
def _published(folder: Path) -> Published:
    return Published(folder)


@pytest.fixture
def published(data: Path) -> Published:
    return _published(data / "tau2/airline")
