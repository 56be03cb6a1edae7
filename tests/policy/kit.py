"""Canaries and the search for them: a leak is reported by canary, sink and position."""

from __future__ import annotations

import dataclasses
import gc
import random
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from concertino import OPERATOR, DataPolicy, KeepFor, MemoryStore, RunEvent, SqliteStore, ToolData
from concertino.orchestrator import Treatment
from concertino.storage import Memories, Store, StoredJournal

_LETTERS = "ghjkmnpqrstvwxyz"  # no hex digit: no id and no hash looks like a canary
FORMS = {"ascii": "{0}", "unicode": "ключ-{0}-漢字-🦜", "surrogate": "a\ud800{0}\udfff"}
SECRET = b"a secret of thirty-two bytes, so"


class FullStore(Store, Memories, Protocol):
    """All ports."""


class Canaries:
    """A unique string for each entrance, by its name, in one form."""

    def __init__(self, form: str = "ascii", seed: int = 0) -> None:
        self._form = FORMS[form]
        self._random = random.Random(f"{form}{seed}")
        self._cores: dict[str, str] = {}

    def __getitem__(self, entrance: str) -> str:
        if entrance not in self._cores:
            self._cores[entrance] = "".join(self._random.choices(_LETTERS, k=28))
        return self._form.format(self._cores[entrance])

    def __iter__(self) -> Iterator[str]:
        return iter(self._cores)

    def pieces(self) -> Iterator[tuple[str, str]]:
        """Yield both halves of each canary: a partly overwritten row may still contain one of them."""
        for entrance, core in self._cores.items():
            yield entrance, core[:14]
            yield entrance, core[14:]

    def found_in(self, content: bytes) -> dict[str, bytes]:
        """Return the canaries in *content*, each with its surroundings."""
        found: dict[str, bytes] = {}
        for entrance, piece in self.pieces():
            start = content.find(piece.encode())
            if start >= 0 and entrance not in found:
                found[entrance] = content[max(start - 60, 0) : start + 60]
        return found


@dataclass
class Leaks:
    """The canaries that were found, by sink. `check` fails with all of them."""

    canaries: Canaries
    allowed: set[str] = field(default_factory=set)
    """Entrances that are structure, or that the policy under test keeps."""
    found: list[str] = field(default_factory=list)
    entrances: set[str] = field(default_factory=set)

    def look(self, sink: str, content: bytes, path: Path | None = None) -> None:
        """Search *content* for all canaries, and report their tables in the file at *path*."""
        for entrance, around in self.canaries.found_in(content).items():
            if entrance in self.allowed:
                continue
            self.entrances.add(entrance)
            where = "" if path is None else f" [{', '.join(rows_with(path, self.canaries, entrance)) or 'in no row'}]"
            self.found.append(f"{entrance!r} is in {sink}{where}: {around!r}")

    def check(self) -> None:
        """Fail if anything was found."""
        if self.found:
            pytest.fail(f"{len(self.found)} leaks:\n" + "\n".join(self.found), pytrace=False)


def rows_with(path: Path, canaries: Canaries, entrance: str) -> list[str]:
    """Return `table.column` of each row with the canary; empty if it is outside rows (a free page, a log)."""
    pieces = [piece for name, piece in canaries.pieces() if name == entrance]
    found: set[str] = set()
    with closing(sqlite3.connect(path)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for column in [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")').fetchall()]:
                condition = f'instr(CAST("{column}" AS BLOB), CAST(? AS BLOB)) > 0'
                sql = f'SELECT count(*) FROM "{table}" WHERE {condition}'
                if any(connection.execute(sql, (piece,)).fetchone()[0] for piece in pieces):
                    found.add(f"{table}.{column}")
    return sorted(found)


def files(path: Path) -> list[Path]:
    """Return the database file and its companions."""
    return sorted(each for each in path.parent.iterdir() if each.name.startswith(path.name))


@dataclass
class Sinks:
    """All sinks of a run: logs, output, observers and the database file."""

    caplog: pytest.LogCaptureFixture
    capfd: pytest.CaptureFixture[str]
    path: Path
    events: list[str] = field(default_factory=list, repr=False)

    def observe(self, event: RunEvent) -> None:
        """Record every event in full, as a log or a trace would."""
        self.events.append(f"{type(event).__name__} {event!r} {dataclasses.asdict(event)!r}")

    def look_outside(self, leaks: Leaks) -> None:
        """Search logs, observers and printed output."""
        gc.collect()  # asyncio logs unretrieved exceptions of tasks when they are collected
        logged = [f"{record.args!r}" for record in self.caplog.records]
        leaks.look("the log", _bytes([self.caplog.text, *logged]))
        for event in self.events:
            leaks.look(f"an observer's {event.partition(' ')[0]}", _bytes([event]))
        for name, text in zip(("stdout", "stderr"), self.capfd.readouterr(), strict=True):
            leaks.look(name, _bytes([text]))

    def look_in_files(self, leaks: Leaks, when: str) -> None:
        """Search the bytes of the database, its write-ahead log and its index."""
        for each in files(self.path):
            leaks.look(f"{each.name} ({when})", each.read_bytes(), self.path)


async def look_by_port(store: FullStore, leaks: Leaks) -> None:
    """Search everything that the store's port returns."""
    for run in await store.runs(OPERATOR, limit=1_000_000):
        run_id = run.start.run_id
        parts = {
            "runs": run,
            "load": await store.load(OPERATOR, run_id),
            "messages": [dataclasses.asdict(each) for each in await store.messages(OPERATOR, run_id)],
            "waits": await store.waits(OPERATOR, run_id=run_id, open=False),
            "commands": await store.commands(OPERATOR, run_id),
            "usage": await store.usage(OPERATOR, run_id),
        }
        for name, part in parts.items():
            leaks.look(f"store.{name} of {run.start.agent_path}", _bytes([repr(part), *_progress(part)]))


def _progress(part: Any) -> Iterable[str]:
    """Return what a message's `repr` leaves out."""
    for entry in part.entries if isinstance(part, StoredJournal) else ():
        yield from (repr(dataclasses.asdict(each)) for each in entry.messages)


def _bytes(texts: Iterable[str]) -> bytes:
    return "\n".join(texts).encode("utf-8", "surrogatepass")


def everywhere(how: Treatment, **more: Any) -> DataPolicy:
    """Return a policy that treats all content alike."""
    key = SECRET if how == "hash" else b""
    return DataPolicy(text=how, reasoning=how, other_tools=ToolData(arguments=how, results=how), hash_key=key, **more)


POLICIES = {
    "drop": everywhere("drop"),
    "redact": everywhere("redact"),
    "hash": everywhere("hash"),
    "keep for a time": everywhere(KeepFor(0.2)),
}
STORES = ("sqlite", "memory")


async def open_store(kind: str, path: Path) -> FullStore:
    """Open a store of that kind, with its file at *path* if it has one."""
    return MemoryStore() if kind == "memory" else await SqliteStore.open(path)
