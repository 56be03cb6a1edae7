"""The program `concertino`: research and chat from a terminal, a pipe or another program."""

from __future__ import annotations

import sys

from ..errors import MissingExtraError
from ..extras import extra


def main() -> int:
    """Run the program and return its exit status; `docs/cli.md` lists the statuses."""
    try:
        return _run()
    except KeyboardInterrupt:  # raised while the program loads: no run has begun
        return 130


def _run() -> int:
    try:
        with extra("cli", "the command line"):
            import rich  # noqa: F401, PLC0415 - imported later, where a failure is harder to report

            from .app import run  # noqa: PLC0415
    except MissingExtraError as error:
        sys.stderr.write(f"concertino: {error}\n")
        return 2
    return run()
