from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from concertino import SqliteStore

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
    """Return a folder with the packages of package.json; they are installed once per machine."""
    missing = [program for program in ("node", "npm") if shutil.which(program) is None]
    if missing:
        if "CI" in os.environ or "REQUIRE_DATA" in os.environ:
            pytest.fail(f"{' and '.join(missing)} must be installed in .ci/run")
        pytest.skip(f"needs {' and '.join(missing)}")
    listed = (HERE / "package.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "concertino"
    folder = cache / f"clients-{hashlib.sha256(listed).hexdigest()[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache))
        (made / "package.json").write_bytes(listed)
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(install, cwd=made, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    return folder


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
