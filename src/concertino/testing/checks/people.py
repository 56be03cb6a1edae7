"""The people of a play: they answer the calls that wait, once, twice or late."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Protocol

from ...errors import RunStateError
from ...runtime import Runtime
from ...scope import OPERATOR, Scope
from ...waits import Wait
from .scenario import PersonReply, Trace
from .watch import WatchedHooks


class Asking(Protocol):
    """The play whose calls wait."""

    trace: Trace
    hooks: WatchedHooks


class People:
    """The answers to the calls of one run."""

    def __init__(self, play: Asking, replies: Sequence[PersonReply], tenant: str) -> None:
        self._play = play
        self._replies = replies
        self._tenant = tenant
        self._waits: list[str] = []
        self._restarted = False

    async def reply(self, process: Runtime, waits: Sequence[Wait]) -> bool:
        """Answer the waiting calls. Return whether the process is left before."""
        replies, restart = self._replies, False
        self._play.trace.waited = True
        for wait in waits:
            reply = replies[min(len(self._waits), len(replies) - 1)]
            self._waits.append(wait.key)
            self._play.trace.events.append(f"a person says {reply!r} to {wait.tool}")
            if reply == "restart" and not self._restarted:
                self._restarted = restart = True
                self._waits.pop()
                continue
            await self._say(process, wait, reply)
        return restart

    async def _say(self, process: Runtime, wait: Wait, reply: str) -> None:
        people = OPERATOR if not wait.who else Scope(self._tenant, wait.who[0])
        for _ in range(2 if reply == "approve twice" else 1):
            with contextlib.suppress(RunStateError):
                if wait.kind == "result":
                    await process.resolve(OPERATOR, wait.key, "the result", failed=reply == "deny")
                elif reply == "deny":
                    await process.deny(people, wait.key, "not now")
                else:
                    edited = json.loads(wait.arguments) if reply == "edit" else None
                    await process.approve(people, wait.key, arguments=edited)
        if wait.kind == "approval":
            self._play.hooks.watch.note_reply(wait.tool, wait.arguments, "denied" if reply == "deny" else "approved")

    async def answer_late(self, process: Runtime) -> None:
        """Answer the waits of a run that has ended once more: nothing may come of it."""
        for key in self._waits:
            with contextlib.suppress(RunStateError):
                await process.resolve(OPERATOR, key, "a late result")
