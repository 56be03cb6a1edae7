"""The program `concertino`: research and chat from a terminal, a pipe or another program."""

from __future__ import annotations

import sys

_EXTRA = ("typer", "rich")
"""The packages of the extra `cli`."""


def main() -> int:
    """Run the program and return its exit status; `docs/cli.md` lists the statuses."""
    try:
        return _run()
    except KeyboardInterrupt:  # raised while the program loads: no run has begun
        return 130


def _run() -> int:
    try:
        import rich  # noqa: F401, PLC0415 - fails here, where the extra can be named, and not in the middle of a run

        from .app import run  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(f"concertino: the command line needs {error.name}: pip install 'concertino[cli]'\n")
        return 2
    return run()
