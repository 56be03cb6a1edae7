"""The backends of `docs/server.md`, each as a program: two processes on one store, which end with SIGTERM."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket
from typing import Any

import httpx2
import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN, MOUNTED = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "server.md").read_text(), re.DOTALL)
STARLETTE = "from starlette.applications import Starlette as FastAPI\nfrom starlette.requests import Request"
MOUNT = ("-m", "uvicorn", "backend:app", "--timeout-graceful-shutdown", "10", "--port")
BACKENDS = {
    "own": (OWN, (), {"cookie": "session=s3cret"}, ""),
    "FastAPI": (MOUNTED, MOUNT, {"x-user": "ann"}, "/assistant"),
    "Starlette": (
        MOUNTED.replace("from fastapi import FastAPI, Request", STARLETTE),
        MOUNT,
        {"x-user": "ann"},
        "/assistant",
    ),
}


def free_port() -> int:
    with socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def served(folder: Path, command: tuple[str, ...], headers: dict[str, str]) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of a process, which must end well after SIGTERM."""
    port = free_port()
    arguments = (*command, str(port)) if command else ("backend.py",)
    environment = os.environ | {"PORT": str(port), "MODEL": "demo", "PYTHONPATH": str(ROOT / "src")}
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=folder, env=environment)
    url = f"http://127.0.0.1:{port}"
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=600) as client:
        while True:
            assert process.returncode is None
            try:
                await client.get("/")
                break
            except httpx2.ConnectError:
                await asyncio.sleep(0.05)
        yield client
        process.send_signal(signal.SIGTERM)
        # uvicorn ends with the signal itself after a clean shutdown
        assert await process.wait() in (0, -signal.SIGTERM)


def test_the_backends_are_short() -> None:
    for source in (OWN, MOUNTED):
        assert len(source.splitlines()) <= 30


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("name", BACKENDS)
async def test_a_backend_serves_one_store_from_two_processes(name: str, tmp_path: Path) -> None:
    source, command, headers, root = BACKENDS[name]
    (tmp_path / "backend.py").write_text(source)
    async with served(tmp_path, command, headers) as one, served(tmp_path, command, headers) as two:
        assert (await one.get(f"{root}/ready")).json() == {"status": "ready"}
        for sent in headers:
            assert (await one.get(f"{root}/api/agents", headers={sent: ""})).status_code == 401
        made: Any = (await one.post(f"{root}/api/conversations", json={})).json()
        path = f"{root}/api/conversations/{made['id']}/turns"
        turn = (await one.post(path, json={"text": "What is a lock?"})).json()
        events = (await two.get(f"{path}/{turn['id']}/events")).text
        assert '"type":"run_ended"' in events
        shown = (await two.get(path)).json()["items"]
        assert [(each["state"], bool(each["answer"])) for each in shown] == [("completed", True)]
