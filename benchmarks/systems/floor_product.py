"""The floor of `product`: the same work in bare asyncio and SQLite."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome, Script
from benchmarks.systems.floor import Floor

DISTRIBUTIONS: tuple[str, ...] = ()
_SCHEMA = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS messages (body TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS images (hash TEXT PRIMARY KEY, data TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, pieces TEXT NOT NULL, last INTEGER NOT NULL);
"""
_WINDOW = 0.025
_POLL = 0.005
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w+")


class _Process:
    def __init__(self, connection: sqlite3.Connection, tool: Callable[..., Any]) -> None:
        self._connection = connection
        self._tool = tool
        self._messages: list[dict[str, Any]] | None = None
        self._last = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def say(self, message: str, image: str = "") -> str:
        if self._messages is None:
            self._messages = [json.loads(body) for (body,) in self._connection.execute("SELECT body FROM messages")]
        messages, script = self._messages, SCRIPT.get()
        user = {"role": "user", "content": message}
        if image:
            base64.b64decode(image, validate=True)
            user["image"] = hashlib.sha256(image.encode()).hexdigest()
            self._connection.execute("INSERT INTO images VALUES (?, ?)", (user["image"], image))
        self._keep([user])
        while True:
            turn = await script.next(len(messages))
            calls = [[call.id, call.name, call.arguments] for call in turn.calls]
            self._keep([{"role": "assistant", "content": turn.text, "calls": calls}])
            if not calls:
                return turn.text
            results = [await self._tool(**json.loads(arguments)) for _, _, arguments in calls]
            self._keep([{"role": "tool", "id": call[0], "content": r} for call, r in zip(calls, results, strict=True)])

    async def start(self) -> str:
        after = self._connection.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0]
        self._tasks.append(asyncio.create_task(self._write(SCRIPT.get())))
        return str(after)

    async def follow(self, run_id: str) -> AsyncIterator[str]:
        after, last = int(run_id), False
        while not last:
            rows = self._connection.execute(
                "SELECT * FROM events WHERE number > ? ORDER BY number", (after,)
            ).fetchall()
            for number, pieces, ends in rows:
                for piece in json.loads(pieces):
                    yield piece
                after, last = number, bool(ends)
            if not rows:
                await asyncio.sleep(_POLL)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _write(self, script: Script) -> None:
        pending: list[str] = []

        def flush(*, last: bool = False) -> None:
            if pending or last:
                with self._connection:
                    row = (json.dumps(pending), last)
                    self._connection.execute("INSERT INTO events (pieces, last) VALUES (?, ?)", row)
                pending.clear()

        async def flush_often() -> None:
            while True:
                await asyncio.sleep(_WINDOW)
                flush()

        flushing = asyncio.create_task(flush_often())
        async for piece in script.pieces(await script.next(1)):
            pending.append(piece)
        flushing.cancel()
        flush(last=True)

    def _keep(self, messages: list[dict[str, Any]]) -> None:
        with self._connection:
            rows = [(json.dumps(message),) for message in messages]
            self._connection.executemany("INSERT INTO messages VALUES (?)", rows)
        assert self._messages is not None
        self._messages += messages


class _Product(Floor):
    def __init__(self, tool: Callable[..., Any]) -> None:
        super().__init__(tool)
        self._function = tool

    @asynccontextmanager
    async def process(self, path: str) -> AsyncIterator[_Process]:
        connection = sqlite3.connect(path)
        connection.executescript(_SCHEMA)
        process = _Process(connection, self._function)
        try:
            yield process
            await process.close()
        finally:
            connection.close()

    async def run(self, conversation: Any = None, *, keep: bool = False, guarded: bool = False) -> Outcome:
        if not guarded:
            return await super().run(conversation, keep=keep)
        messages: list[dict[str, Any]] = [{"role": "user", "content": _hidden(QUESTION)}]
        script = SCRIPT.get()
        turn = await script.next(len(messages))
        while turn.calls:
            messages.append({"role": "assistant", "content": _hidden(turn.text), "calls": turn.calls})
            results = await self._results(turn.calls)
            messages += [{**result, "content": _hidden(result["content"])} for result in results]
            turn = await script.next(len(messages))
        used = script.position * PROMPT_TOKENS, script.position * COMPLETION_TOKENS
        return Outcome(_hidden(turn.text), lambda: used)


def _hidden(text: str) -> str:
    return _ADDRESS.sub("[address]", text)


def build(tool: Callable[..., Any]) -> _Product:
    """Return the loop around *tool*."""
    return _Product(tool)
