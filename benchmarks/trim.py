"""The workload of fitting the context: a conversation with many tool results, before its next request."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from benchmarks.workloads import Figures, WrongWorkError, repeat

ASKED, SAID, FOUND = 50, 60, 240
"""Lengths in words: the user's message, an answer with a call, a result."""
WORD = "w "


class Shown(NamedTuple):
    """One message of a request."""

    calls: tuple[str, ...] = ()
    """Ids of its calls."""
    results: tuple[str, ...] = ()
    """Ids of the calls that its results answer."""
    characters: int = 0
    """Characters of its texts."""


class Trimming(Protocol):
    """What fits a context. An adapter module has `build(tool) -> Trimming`."""

    keeps: bool
    """Whether a conversation keeps state from one request to the next."""

    def open(self, budget: int) -> Any:
        """Return an empty conversation whose requests have at most *budget* tokens."""
        ...

    def question(self, text: str) -> Any:
        """Return a message of the user."""
        ...

    def step(self, id: str, said: str, found: str) -> Sequence[Any]:
        """Return an answer that calls the tool, and the result."""
        ...

    async def fit(self, conversation: Any, new: Sequence[Any]) -> Any:
        """Add the *new* messages and return the request."""
        ...

    def answered(self, conversation: Any, new: Sequence[Any], sent: Any) -> None:
        """Take the usage of the answer to the request *sent*. Not timed."""
        ...

    def shown(self, sent: Any) -> Iterable[Shown]:
        """Return a request of `fit` message by message."""
        ...


class _Conversation:
    """A conversation and its last request."""

    def __init__(self, system: Trimming, budget: int) -> None:
        self._system = system
        self._kept = system.open(budget)
        self._steps = 0
        self._sent: Any = None
        self.messages = 0

    def _new(self, messages: int) -> list[Any]:
        """Return that many more messages; the first one of a conversation comes alone."""
        system = self._system
        new = [] if self.messages else [system.question(WORD * ASKED)]
        while len(new) < messages:
            new += system.step(f"c{self._steps}", WORD * SAID, WORD * FOUND)
            self._steps += 1
        self.messages += len(new)
        return new

    async def request(self, messages: int) -> float:
        """Fit the next request after that many new messages, and return the CPU seconds."""
        new = self._new(messages)
        begun = time.process_time()
        self._sent = await self._system.fit(self._kept, new)
        taken = time.process_time() - begun
        self._system.answered(self._kept, new, self._sent)
        return taken

    async def grow(self, messages: int) -> None:
        """Grow to that length, request by request if the system keeps state between them."""
        await self.request(2 if self._system.keeps else messages)
        while self.messages < messages:
            await self.request(2)

    def figures(self, *, all_fit: bool) -> Figures:
        """Return the figures of the last request. Raises `WrongWorkError` if it lacks a message that it must have."""
        sent = list(self._system.shown(self._sent))
        if not sent or f"c{self._steps - 1}" not in sent[-1].results:
            raise WrongWorkError("the newest result was not sent")
        if all_fit and len(sent) < self.messages:
            raise WrongWorkError(f"{len(sent)} of {self.messages} messages were sent")
        called: set[str] = set()
        orphans = 0
        for message in sent:
            orphans += sum(id not in called for id in message.results)
            called.update(message.calls)
        return {"sent": len(sent), "tokens": sum(message.characters for message in sent) // 4, "orphans": orphans}


async def _warm(build: Callable[..., Trimming]) -> Trimming:
    """Warm the system up once. It has seen no usage of a provider."""
    system = build(None)
    await _Conversation(system, 1_000).request(30)
    return system


async def trim_first(
    build: Callable[..., Trimming], *, messages: int, budget: int, at_most: int, seconds: float
) -> Figures:
    """Measure the CPU of fitting the first request of a loaded conversation of *messages*, in µs."""
    system = await _warm(build)
    costs: list[float] = []
    figures: Figures = {}

    async def once() -> None:
        conversation = _Conversation(system, budget)
        gc.collect()
        costs.append(await conversation.request(messages))
        figures.update(conversation.figures(all_fit=False))

    await repeat(once, at_most, seconds)
    return {"us": statistics.median(costs) * 1e6, **figures}


async def trim_next(
    build: Callable[..., Trimming], *, messages: int, budget: int, all_fit: bool, at_most: int, seconds: float
) -> Figures:
    """Measure the CPU of fitting one request of many in a row, in µs: an answer and a result after the last.

    The row ends when the conversation has so many *messages*; edits that are made now and then are in its mean. With
    *all_fit* nothing may be left out.
    """
    system = await _warm(build)
    window = min(messages // 4, 200 if system.keeps else 5)
    costs: list[float] = []
    figures: Figures = {}

    async def once() -> None:
        conversation = _Conversation(system, budget)
        await conversation.grow(messages - 2 * window)
        gc.collect()
        costs.append(statistics.fmean([await conversation.request(2) for _ in range(window)]))
        figures.update(conversation.figures(all_fit=all_fit))

    await repeat(once, at_most, seconds)
    return {"us": statistics.median(costs) * 1e6, **figures}


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {"trim_first": trim_first, "trim_next": trim_next}
