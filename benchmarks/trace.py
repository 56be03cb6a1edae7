"""Trace one turn with one tool call and a store: the files that it enters, and the calls between them.

    python -m benchmarks.trace [--files] [--calls]

A reader who follows a turn through the source meets these files. `tests/guards` keeps the figures from growing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import concertino
from concertino import AgentConfig, Chat, Resources, ToolOrchestrator, tool
from concertino.storage.sqlite import MemoryStore
from concertino.testing import ScriptedModel, call

PACKAGE = str(Path(concertino.__file__).parent) + "/"
OUTSIDE = (PACKAGE + "testing/",)
"""The scripted model takes the place of a provider; its own calls do not count."""


@dataclass(slots=True)
class Trace:
    """The calls of Python functions in the package. Resuming a coroutine or a generator counts as a call."""

    files: Counter[str] = field(default_factory=Counter)
    """Calls by the file that they enter."""
    functions: set[CodeType] = field(default_factory=set)
    between: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Calls from one file to another."""
    switches: int = 0
    """How often two calls in a row enter different files."""
    _last: str = ""

    @property
    def calls(self) -> int:
        """All calls."""
        return self.files.total()

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        """Count the call that *frame* begins; a function for `sys.setprofile`."""
        name = frame.f_code.co_filename
        if event != "call" or not _is_counted(name):
            return
        self.files[name] += 1
        self.functions.add(frame.f_code)
        caller = _calling_file(frame)
        if caller and caller != name:
            self.between[caller, name] += 1
        self.switches += name != self._last
        self._last = name


def _is_counted(name: str) -> bool:
    return name.startswith(PACKAGE) and not name.startswith(OUTSIDE)


def _calling_file(frame: FrameType) -> str:
    """Return the file of the nearest caller within the package, "" if there is none."""
    caller = frame.f_back
    while caller is not None:
        if _is_counted(caller.f_code.co_filename):
            return caller.f_code.co_filename
        caller = caller.f_back
    return ""


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace the calls of this thread inside the `with` block."""
    trace = Trace()
    sys.setprofile(trace.enter)
    try:
        yield trace
    finally:
        sys.setprofile(None)


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Adder(AgentConfig):
    """An agent with one tool."""

    name = "adder"
    tools = (add,)


def _turn(store: MemoryStore | None, model: ScriptedModel) -> AsyncIterator[Any]:
    return ToolOrchestrator(Chat(model=model, message="1 + 2?"), Adder(), resources=Resources(store=store)).stream()


async def _trace(*, stored: bool) -> Trace:
    store = MemoryStore() if stored else None
    with ScriptedModel(*[call("add", a=1, b=2), "3"] * 2) as model:
        first, second = _turn(store, model), _turn(store, model)  # the checks of arguments do not belong to a turn
        async for _ in first:  # nor does what is compiled, cached or connected once
            pass
        with traced() as trace:
            async for _ in second:
                pass
    return trace


def one_turn(*, stored: bool = True) -> Trace:
    """Run one turn with one tool call, streamed from a scripted model, and return its trace."""
    return asyncio.run(_trace(stored=stored))


def main() -> None:
    """Print the figures, and on request the files and the calls between them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace", description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the calls by file")
    parser.add_argument("--calls", action="store_true", help="list the calls between files, the most frequent first")
    arguments = parser.parse_args()
    print("| one turn, one tool, streamed | files | functions | calls | calls between files | file switches |")
    print("|---|---|---|---|---|---|")
    for name, stored in (("without a store", False), ("with a MemoryStore", True)):
        trace = one_turn(stored=stored)
        figures = (len(trace.files), len(trace.functions), trace.calls, trace.between.total(), trace.switches)
        print(f"| {name} | {' | '.join(f'{figure:,}' for figure in figures)} |")
    if arguments.files:
        for file, calls in trace.files.most_common():
            print(f"{calls:6,}  {file.removeprefix(PACKAGE)}")
    if arguments.calls:
        for (caller, called), calls in trace.between.most_common():
            print(f"{calls:6,}  {caller.removeprefix(PACKAGE)} -> {called.removeprefix(PACKAGE)}")


if __name__ == "__main__":
    main()
