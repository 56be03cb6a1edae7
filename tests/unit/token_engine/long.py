"""The long run, in which each session is judged in all formats.

python -m tests.unit.token_engine.long 100000 [first seed]
"""

from __future__ import annotations

import sys
from random import Random

from .session import Session


def main(count: int, first: int) -> int:
    """Run sessions, report the seeds that fail, and return the exit status."""
    failed: list[int] = []
    requests = 0
    for seed in range(first, first + count):
        session = Session(Random(seed))
        try:
            session.run()
        except AssertionError as error:
            failed.append(seed)
            print(f"seed {seed}: {str(error)[:300]}", flush=True)
        requests += session.requests
    print(f"{count} sessions, {requests} requests in four formats, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
