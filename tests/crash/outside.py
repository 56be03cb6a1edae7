"""The world outside, in processes of its own: who is killed takes nothing of it along.

    python -m tests.crash.outside effects|provider SOCKET

*effects* writes down each effect before it answers, and knows the keys of idempotent ones. *provider* is a model whose
answer follows from the request alone, and writes down each request before it answers. One line of JSON in; lines out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any]]
Turn = list[Call] | str
Say = Callable[[dict[str, Any]], Awaitable[None]]

SCRIPTS: dict[str, list[Turn]] = {
    "boss": [
        [
            ("look", {"place": 1}),
            ("note", {"place": 2}),
            ("pay", {"place": 3}),
            ("mail", {"place": 4}),
            ("child", {"query": "one"}),
            ("child", {"query": "two"}),
        ],
        [("pay", {"place": 5}), ("look", {"place": 6})],
        "the boss is done",
    ],
    "child": [
        [("note", {"place": 1}), ("mail", {"place": 2}), ("grandchild", {"query": "deep"})],
        "the child is done",
    ],
    "grandchild": [[("sign", {"place": 1}), ("look", {"place": 2})], "the grandchild is done"],
    "poisoned": [[("poison", {"place": 1})], "nobody gets here"],
    "choked": ["a model whose answer kills whoever reads it"],
    "waiter": [[("await_result", {"place": 1})], "the waiter is done"],
    "careless": [[("spawns", {"place": 1})], "the careless one is done"],
}
"""By agent: what its model says in each step."""

_MOST_OPEN = 200
"""Logs, one of each case: a process may have no more than 1,024 files open on many systems."""
_fds: dict[str, int] = {}
_keys: dict[str, dict[str, str]] = {}


def write_line(log: str, record: dict[str, Any]) -> None:
    """In one piece, and in the kernel's hands before this returns: nothing short of a power cut takes it back."""
    if log not in _fds:
        if len(_fds) == _MOST_OPEN:
            os.close(_fds.pop(next(iter(_fds))))
        _fds[log] = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_fds[log], json.dumps(record).encode() + b"\n")


async def effect(asked: dict[str, Any], say: Say) -> None:
    """Take effect, or tell a probe whether it has."""
    done = _keys.setdefault(asked["log"], {})
    key = asked["key"]
    if asked["what"] == "probe":
        await say({"found": done.get(key)})
        return
    applied = asked["what"] == "once" or (asked["what"] == "idempotent" and key not in done)
    text = f"{asked['tool']} {asked['place']} done"
    if applied:
        done[key] = text
    write_line(asked["log"], {**asked, "applied": applied, "at": time.time()})
    await asyncio.sleep(0.001)
    await say({"text": text})


async def answer(asked: dict[str, Any], say: Say) -> None:
    """Answer as a model: what follows from the agent and how often it has spoken."""
    request = asked["request"]
    tokens = [100 + len(request["messages"]), 10]
    write_line(asked["log"], {**asked, "tokens": tokens, "at": time.time()})
    agent = request["system"].split()[3].strip(".")
    step = sum(json.loads(message)["role"] == "assistant" for message in request["messages"])
    turn = SCRIPTS[agent][step]
    text = turn if isinstance(turn, str) else f"step {step + 1} of {agent}"
    for word in text.split():
        await say({"text": word + " "})
        await asyncio.sleep(0.0005)
    calls = [] if isinstance(turn, str) else turn
    made = [[f"{agent}-{step}-{n}", name, json.dumps(arguments)] for n, (name, arguments) in enumerate(calls)]
    await say({"end": True, "text": text + " ", "calls": made, "tokens": tokens})


async def serve(handle: Callable[[dict[str, Any], Say], Awaitable[None]], path: str) -> None:
    """Serve until killed."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(record: dict[str, Any]) -> None:
            writer.write(json.dumps(record).encode() + b"\n")
            await writer.drain()

        try:
            if line := await reader.readline():
                await handle(json.loads(line), say)
        except ConnectionError:
            pass  # who asked is dead
        finally:
            writer.close()

    server = await asyncio.start_unix_server(connected, path + ".new", limit=1 << 24)
    Path(path + ".new").rename(path)  # noqa: ASYNC240 - before anybody is served
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve({"effects": effect, "provider": answer}[sys.argv[1]], sys.argv[2]))
