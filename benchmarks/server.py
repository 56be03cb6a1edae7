"""Load of the web API, next to a bare endpoint and the protocol adapters of other frameworks: `make bench-server`.

Each server is a process of its own, whose CPU time and memory are read from `/proc`; the client runs in another one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import environments, report, telemetry
from benchmarks.figures import Goal
from benchmarks.server_load import (
    Reader,
    Section,
    answer,
    answered,
    connect,
    connect_all,
    quantiles,
    request,
)

ROOT = Path(__file__).resolve().parent.parent
GAP = 0.1
"""Seconds between the pieces of an answer."""
AT_ONCE = 50
"""Conversations that start at the same time, while those before them stream."""
ENDLESS = "1000000"
MOST_TIMES_BARE = 3.0
PATIENCE = 240.0
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.port = int(process.stdout.readline() or 0)
        if not self.port:
            raise RuntimeError("the server did not start")

    def cpu(self) -> float:
        """Return the CPU seconds so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def memory(self) -> int:
        """Return the resident bytes."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE

    def end_answers(self) -> None:
        """Make the next piece of every answer its last."""
        self._process.send_signal(signal.SIGUSR1)


@contextmanager
def started(system: System, *, gap: float = GAP) -> Iterator[Server]:
    """Start a server and stop it."""
    peer = system.module.startswith("benchmarks.peers.")
    python = str(environments.interpreter(system.environment)) if peer else sys.executable
    path = str(ROOT) if peer else f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    process = subprocess.Popen(
        [python, "-m", system.module],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "BENCH_GAP": str(gap)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


Prepare = Callable[[int, str, str], Awaitable[bytes]]
"""Returns the request that streams the answer to a question of a user."""


@dataclass(frozen=True)
class System:
    """A server, and how a client uses it."""

    name: str
    module: str
    prepare: Prepare
    text_of: Callable[[Any], str]
    environment: str = ""


async def _one_post(_port: int, user: str, question: str) -> bytes:
    return request("POST", "/run", user, _ag_ui(user, question))


async def _ag_ui_of_ours(_port: int, user: str, question: str) -> bytes:
    return request("POST", "/agui", user, _ag_ui(user, question))


def _ag_ui(user: str, question: str) -> dict[str, Any]:
    message = {"id": "m", "role": "user", "content": question}
    name = f"{user}-{time.monotonic_ns()}"
    empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": name, "runId": f"run-{name}", "messages": [message], **empty}


async def _turn(port: int, user: str, question: str) -> bytes:
    conversation = await answer(port, "POST", "/api/conversations", user, {})
    path = f"/api/conversations/{conversation['id']}/turns"
    turn = await answer(port, "POST", path, user, {"text": question})
    return request("GET", f"{path}/{turn['id']}/events", user)


def _delta(event: Any) -> str:
    return str(event.get("delta", "")) if event["type"] in ("text", "TEXT_MESSAGE_CONTENT") else ""


def _text_delta(event: Any) -> str:
    return str(event["text"]) if event["type"] == "text_delta" else ""


def _whole(event: Any) -> str:
    return "".join(part["text"] for part in event["message"]["parts"]) if event["type"] == "turn_completed" else ""


SYSTEMS = (
    System("bare", "benchmarks.servers.bare", _one_post, _delta),
    System("concertino", "benchmarks.servers.concertino", _turn, _text_delta),
    System("concertino-ag-ui", "benchmarks.servers.concertino", _ag_ui_of_ours, _delta),
    System("pydantic-ai-ag-ui", "benchmarks.peers.pydantic_ai_server", _one_post, _delta, "pydantic_ai_server"),
    System(
        "agent-framework-ag-ui",
        "benchmarks.peers.agent_framework_server",
        _one_post,
        _delta,
        "agent_framework_server",
    ),
)


class Sizes(NamedTuple):
    """The amounts of work."""

    streams: int
    seconds: float
    """Seconds of the measurement, in which all streams run."""
    subscriptions: int
    heavy: int
    """Pieces of 1 kB for the reader that never reads."""
    steps: int
    rounds: int


FULL = Sizes(1_000, 10.0, 10_000, 20_000, 200, 15)
QUICK = Sizes(200, 5.0, 1_000, 5_000, 100, 7)
TINY = Sizes(4, 1.0, 8, 200, 4, 2)


async def _converse(
    server: Server, system: System, conversations: int, question: str
) -> tuple[list[Reader], list[float]]:
    """Start so many conversations. Return their readers, and the seconds from each message to the first delta."""
    slots = asyncio.Semaphore(AT_ONCE)
    readers: list[Reader] = []
    first: list[float] = []

    async def converse(number: int) -> None:
        async with slots:
            begun = time.monotonic()
            sent = await system.prepare(server.port, f"user{number}", question)
            readers.append(reader := await connect(server.port, sent))
            await reader.marked
            first.append(reader.first - begun)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*[converse(number) for number in range(conversations)])
    return readers, first


async def _end(readers: list[Reader]) -> None:
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*[reader.closed for reader in readers])


async def stream(system: System, sizes: Sizes) -> dict[str, float]:
    """Return the figures of streaming: a delta is measured while all conversations stream."""
    with started(system) as server:
        await _end((await _converse(server, system, min(20, sizes.streams), "4"))[0])  # warm-up
        before, begun = server.memory(), server.cpu()
        readers, first = await _converse(server, system, sizes.streams, ENDLESS)
        section, memory, cpu = Section(readers), server.memory(), server.cpu()
        await asyncio.sleep(sizes.seconds)
        section.end()
        cpu = server.cpu() - cpu
        server.end_answers()
        await _end(readers)
        total = server.cpu() - begun
    answers = [answered(reader, system.text_of) for reader in readers]
    each = cpu / section.deltas()
    median, late = quantiles(first)
    pause, long_pause = quantiles(section.pauses())
    return {
        "us": each * 1e6,
        "start_us": (total - each * sum(pieces for pieces, _ in answers)) / sizes.streams * 1e6,
        "kib": (memory - before) / sizes.streams / 1024,
        "first_ms": median * 1e3,
        "first_p95_ms": late * 1e3,
        "pause_ms": pause * 1e3,
        "pause_p95_ms": long_pause * 1e3,
        "lost": sum(lost for _, lost in answers),
    }


async def idle(system: System, sizes: Sizes) -> dict[str, float]:
    """Return the figures of subscriptions to which nothing is sent."""
    with started(system) as server:
        if system.name == "bare":
            requests = [request("GET", f"/idle/{number}", "ann") for number in range(sizes.subscriptions)]
            opened = ""
        else:
            slots = asyncio.Semaphore(50)

            async def created(number: int) -> str:
                async with slots:
                    found = await answer(server.port, "POST", "/api/conversations", f"user{number}", {})
                    return str(found["id"])

            ids = await asyncio.gather(*[created(number) for number in range(sizes.subscriptions)])
            opened = ids[0]
            requests = [
                request("GET", f"/api/conversations/{found}/events", f"user{number}")
                for number, found in enumerate(ids)
            ]
        before = server.memory()
        readers = await connect_all(server.port, requests)
        await asyncio.wait_for(asyncio.gather(*[reader.opened for reader in readers]), PATIENCE)
        memory, cpu, begun = server.memory(), server.cpu(), time.monotonic()
        await asyncio.sleep(10.0 if sizes.subscriptions > 100 else 0.5)
        share = (server.cpu() - cpu) / (time.monotonic() - begun)
        found = {
            "kib": (memory - before) / sizes.subscriptions / 1024,
            "cpu_ms": share * 1e3,
            "lost": float(sum(reader.closed.done() for reader in readers)),
        }
        if opened:
            begun = time.monotonic()
            await answer(server.port, "POST", f"/api/conversations/{opened}/turns", "user0", {"text": "1 1"})
            await asyncio.wait_for(readers[0].marked, PATIENCE)
            found["wake_ms"] = (readers[0].first - begun) * 1e3
        for reader in readers:
            reader.transport.abort()
    return found


async def never_read(system: System, sizes: Sizes) -> dict[str, float]:
    """Return the figures of a reader that never reads, beside one that does: what it costs more than that one alone."""
    alone, _ = await _heavy(system, sizes, stuck=False)
    beside, missing = await _heavy(system, sizes, stuck=True)
    return {"mib": (beside - alone) / 2**20, "lost": float(missing)}


async def _heavy(system: System, sizes: Sizes, *, stuck: bool) -> tuple[int, int]:
    """Return by how much the memory grows, and the pieces that the reader of a large answer has lost."""
    question = f"{sizes.heavy} 1000"
    with started(system) as server:
        await _end((await _converse(server, system, 2, "4"))[0])
        before = server.memory()
        sent = await system.prepare(server.port, "ann", question)
        readers = [await connect(server.port, sent)] if stuck else []
        for reader in readers:
            reader.transport.pause_reading()
        if stuck and system.name == "bare":  # it has no second reader of an answer
            sent = await system.prepare(server.port, "bob", question)
        reading = await connect(server.port, sent)
        most = 0
        while not reading.closed.done():
            most = max(most, server.memory())
            await asyncio.sleep(0.02)
        most = max(most, server.memory())
        for reader in readers:
            reader.transport.abort()
    # A reader that comes when the answer is complete gets it as a whole.
    return most - before, min(answered(reading, text_of)[1] for text_of in (system.text_of, _whole))


ROWS = (
    ("{streams:,} streams at once, CPU µs/delta", "stream", "us"),
    ("start and end of a conversation, CPU µs", "stream", "start_us"),
    ("memory per stream, KiB", "stream", "kib"),
    ("time to the first delta, ms (median)", "stream", "first_ms"),
    ("time to the first delta, ms (95 %)", "stream", "first_p95_ms"),
    ("time between arrivals, ms (median)", "stream", "pause_ms"),
    ("time between arrivals, ms (95 %)", "stream", "pause_p95_ms"),
    ("lost deltas", "stream", "lost"),
    ("{subscriptions:,} idle subscriptions, KiB each", "idle", "kib"),
    ("idle subscriptions, CPU ms per second", "idle", "cpu_ms"),
    ("time from a message to an idle subscriber, ms", "idle", "wake_ms"),
    ("idle subscriptions that broke off", "idle", "lost"),
    ("one reader that never reads {heavy:,} kB, MiB more", "never_read", "mib"),
    ("deltas lost by the reader beside it", "never_read", "lost"),
)
Figures = dict[str, dict[str, Any]]
Job = Callable[[System, Sizes], Awaitable[dict[str, float]]]


def table(found: dict[str, Figures], sizes: Sizes) -> str:
    """Return all figures, one line each. Lower is better."""
    lines = [["figure", *found]]
    for label, job, key in ROWS:
        cells = [_cell(figures.get(job, {}), key) for figures in found.values()]
        lines.append([label.format(**sizes._asdict()), *cells])
    return report.aligned(lines)


def _cell(figures: dict[str, Any], key: str) -> str:
    if "error" in figures:
        return str(figures["error"])
    return "-" if key not in figures else f"{figures[key]:,.4g}"


def goals(found: dict[str, Figures]) -> list[Goal]:
    """Return the goals with their figures."""
    made = []
    bare = found.get("bare", {}).get("stream", {}).get("us")
    for name, figures in found.items():
        if not name.startswith("concertino"):
            continue
        if bare and "us" in figures["stream"]:
            times = figures["stream"]["us"] / bare
            text = f"{name}: CPU per delta, times the bare endpoint"
            made.append(Goal(text, f"{MOST_TIMES_BARE:g}", f"{times:.3g}", met=times <= MOST_TIMES_BARE))
        missing = sum(job.get("lost", 0) for job in figures.values())
        made.append(Goal(f"{name}: lost events", "0", f"{missing:g}", met=missing == 0))
    return made


async def _measure(systems: list[System], sizes: Sizes, rounds: int) -> dict[str, Figures]:
    streams: dict[str, list[dict[str, Any]]] = {system.name: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            streams[system.name].append(await _figures(stream, system, sizes))
    found = {name: {"stream": _middle(figures)} for name, figures in streams.items()}
    for system in systems:
        if system.name in ("bare", "concertino"):
            for job in (idle, never_read):
                found[system.name][job.__name__] = await _figures(job, system, sizes)
    return found


async def _figures(job: Job, system: System, sizes: Sizes) -> dict[str, Any]:
    print(f"  {system.name}: {job.__name__}", file=sys.stderr, flush=True)
    try:
        return await job(system, sizes)
    except (TimeoutError, OSError, RuntimeError) as error:
        return {"error": type(error).__name__}


def _middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure, and all that was lost."""
    if failed := [figures for figures in rounds if "error" in figures]:
        return failed[0]
    found = {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}
    return {**found, "lost": sum(figures["lost"] for figures in rounds)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    names = [system.name for system in SYSTEMS]
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {','.join(names)}")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of the streams; the figures are medians")
    parser.add_argument("--no-peers", action="store_true", help="without other frameworks")
    parser.add_argument("--offline", action="store_true", help="make no environments; use the existing ones")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the raw figures to this file")
    parser.add_argument("--self-check", action="store_true", help="check that it works, with tiny workloads")
    arguments = parser.parse_args()
    if unknown := set((arguments.only or "").split(",")) - {"", *names}:
        parser.error(f"invalid --only {', '.join(sorted(unknown))!r}: choose from {', '.join(names)}")
    return arguments


