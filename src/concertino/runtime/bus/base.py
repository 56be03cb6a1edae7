"""The port of bells, which wake processes that wait for rows. A ring carries no data: rows are the truth.

A ring may be lost, arrive late or arrive twice. A process that waits for one also polls the rows.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

log = logging.getLogger("concertino")

AGAIN = 0.2
"""Seconds before each attempt to reconnect; the number of attempts has no limit."""


def wakeup(target: str) -> str:
    """Return the topic that wakes the workers of *target*: a run of its agents is due."""
    return f"cmd.agent.{target}.wakeup"


def events_of(root_id: str) -> str:
    """Return the topic that wakes the readers of a run: its log has new events."""
    return _of_tree(root_id, "chunk")


def step_of(root_id: str) -> str:
    """Return the topic of messages about the entries of a tree's journals."""
    return _of_tree(root_id, "step")


def task_of(root_id: str) -> str:
    """Return the topic of the message about a tree's end."""
    return _of_tree(root_id, "task")


def _of_tree(root_id: str, kind: str) -> str:
    return f"evt.agent.{hashlib.sha256(root_id.encode()).hexdigest()[:32]}.{kind}"  # an id may contain any characters


def conversation_topic(scope_key: str, conversation_id: str) -> str:
    """Return the topic that wakes the readers of a conversation: it has changed."""
    digest = hashlib.sha256(f"{scope_key}\0{conversation_id}".encode(errors="surrogatepass")).hexdigest()
    return f"evt.conversation.{digest[:32]}.changed"


class Bell(Protocol):
    """Wakes processes that wait for rows."""

    @property
    def reaches_others(self) -> bool:
        """Return whether rings reach other processes."""
        ...

    def ring(self, topic: str) -> None:
        """Call the listeners of *topic* that can be reached now, without waiting or failing."""
        ...

    def listen(self, topic: str, call: Callable[[], None]) -> Callable[[], None]:
        """Call *call* in the event loop at each ring of *topic*. Return a function that ends this."""
        ...


@runtime_checkable
class MessageBell(Bell, Protocol):
    """A bell that also passes messages on, to any subscriber."""

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> int:
        """Send messages, each with its topic, and return how many were too large to be sent.

        Raises an error if the server may not have all of them.
        """
        ...


class LocalBell:
    """The bell of one event loop."""

    reaches_others = False

    def __init__(self) -> None:
        self._calls: dict[str, list[Callable[[], None]]] = {}

    def ring(self, topic: str) -> None:
        """Call the listeners of *topic*."""
        for call in tuple(self._calls.get(topic, ())):
            call()

    def listen(self, topic: str, call: Callable[[], None]) -> Callable[[], None]:
        """Call *call* at each ring of *topic*. Return a function that ends this."""
        self._calls.setdefault(topic, []).append(call)

        def end() -> None:
            self._calls[topic].remove(call)
            if not self._calls[topic]:
                del self._calls[topic]
                self._changed()

        self._changed()
        return end

    def _changed(self) -> None:
        """Do what is needed when other topics are listened to."""


class RemoteBell(LocalBell):
    """A bell over a server, used with `async with`. Listeners in this process are called at once.

    The block begins even without the server, and a lost connection is restored. Then all listeners are called, because
    they may have missed a ring. Rings without a connection are dropped.
    """

    reaches_others = True

    def __init__(self) -> None:
        super().__init__()
        self.connected = False
        """Whether the server can be reached, as far as this process knows."""
        self._is_reported = False
        """Whether it was logged that it cannot."""
        self._ringing: dict[str, None] = {}
        self._work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._send_rings())]
        self._tasks[0].add_done_callback(self._gave_up)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while working := [task for task in self._tasks if not task.done()]:
            for task in working:
                task.cancel()
            await asyncio.wait(working, timeout=AGAIN)  # a client's `wait_for` may lose a cancellation (Python 3.11)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.connected, self._is_reported = False, True
        with suppress(Exception):
            await self._close()

    def ring(self, topic: str) -> None:
        """Call the listeners of *topic* in this process, and pass the ring on."""
        super().ring(topic)
        if self.connected:
            self._ringing[topic] = None
            self._work.set()

    def _changed(self) -> None:
        self._work.set()

    def _heard(self, topic: str) -> None:
        """Call the listeners here: another process has rung."""
        super().ring(topic)

    def _is_connected(self) -> None:
        """Note that the server can be reached, and call all listeners."""
        self.connected, self._is_reported = True, False
        self._work.set()
        for topic in tuple(self._calls):
            super().ring(topic)

    def _is_lost(self, error: object) -> None:
        if not self._is_reported:
            log.warning("the bell is out of order until its server is back: %s", self._reason(error))
        self.connected, self._is_reported = False, True
        self._ringing.clear()

    def _reason(self, error: object) -> str:
        """Return why the server cannot be reached, without credentials."""
        return "the connection was lost" if error is None else type(error).__name__

    def _gave_up(self, receiving: asyncio.Task[None]) -> None:
        if not receiving.cancelled() and (error := receiving.exception()) is not None:
            log.warning("the bell never works: %s; an option may be invalid", type(error).__name__)

    async def _send_rings(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            topics, self._ringing = list(self._ringing), {}
            try:
                if self.connected:
                    await self._exchange(topics)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with the server, rows are the truth
                log.info("a bell was not rung: %s", type(error).__name__)
                await asyncio.sleep(AGAIN)
                self._work.set()

    async def _receive(self) -> None:
        """Connect, and pass rings to `_heard`, until it is cancelled."""
        raise NotImplementedError

    async def _exchange(self, topics: list[str]) -> None:
        """Pass rings of *topics* on; listen to what the listeners here want."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Close the connections."""
        raise NotImplementedError
