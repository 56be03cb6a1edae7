"""Measure a fleet on one machine: `python -m benchmarks.fleet [--quick] [--no-peers] [--only PART]`.

PostgreSQL and NATS come from Python packages. Ratios count: all parts share the machine with the servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.fleet.nats_server import NatsServer
from tests.postgres.server import Server

from benchmarks import environments
from benchmarks.fleet.claims import claims, distant, queue
from benchmarks.fleet.first import first
from benchmarks.fleet.rows import multiply
from benchmarks.fleet.signals import BATCH, RINGERS, signals
from benchmarks.fleet.turns import turns
from benchmarks.fleet.waiting import prepare, waiting, woken

PARTS = ("steps", "turns", "first", "signals", "claims", "woken", "waiting")
_SYSTEMS = ("concertino_postgres", "dbos_postgres", "langgraph_postgres", "procrastinate_postgres")
_PATIENCE = 600.0
_FAR = 0.001
"""Seconds from a worker on another machine to the server."""
_SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB", "shared_buffers": "512MB"}
"""No checkpoint within a measurement: after one, the log has whole pages."""


@contextmanager
def _server() -> Iterator[Server]:
    server = Server()
    try:
        server.start(**_SETTINGS)
        yield server
    finally:
        server.close()


def _steps(server: Server, *, quick: bool, peers: bool) -> None:
    size = {"steps": 20, "long": 200 if quick else 2_000, "at_most": 5 if quick else 30, "seconds": 5 if quick else 30}
    print("\nsteps with a result of 1 kB: ms, x bare transactions, CPU ms, of the server, log kB early and late")
    for system in _SYSTEMS if peers else _SYSTEMS[:1]:
        problem = environments.prepare(system, install=True)
        found = {"error": problem} if problem else _measured(system, {**size, "url": server.database()})
        if "error" in found:
            print(f"  {system:22} {found['error']}")
            continue
        ratio = f"{found['to_rows']:.1f} x" if "to_rows" in found else ""
        print(
            f"  {system:22} {found['ms']:6.2f} {ratio:>6} {found['cpu_ms']:6.2f} {found['server_ms']:6.2f}"
            f" {found['early_kb']:6.1f} {found['late_kb']:6.1f}"
            f"   {found['transactions']:.1f} transactions, usage {found['usage']}",
            flush=True,
        )


def _measured(system: str, parameters: dict[str, Any]) -> dict[str, Any]:
    try:
        done = environments.run(system, json.dumps([("postgres", parameters)]), timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return {"error": f"over {_PATIENCE:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _turns(server: Server, *, quick: bool) -> None:
    print("\na turn of a conversation with two tool calls: transactions, log kB, disk kB, ms of the server, CPU ms")
    for seconds in (0.0, 2.0):
        for at_once in (1, 50) if quick else (1, 50, 500):
            found = asyncio.run(turns(server.database(), at_once, seconds))
            shown = " ".join(
                f"{found[name]:7.1f}" for name in ("transactions", "log_kb", "disk_kb", "server_ms", "cpu_ms")
            )
            print(f"  {at_once:3} at once, streamed for {seconds:g} s: {shown}", flush=True)


def _first(server: Server, *, quick: bool) -> None:
    print("\nthe first event and piece of an answer at a reader in another process, over NATS: median, 95 %, most, ms")
    bus = NatsServer()
    bus.start()
    try:
        for at_once in (1, 16):
            found = first(server.database(), bus.url, 48 if quick else 320, at_once)
            shown = {
                "message to first event": found["event"],
                "message to first piece": found["answer"],
                "first piece from the model to the reader": found["piece"],
            }
            for name, figures in shown.items():
                print(f"  {at_once:2} at once, {name:40}" + "".join(f" {each:7.1f}" for each in figures), flush=True)
    finally:
        bus.stop()


def _signals(_: Server, *, quick: bool) -> None:
    bus = NatsServer()
    bus.start()
    try:
        rate, cpu_us = signals(bus.url, 2.0 if quick else 10.0)
    finally:
        bus.stop()
    print(
        f"\nrings that one process hears, of {RINGERS} that ring {BATCH:,} topics at once: {rate:,.0f} a second,"
        f" {cpu_us:.1f} us of CPU each",
        flush=True,
    )


def _claims(server: Server, *, quick: bool) -> None:
    url, many = server.database(), 20_000 if quick else 40_000
    asyncio.run(prepare(url, answered=True))
    multiply(url, many)
    queue(url, many)
    print("\nclaims per second, of runs, of queued turns, and of bare rows by one statement")
    for limit, delay in ((1, 0.0), (8, 0.0), (1, _FAR)):
        for work in ("trees", "turns", "bare"):
            with distant(url, delay) as reached:
                rates = {workers: claims(url, work, workers, limit, reached) for workers in (1, 2, 4, 8)}
            shown = ", ".join(f"{workers}: {rate:,.0f}" for workers, rate in rates.items())
            where = f"{limit} at a time" + (f" over a network of {2_000 * delay:.0f} ms" if delay else "")
            print(f"  {work:5} {where}, by workers: {shown}; 8 are {rates[8] / rates[1]:.1f} x one", flush=True)


def _woken(server: Server, *, quick: bool) -> None:
    url = server.database()
    asyncio.run(prepare(url, answered=True))
    found = asyncio.run(woken(url, 1_000 if quick else 10_000))
    print(
        f"\n{found['woken']:,} answered conversations at once, one worker: {found['seconds']:.1f} s,"
        f" {found['per_second']:.0f} a second, {found['cpu_ms']:.1f} ms of CPU each, {found['mib']:.0f} MiB more",
        flush=True,
    )


def _waiting(server: Server, *, quick: bool) -> None:
    print(
        "\nwaiting conversations: wake-up ms (median, 95 %), rows, pages, a pass of the watchdog ms, rows, pages,"
        " MiB more, kB on disk each"
    )
    for copies in (1_000, 10_000) if quick else (1_000, 100_000, 1_000_000):
        url, bus = server.database(), NatsServer()
        bus.start()
        try:
            asyncio.run(prepare(url, answered=False))
            found = asyncio.run(waiting(url, bus.url, copies))
        finally:
            bus.stop()
        print(
            f"  {found['waiting']:>9,} {found['wake_ms']:7.1f} {found['wake_p95_ms']:7.1f}"
            f" {found['wake_rows']:6} {found['wake_pages']:6} {found['look_ms']:7.2f}"
            f" {found['look_rows']:6} {found['look_pages']:6} {found['grown_mib']:7.1f} {found['disk_kb']:6.1f}",
            flush=True,
        )
    print("  kB each, with indexes: " + ", ".join(f"{name} {kb:.1f}" for name, kb in found["tables_kb"].items()))


def main() -> None:
    """Measure, and print each part as soon as it is done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--no-peers", action="store_true", help="only concertino")
    parser.add_argument("--only", choices=PARTS, help="one part")
    arguments = parser.parse_args()
    steps = partial(_steps, peers=not arguments.no_peers)
    parts: dict[str, Callable[..., None]] = dict(
        zip(PARTS, (steps, _turns, _first, _signals, _claims, _woken, _waiting), strict=True)
    )
    for name, part in parts.items():
        if arguments.only in (None, name):
            with _server() as server:
                part(server, quick=arguments.quick)


if __name__ == "__main__":
    main()