def _systems(arguments: argparse.Namespace) -> list[System]:
    chosen = arguments.only.split(",") if arguments.only else [system.name for system in SYSTEMS]
    found = []
    for system in SYSTEMS:
        if system.name not in chosen or (system.environment and (arguments.no_peers or arguments.self_check)):
            continue
        if system.environment and (why := environments.prepare(system.environment, install=not arguments.offline)):
            print(f"  {system.name}: {why}", file=sys.stderr)
            continue
        found.append(system)
    return found


def main() -> int:
    """Measure and print. Return 1 if an event was lost or a server of ours failed."""
    arguments = _arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sizes = TINY if arguments.self_check else QUICK if arguments.quick else FULL
    load = os.getloadavg()[0]
    found = asyncio.run(_measure(_systems(arguments), sizes, arguments.rounds))
    traced = telemetry.measure(steps=sizes.steps, rounds=sizes.rounds)
    head = (
        f"{report.cores()} cores, Python {sys.version.split()[0]}, load {load:.1f} at the start; "
        f"one process per server and figure, a piece every {GAP:g} s"
    )
    tables = {
        "Servers": f"{head}\n\n{table(found, sizes)}",
        "OpenTelemetry": telemetry.table(traced),
        "Goals": report.goal_table([*goals(found), *telemetry.goals(traced)]),
    }
    for text in tables.values():
        print(text, end="\n\n")
    if arguments.write:
        how = 'Written by `make bench-server ARGS="--write benchmarks/RESULTS_SERVER.md"`.'
        sections = [f"## {title}\n\n{text}\n" for title, text in tables.items()]
        arguments.write.write_text("\n".join([f"# Results of the load benchmark\n\n{how}\n", *sections]))
    if arguments.json:
        arguments.json.write_text(json.dumps({"servers": found, "telemetry": traced}, indent=1) + "\n")
    ours = [job for name, figures in found.items() if not name.endswith("framework-ag-ui") for job in figures.values()]
    return int(any("error" in job or job.get("lost") for job in ours))


if __name__ == "__main__":
    sys.exit(main())
