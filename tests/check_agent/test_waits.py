"""What `check_agent` does where a hook waits: it stops the run there, and knows what blocks the event loop."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from concertino import SystemMessage
from concertino.testing import AgentFaultError, check_agent

from .kit import Base


class SwallowsOneStop(Base):
    """Waits twice, and swallows a stop at the wait with the number `swallows` only."""

    def __init__(self, swallows: int) -> None:
        self.swallows = swallows

    async def prepare(self, run: Any) -> list[SystemMessage]:
        for number in (1, 2):
            try:
                await run.ask(f"Question {number}?")
            except asyncio.CancelledError:
                if number != self.swallows:
                    raise
        return []


@pytest.mark.parametrize("cases", [1, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("swallows", "event"), [(1, "hook prepare waits"), (2, "hook prepare still waits")])
def test_a_hook_is_stopped_at_each_wait_whatever_the_number_of_cases(swallows: int, event: str, cases: int) -> None:
    with pytest.raises(AgentFaultError) as found:
        check_agent(SwallowsOneStop(swallows), cases=cases)
    (fault,) = found.value.faults
    assert (fault.kind, fault.events) == ("stop", (f"the run is stopped at {event!r}",))


class ImportsWhatAThreadImports(Base):
    async def prepare(self, run: Any) -> list[SystemMessage]:
        if "slow_to_import" not in sys.modules:  # in the first run
            loop, begun = asyncio.get_running_loop(), asyncio.Event()
            sys.begun = lambda: loop.call_soon_threadsafe(begun.set)  # type: ignore[attr-defined]
            threading.Thread(target=importlib.import_module, args=("slow_to_import",)).start()
            await begun.wait()
        importlib.import_module("slow_to_import")
        return []


def test_a_hook_may_import_what_a_thread_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import waits for the lock of the module, which no author of an agent can avoid."""
    (tmp_path / "slow_to_import.py").write_text("import sys, time\nsys.begun()\ntime.sleep(0.02)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "begun", None, raising=False)
    try:
        assert check_agent(ImportsWhatAThreadImports(), cases=1).cases > 0
    finally:
        del sys.modules["slow_to_import"]
