"""A model of a fleet for 10^8 conversations a day: `python -m benchmarks.scale` prints the tables of docs/scale.md.

What a turn costs is measured (`python -m benchmarks.fleet --only turns`); the load and the prices are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Load:
    """What the product is asked for."""

    conversations: float = 1e8
    """A day."""
    turns: float = 4
    """Of a conversation, each with two tool calls."""
    streamed: float = 2
    """Seconds for which the answer of a turn streams."""
    lasts: float = 10
    """Seconds from a message to the end of its turn."""
    peak: float = 3
    """The busiest second relative to the mean."""
    days: float = 30
    """For which conversations are kept."""
    archived: float = 7
    """Days for which the log is archived."""
    calls: float = 3
    """Model calls of a turn."""
    tokens: float = 1_100
    """Of a model call."""


@dataclass(frozen=True)
class Turn:
    """What a turn costs: measured with 50 at once, without a stream, and what a second of a stream adds."""

    transactions: tuple[float, float] = (11.2, 24.2)
    log_kb: tuple[float, float] = (38.6, 34.0)
    disk_kb: tuple[float, float] = (30.8, 13.4)
    server_ms: tuple[float, float] = (10.1, 7.1)
    cpu_ms: tuple[float, float] = (9.6, 5.1)


@dataclass(frozen=True)
class Partition:
    """A database server, with its own workers. Assumed, except for the connections of a process."""

    cores: float = 16
    busy: float = 0.6
    """The most that a core is used."""
    commits: float = 20_000
    """A second."""
    log_mb: float = 150
    """A second."""
    connections: float = 8
    """Of a process, at most."""


@dataclass(frozen=True)
class Prices:
    """US dollars: round figures of November 2026, no quotes."""

    database_core: float = 0.10
    """An hour, with 8 GB of memory."""
    core: float = 0.045
    """An hour."""
    disk: float = 0.12
    """A month, for a GB."""
    archive: float = 0.023
    """A month, for a GB."""
    tokens: float = 0.20
    """For a million, of a small model."""


HOURS, DAY = 730, 86_400


def tables(load: Load, turn: Turn, partition: Partition, prices: Prices) -> str:
    """Return the tables: the demand in the busiest second, the partitions, and the bill of a month."""

    def of_turn(cost: tuple[float, float]) -> float:
        return cost[0] + cost[1] * load.streamed

    daily = load.conversations * load.turns
    peak = daily / DAY * load.peak
    commits, streams = peak * of_turn(turn.transactions), peak * turn.transactions[1] * load.streamed
    log_mb = peak * of_turn(turn.log_kb) / 1e3
    server, workers = peak * of_turn(turn.server_ms) / 1e3, ceil(peak * of_turn(turn.cpu_ms) / 1e3 / partition.busy)
    needed = {
        "commits": commits / partition.commits,
        "CPU of the database": server / partition.busy / partition.cores,
        "bytes of the log": log_mb / partition.log_mb,
    }
    partitions = ceil(max(needed.values()))
    disk_gb = daily * load.days * of_turn(turn.disk_kb) / 1e6
    archive_gb = daily * load.archived * of_turn(turn.log_kb) / 1e6
    demand = {
        "turns a second": peak,
        "turns in progress": peak * load.lasts,
        "commits a second": commits,
        "of these for pieces of answers": streams,
        "MB of the log a second": log_mb,
        "busy cores of the databases": server,
        "worker processes, one core each": workers,
    }
    each = {
        "turns a second": peak / partitions,
        "worker processes": workers / partitions,
        "connections of workers": workers / partitions * partition.connections,
        "turns in progress, so subjects of events": peak * load.lasts / partitions,
        "rings a second": commits / partitions,
        "TB on disk": disk_gb / 1e3 / partitions,
    }
    bill = {
        "databases, with a replica": 2 * partitions * partition.cores * prices.database_core * HOURS,
        "disks, with a replica": 2 * disk_gb * prices.disk,
        "archive of the log": archive_gb * prices.archive,
        "workers": workers * prices.core * HOURS,
    }
    tokens = daily * load.calls * load.tokens * 30 / 1e6 * prices.tokens
    parts = [
        _table("in the busiest second", demand, "{:,.0f}"),
        _table("partitions, if only this counted", needed, "{:,.1f}"),
        _table(f"each of {partitions} partitions", each, "{:,.0f}"),
        _table(
            "US dollars a month", {**bill, "together": sum(bill.values()), "the models, to compare": tokens}, "{:,.0f}"
        ),
    ]
    return "\n".join(parts)


def _table(title: str, rows: dict[str, float], form: str) -> str:
    lines = [f"| {name} | {form.format(value)} |" for name, value in rows.items()]
    return "\n".join([f"| {title} | |", "| --- | ---: |", *lines, ""])


if __name__ == "__main__":
    print(tables(Load(), Turn(), Partition(), Prices()), end="")
