"""The program `concertino`: research and chat from a terminal, a pipe or another program."""

from __future__ import annotations

import sys

_EXTRA = ("typer", "rich")
"""The packages of the extra `cli`."""


def main() -> int:
    """The entry point. The status: see `docs/cli.md`."""
    try:
        return _run()
    except KeyboardInterrupt:  # before there was anything to stop
        return 130


def _run() -> int:
    try:
        import rich  # noqa: F401, PLC0415 - needed later, where a missing package could not be said well

        from .app import run  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(f"concertino: the command line needs {error.name}: pip install 'concertino[cli]'\n")
        return 2
    return run()
