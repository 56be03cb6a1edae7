"""The parts that all systems share: the scripted model's turns, the tools, and the protocol of an adapter.

Standard library only, and as little of it as possible: this module is part of every system's import time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

PROMPT_TOKENS = 100
COMPLETION_TOKENS = 10
"""The usage that the scripted model reports for each of its turns."""

QUESTION = "Please do what has to be done."
TOOL_SECONDS = 0.05
"""Duration of a slow tool."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes."""

    id: str
    name: str
    arguments: str
    """JSON text."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: calls, or the closing text in pieces."""

    calls: tuple[Call, ...] = ()
    deltas: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.deltas)


class Script:
    """The turns of the model in one run. Every run has a script of its own."""

    __slots__ = ("clock", "gap", "marks", "paced", "pause", "position", "reader", "seen", "sent", "turns")

    def __init__(
        self,
        turns: tuple[Turn, ...],
        *,
        pause: float = 0.0,
        paced: bool = False,
        gap: float = 0.0,
        marks: frozenset[int] = frozenset(),
    ) -> None:
        self.turns = turns
        self.pause = pause
        """Seconds that the model takes for a turn."""
        self.paced = paced
        """Whether the model yields to the event loop before each piece of text."""
        self.gap = gap
        """Seconds before each piece."""
        self.reader: asyncio.Event | None = None
        """Set when a reader has the first piece: the others wait for it."""
        self.sent: list[float] = []
        """When `pieces` gave each piece, by the clock that all processes share."""
        self.marks = marks
        """Turns that read the process's CPU clock when they begin."""
        self.clock: dict[int, float] = {}
        self.position = 0
        self.seen: list[int] = []
        """The number of messages in the first request and in the last."""

    async def next(self, messages: int) -> Turn:
        """Return the next turn, for a request with this number of *messages*."""
        if self.pause:
            await asyncio.sleep(self.pause)
        position = self.position
        self.position = position + 1
        if position in self.marks:
            self.clock[position] = time.process_time()
        if position == 0 or position == len(self.turns) - 1:
            self.seen.append(messages)
        return self.turns[position]

    async def pieces(self, turn: Turn) -> AsyncIterator[str]:
        """Give the pieces of *turn*, each after the gap."""
        for piece in turn.deltas:
            if self.gap:
                await asyncio.sleep(self.gap)
                self.sent.append(time.monotonic())
            yield piece
            if self.reader is not None:
                await self.reader.wait()


SCRIPT: ContextVar[Script] = ContextVar("SCRIPT")
"""The script of the current run. Adapters' models read it here, so one agent serves all runs."""


URL: ContextVar[str] = ContextVar("URL")
"""The address of the provider of an HTTP workload, with the scene to play."""


def loop(steps: int, calls: int, tool: str, *, deltas: int = 1, run: str = "1", argument: int = 1) -> tuple[Turn, ...]:
    """Return *steps* turns with *calls* calls of *tool* each, and a closing answer of *deltas* pieces.

    The ids of calls are unique in a conversation if each *run* in it has a name of its own.
    """
    arguments = f'{{"n": {argument}}}'
    turns = [
        Turn(calls=tuple(Call(f"call_{run}_{step}_{i}", tool, arguments) for i in range(calls)))
        for step in range(steps)
    ]
    return (*turns, Turn(deltas=tuple(f"word{i}," for i in range(deltas))))


class _Tally:
    """Counts tool executions, and records the slowest nap."""

    def __init__(self) -> None:
        self.executions = 0
        self.slowest = 0.0
        self._lock = threading.Lock()

    def nap(self, n: int, begun: float) -> None:
        with self._lock:
            self.executions += n
            self.slowest = max(self.slowest, time.perf_counter() - begun)


TALLY = _Tally()


async def ping(n: int) -> str:
    """Answer at once."""
    TALLY.executions += n
    return "pong"


async def nap(n: int) -> str:
    """Answer after a while, without blocking the event loop."""
    begun = time.perf_counter()
    await asyncio.sleep(TOOL_SECONDS)
    TALLY.nap(n, begun)
    return "awake"


def blocking_nap(n: int) -> str:
    """Answer after a while, blocking the thread."""
    begun = time.perf_counter()
    time.sleep(TOOL_SECONDS)
    TALLY.nap(n, begun)
    return "awake"


_PROSE = (
    "The committee met on Tuesday to review the plans for the new reading room, and agreed that it needs more light. "
    "A survey of visitors showed that most of them arrive before noon, although the busiest hour is just after lunch. "
    "Repairs to the roof will begin in spring, once the grant is confirmed; until then, buckets stand under the leaks. "
    "The archive holds some 40,000 letters, of which about a third were catalogued between 1962 and 1978. "
    "Nobody could find the key to the map cabinet, so a locksmith opened it, and the maps turned out to be in order. "
    "Volunteers asked for a quieter corner, better chairs and a timetable that does not change from week to week. "
)


async def text(n: int) -> str:
    """Return *n* characters of English."""
    TALLY.executions += 1
    return (_PROSE * (n // len(_PROSE) + 1))[:n]


TOOLS: dict[str, Callable[..., Any]] = {"ping": ping, "nap": nap, "blocking_nap": blocking_nap, "text": text}


@dataclass(slots=True)
class Outcome:
    """The end of a run as the system reports it."""

    text: str
    usage: Callable[[], tuple[int, int]]
    """Return the prompt and completion tokens of the whole run. Called when the clock has stopped."""
    conversation: Any = None
    """The state that continues the conversation, if the caller asked to keep it."""


class System(Protocol):
    """A system with an agent that has one tool. An adapter module has `build(tool) -> System`."""

    async def run(self, conversation: Any = None, *, keep: bool = False) -> Outcome:
        """Answer `QUESTION` by `SCRIPT` in a new conversation, or in one that an earlier outcome kept."""
        ...

    def stream(self) -> AsyncIterator[str]:
        """Answer in a new conversation, and yield each piece of text as it arrives, one per event."""
        ...
