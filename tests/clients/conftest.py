from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from concertino import SqliteStore
from tests.npm import installed

from .app import runtime_on, served

HERE = Path(__file__).parent
_PRINTED: dict[tuple[str, ...], dict[str, Any]] = {}
Drive = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def base(tmp_path: Path) -> AsyncIterator[str]:
    """Return the address of a server."""
    async with await SqliteStore.open(tmp_path / "server.db") as store, served(runtime_on(store)) as address:
        yield address


@pytest.fixture(scope="session")
def packages() -> Path:
    """Return a folder with the packages of package.json."""
    return installed(HERE / "package.json")


@pytest.fixture
def drive(packages: Path, tmp_path: Path) -> Drive:
    """Return a function that runs a script with a server of its own, once, and returns the JSON that it prints."""

    async def run(script: str, *arguments: str) -> dict[str, Any]:
        key = (script, *arguments)
        if key not in _PRINTED:
            shutil.copy(HERE / script, packages / script)
            async with await SqliteStore.open(tmp_path / "server.db") as store, served(runtime_on(store)) as address:
                command = ("node", str(packages / script), *arguments, address)
                process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                printed, errors = await process.communicate()
            assert process.returncode == 0, errors.decode()
            _PRINTED[key] = json.loads(printed)
        return _PRINTED[key]

    return run
