"""A research that survives `kill -9`: `python -m concertino.demo [QUESTION]`, without a key.

The research runs in a process of its own, which is killed while two researchers wait for the model. Another process
resumes it. Then the report, the run's timeline and the bill are printed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from .. import Chat, Resources, ToolOrchestrator, ToolRegistry
from ..agents import DeepResearchSupervisor
from ..events import ToolDone
from ..providers.base import ModelEvent, ModelRequest
from ..scope import OPERATOR
from ..usage import UsageRecord
from ..wiring import open_library, open_store, research_team, token_counter
from .model import DemoModel

QUESTION = "How do asyncio task groups handle errors, and how do they differ from gather?"
_KILLED_AT = 5
_WAITING = "The model does not answer."


class StallingModel(DemoModel):
    """A demo model that never answers its fifth call: a moment at which the process can be killed."""

    calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer *request*, or wait forever."""
        self.calls += 1
        if self.calls >= _KILLED_AT:
            print(_WAITING, flush=True)
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


async def research(question: str, database: Path) -> None:
    """Start the research, and print each tool call that is done."""
    library = await open_library((), report=print, environ={})
    model = StallingModel(token_counter().count)
    resources = Resources(model=model, store=await open_store(database))
    registry = ToolRegistry(research_team(library))
    orchestrator = ToolOrchestrator(Chat(message=question), DeepResearchSupervisor(), registry, resources=resources)
    async for event in orchestrator.stream():
        if isinstance(event, ToolDone):
            print(f"{event.agent_path}: {event.name} done", flush=True)


def _start_and_kill(question: str, database: Path) -> None:
    command = [sys.executable, "-m", "concertino.demo", "--research", str(database), question]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace") as process:
        for line in process.stdout or ():
            print(f"  {line.rstrip()}")
            if line.strip() == _WAITING:
                process.kill()
                break
    print(f"  Process {process.pid} was killed; its exit status is {process.returncode}.")


async def _run_and_usage(database: Path) -> tuple[str, list[UsageRecord]]:
    """Return the id of the only root run, and its usage: a record for each attempt."""
    store = await open_store(database)
    (run,) = await store.runs(OPERATOR, roots=True)
    usage = list(await store.usage(OPERATOR, run.start.run_id))
    await store.close()
    return run.start.run_id, usage


def _print_bill(usage: Sequence[UsageRecord]) -> None:
    print(f"\n{'AGENT':25}{'MODEL':13}{'STEP:ATTEMPT':14}{'TOKENS':>7}   COST  USAGE")
    for record in usage:
        tokens = record.tokens.prompt + record.tokens.completion
        cost = "?" if record.cost is None else f"${record.cost:.2f}"
        model, attempt = f"{record.provider}:{record.model}", record.id.partition(":")[2]
        print(f"{record.agent_path:25}{model:13}{attempt:14}{tokens:>7,}{cost:>7}  {record.source}")


def _concertino(*arguments: str) -> None:
    print(f"$ concertino {' '.join(arguments)}\n", flush=True)
    subprocess.run([sys.executable, "-m", "concertino.cli", *arguments], check=True)


def _heading(text: str) -> None:
    print(f"\n=== {text} ===\n", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Show the demo."""
    if arguments[:1] == ["--research"]:
        asyncio.run(research(arguments[2], Path(arguments[1])))
        return
    database = Path(tempfile.mkdtemp(prefix="concertino-")) / "runs.db"
    db = ("--db", str(database))
    _heading("1. A research runs; its process is killed while it waits for the model")
    _start_and_kill(" ".join(arguments) or QUESTION, database)
    run, _ = asyncio.run(_run_and_usage(database))
    _heading("2. The journal has everything up to that moment")
    _concertino("runs", "show", run, *db)
    _heading("3. Another process resumes the run; the report")
    _concertino("runs", "resume", run, *db)
    _heading("4. The timeline of the run, over both processes")
    _concertino("runs", "show", run, *db)
    _heading("5. The bill by agent and model, then by attempt; killed attempts are booked as unknown")
    _concertino("usage", "--by", "agent", "--by", "model", *db)
    _print_bill(asyncio.run(_run_and_usage(database))[1])


if __name__ == "__main__":
    main(sys.argv[1:])
