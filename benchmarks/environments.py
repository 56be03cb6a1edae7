"""Where the systems run: floor and concertino here, each peer in an environment of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import OURS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
_PLACE = ROOT / ".bench"


def _interpreter(system: str) -> Path:
    return _PLACE / system / "bin" / "python"


def prepare(system: str, *, install: bool) -> str | None:
    """Make the system's environment, unless it stands. Gives the reason if there is none afterwards."""
    if system in OURS:
        return None
    requirements = HERE / "requirements" / f"{system}.txt"
    stamp = hashlib.sha256(requirements.read_bytes()).hexdigest() + "\n" + sys.version
    ready = _PLACE / system / ".ready"
    if ready.exists() and ready.read_text() == stamp:
        return None
    if not install:
        return "no environment, and none was to be made"
    shutil.rmtree(_PLACE / system, ignore_errors=True)
    problem = _make(system, requirements)
    if problem is None:
        ready.write_text(stamp)
    return problem


def _make(system: str, requirements: Path) -> str | None:
    python = str(_interpreter(system))
    flags = "--quiet --disable-pip-version-check --no-input --retries 1 --require-hashes"
    commands = (
        [sys.executable, "-m", "venv", str(_PLACE / system)],
        [python, "-m", "pip", "install", *flags.split(), "-r", str(requirements)],
    )
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        except (OSError, subprocess.TimeoutExpired) as problem:
            return f"{type(problem).__name__} while its environment was made"
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            return (errors or done.stderr.splitlines() or ["no reason given"])[-1]
    return None


def run(system: str, jobs: str, *, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `benchmarks.one` in the system's environment. Raises `subprocess.TimeoutExpired`."""
    python = sys.executable if system in OURS else str(_interpreter(system))
    return subprocess.run(
        [python, "-m", "benchmarks.one", system, jobs],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
    )
