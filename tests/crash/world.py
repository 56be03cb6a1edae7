"""What the tests have in hand: the processes outside, and lives that can be started, stopped and killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .program import ROOT, Orders

REPOSITORY = Path(__file__).resolve().parents[2]
_FAST = Path("/dev/shm")


class Life:
    """A process that lives by *orders*."""

    def __init__(self, path: str, orders: Any) -> None:
        self._talk = socket.socket(socket.AF_UNIX)
        self._talk.connect(path)
        self._lines = self._talk.makefile("r")
        self.write(asdict(orders))
        self.pid: int = self.read()["pid"]
        self.point = 0
        """The number of the point at which it has stopped itself."""

    def write(self, record: dict[str, Any]) -> None:
        """Say something to it."""
        self._talk.sendall(json.dumps(record).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        """What it says next; {}: it is dead."""
        try:
            line = self._lines.readline()
        except ConnectionError:
            return {}
        return json.loads(line) if line.endswith("\n") else {}

    def end(self) -> dict[str, Any] | None:
        """How it ended, when it has; None: it was killed."""
        said = self.read()
        while "point" in said or "ready" in said:
            said = self.read()
        self.bury()
        if said.get("done", said) is None:
            raise AssertionError(f"the program failed: {said['error']}\n{said['trace']}")
        return said["done"] if said else None

    def until_stopped(self) -> str:
        """The point at which it has stopped itself, once it surely stands; "": it came to its end before."""
        said = self.read()
        while "ready" in said:
            said = self.read()
        if "point" not in said:
            self.bury()
            return ""
        self.point = int(said["number"])
        stat = Path(f"/proc/{self.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)  # it has said so, and does it now
        return str(said["point"])

    def send(self, number: int) -> None:
        """Send it a signal, unless it is dead."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def bury(self) -> None:
        """Wait until it is gone for the kernel too, and let go of it."""
        while Path(f"/proc/{self.pid}").exists():
            time.sleep(0.0005)
        self._lines.close()
        self._talk.close()


class Case:
    """A folder with a database, what the world outside has seen, and the lives that work on it."""

    def __init__(self, world: World, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._world = world
        self.lives = 0

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.folder / "runs.db"

    def effects(self) -> list[dict[str, Any]]:
        """What the receiver of effects has written down."""
        return lines_of(self.folder / "effects")

    def calls(self) -> list[dict[str, Any]]:
        """What the provider has written down."""
        return lines_of(self.folder / "calls")

    def life(self, do: str = "finish", **orders: Any) -> Life:
        """A new process."""
        self.lives += 1
        path = self._world.sockets
        given = Orders(str(self.folder), f"{path}/effects", f"{path}/provider", do, **orders)
        return Life(f"{path}/program", given)

    def finish(self, **orders: Any) -> dict[str, Any]:
        """How it ends, after as many undisturbed lives as it takes: one."""
        done = self.life(**orders).end()
        assert done is not None
        return done


class World:
    """The processes outside, for all cases."""

    def __init__(self, package: str = "tests.crash") -> None:
        self.sockets = Path(tempfile.mkdtemp(prefix="crash", dir=_FAST if _FAST.is_dir() else None))
        self._processes = [
            subprocess.Popen([sys.executable, "-m", *module, f"{self.sockets}/{name}"], cwd=REPOSITORY)
            for name, module in (
                ("effects", [f"{package}.outside", "effects"]),
                ("provider", [f"{package}.outside", "provider"]),
                ("program", [f"{package}.program"]),
            )
        ]
        self._cases = 0
        for name in ("effects", "provider", "program"):
            while not (self.sockets / name).exists():
                assert all(process.poll() is None for process in self._processes)
                time.sleep(0.01)

    def case(self, name: str = "case") -> Case:
        """A case of its own."""
        return Case(self, self.folder(name))

    def folder(self, name: str) -> Path:
        """A path that no other case has."""
        self._cases += 1
        return self.sockets / f"{name}-{self._cases}"

    def close(self) -> None:
        """End the processes, and forget the cases."""
        for process in self._processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.sockets)


def world() -> Iterator[World]:
    """One for the whole session."""
    made = World()
    yield made
    made.close()


def kill_self(at: str = ".*", count: int = 1) -> dict[str, Any]:
    """Orders for a life that kills itself at the *count*-th point whose name *at* matches."""
    return {"signal": int(signal.SIGKILL), "at": at, "count": count}


def stop_self(at: str = ".*", count: int = 1) -> dict[str, Any]:
    """As `kill_self`, and it can be continued."""
    return {"signal": int(signal.SIGSTOP), "at": at, "count": count}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


__all__ = ["ROOT", "Case", "Life", "World", "kill_self", "stop_self", "world"]
