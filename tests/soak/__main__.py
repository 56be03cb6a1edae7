"""Soak a fleet: `make soak`, or `python -m tests.soak [--seconds 300] [--seed N] [--late 1.0]`."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from functools import partial

from tests.airline.conftest import Published
from tests.conftest import DATA

from .record import Record
from .soak import soak


def main() -> int:
    """Soak, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long conversations begin and faults happen")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--late", type=float, default=1.0, help="the most seconds by which something may be late")
    given = parser.parse_args()
    if not DATA.is_dir():
        print(f"needs recorded data that is not part of the repository: {DATA}")
        return 2
    print(f"seed {given.seed}", flush=True)
    folder = DATA / "tau2/airline"
    record = asyncio.run(
        soak(Published(folder), folder, seconds=given.seconds, seed=given.seed, show=partial(print, flush=True))
    )
    print(summary(record))
    problems = [*record.problems, *too_late(record, given.late)]
    print("\n".join(problems) or "all holds")
    return 1 if problems else 0


def summary(record: Record) -> str:
    """Return what happened, in lines."""
    lines = [
        f"{len(record.turns)} conversations; {dict(record.faults)}; {dict(record.outside.seen)}",
        f"for {record.starved:.0%} of the time, processes waited for a processor; that is not counted as late below",
    ]
    for what, found in record.late.items():
        for name, seconds in (
            ("late", sorted(late.own for late in found)),
            ("with these waits", sorted(late.seconds for late in found)),
        ):
            if seconds:
                middle, most = seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]
                lines.append(
                    f"{what}: {len(found)}; {name}: {middle:.2f} s (median), {most:.2f} s (99 %), {seconds[-1]:.2f} s"
                )
    return "\n".join(lines)


def too_late(record: Record, most: float) -> list[str]:
    """Return what was later than *most* seconds, the latest last."""
    return [
        f"{what}: {late}"
        for what, found in record.late.items()
        for late in sorted(found, key=lambda late: late.own)
        if late.own > most
    ]


if __name__ == "__main__":
    sys.exit(main())
