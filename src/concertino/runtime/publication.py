"""Messages about the runs of a fleet: each entry of a journal with the usage that it books, and the end of each tree.

The rows are the truth. A message follows the commit of its entry. It may be lost, and it may arrive twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Any, cast

from ..errors import UnknownRunError
from ..events import RunStatus
from ..records import record
from ..scope import Scope
from ..storage.base import Store
from ..storage.types import Claim, Entry, Head, RunStart
from ..usage import UsageRecord, total
from .bus.base import AGAIN, MessageBell, step_of, task_of
from .counts import RuntimeCounts

log = logging.getLogger("concertino")

BUFFER = 10_000
"""Most entries that wait for the server; the following ones are not published."""
PATIENCE = 2.0
"""Seconds that `Publisher.close` waits for the server."""
_BATCH = 100
_Fields = dict[str, Any]


@record(kw_only=True)
class _Stored:
    """The facts of an entry that its messages have, without its content."""

    run_id: str
    root_id: str
    scope: Scope
    step: int
    seq: int
    kind: str
    usage: tuple[UsageRecord, ...]
    status: RunStatus | None
    at: float


class Publisher:
    """Sends the messages in the background, in the order of the appends. It neither delays nor fails a run."""

    def __init__(self, store: Store, bell: MessageBell, counts: RuntimeCounts) -> None:
        self._store, self._bell, self._counts = store, bell, counts
        self._waiting: deque[_Stored] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._origins: dict[str, _Fields] = {}
        """By run: the fields that all its messages have."""
        self._is_reported = False
        """Whether it was logged that messages are lost."""

    def began(self, start: RunStart, entry: Entry) -> None:
        """Publish entry 0 of a run."""
        self._remember(start)
        self.appended(entry)

    def appended(self, entry: Entry) -> None:
        """Publish an entry that is stored."""
        if len(self._waiting) >= BUFFER:
            self._lose(1, "too many wait for the server")
            return
        stored = _Stored(
            run_id=entry.run_id,
            root_id=entry.claim.root_id,
            scope=entry.claim.scope,
            step=entry.step,
            seq=entry.seq,
            kind=entry.kind,
            usage=tuple(entry.usage),
            status=None if entry.end is None else entry.end.status,
            at=time.time(),
        )
        self._waiting.append(stored)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Send what is left, if the server takes it in time."""
        if self._sending is not None and not self._sending.done():
            await asyncio.wait([self._sending], timeout=PATIENCE)
            self._sending.cancel()
            await asyncio.wait([self._sending])
        if self._waiting:
            self._lose(len(self._waiting), "the server did not take them in time")
            self._waiting.clear()

    async def _send(self) -> None:
        while self._waiting:
            batch = list(islice(self._waiting, _BATCH))
            messages = [message for stored in batch for message in await self._messages(stored)]
            while not await self._is_sent(messages):  # noqa: ASYNC110 - until the server is back
                await asyncio.sleep(AGAIN)
            for _ in batch:
                self._waiting.popleft()

    async def _is_sent(self, messages: list[tuple[str, bytes]]) -> bool:
        try:
            refused = await self._bell.publish(messages)
        except Exception:  # noqa: BLE001 - the bell has logged what is wrong with its server
            return False
        self._is_reported = False
        if refused:
            self._lose(refused, "they are too large for the server")
        return True

    async def _messages(self, stored: _Stored) -> list[tuple[str, bytes]]:
        try:
            origin = await self._origin(stored)
            shared = {**origin, "entry": stored.seq, "time": datetime.fromtimestamp(stored.at, UTC).isoformat()}
            usage = [_usage(each) for each in stored.usage]
            step = {**shared, "step": stored.step, "phase": stored.kind, "usage": usage}
            messages = [(step_of(stored.root_id), _encoded(step))]
            if stored.status is not None and stored.run_id == stored.root_id:
                bill = await self._store.usage(stored.scope, stored.root_id)
                task = {**shared, "status": stored.status, "usage": _sums(bill)}
                messages.append((task_of(stored.root_id), _encoded(task)))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one entry, the next one is published
            self._lose(1, f"an entry could not be described: {type(error).__name__}")
            return []
        return messages

    async def _origin(self, stored: _Stored) -> _Fields:
        """Return the fields that all messages of a run have. Read them for a run that another process has started."""
        origin = self._origins.get(stored.run_id)
        if origin is None:
            run = await self._store.run(stored.scope, stored.run_id)
            if run is None:
                raise UnknownRunError(f"run {stored.run_id} was erased")
            origin = self._remember(run.start)
        if stored.status is not None:
            self._origins.pop(stored.run_id, None)
        return origin

    def _remember(self, start: RunStart) -> _Fields:
        if len(self._origins) >= BUFFER:
            del self._origins[next(iter(self._origins))]
        origin = self._origins[start.run_id] = {
            "run": start.run_id,
            "root": start.root_id,
            "parent": start.parent_id or "",
            "conversation": start.conversation_id,
            "tenant": start.scope.tenant,
            "user": start.scope.user,
            "agent": start.agent,
            "agent_path": start.agent_path,
        }
        return origin

    def _lose(self, count: int, why: str) -> None:
        self._counts.lost_messages += count
        if not self._is_reported:
            log.warning("messages about runs are lost: %s; the table usage is complete", why)
        self._is_reported = True


class PublishedStore:
    """A `Store` in which a process writes journals: it publishes what it has stored, and passes all else on."""

    def __init__(self, store: Store, publisher: Publisher) -> None:
        self._store, self._publisher = store, publisher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> bool:
        """See the port; publishes the entry."""
        limited = await self._store.begin(start, entry, claim)
        self._publisher.began(start, entry)
        return limited

    async def append(self, entry: Entry) -> Head:
        """See the port; publishes the entry."""
        head = await self._store.append(entry)
        self._publisher.appended(entry)
        return head


def published(store: Store, publisher: Publisher) -> Store:
    """Return *store* with a *publisher*."""
    return cast("Store", PublishedStore(store, publisher))


def _usage(each: UsageRecord) -> _Fields:
    """Return a record with the names of the columns of the table `usage`."""
    named = {"id": each.id, "provider": each.provider, "model": each.model, "source": each.source}
    return {**named, **asdict(each.tokens), "cost": None if each.cost is None else str(each.cost)}


def _sums(records: Iterable[UsageRecord]) -> _Fields:
    found = list(records)
    sums, unknown = total(found), sum(each.source == "unknown" for each in found)
    cost = None if sums.cost is None else str(sums.cost)
    return {"attempts": len(found), "unknown": unknown, **asdict(sums.tokens), "cost": cost}


def _encoded(fields: _Fields) -> bytes:
    return json.dumps(fields).encode()
