"""The environments of the systems: those in `systems/` share the project's own, each peer has one in `.bench/`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
_FOLDER = ROOT / ".bench"
_SHARED = {
    "langgraph_node": "langgraph", "langgraph_agent": "langgraph", "langgraph_postgres": "langgraph",
    "procrastinate_postgres": "procrastinate",
    "dbos_step": "dbos", "dbos_agent": "dbos", "dbos_postgres": "dbos",
    "openai_agents_http": "openai_agents", "langchain_trim": "langgraph", "langchain_clear": "langgraph",
    "agent_framework_trim": "agent_framework", "pydantic_ai_trim": "pydantic_ai",
}  # fmt: skip
"""The environment of each system that shares one, by system."""


def _is_here(system: str) -> bool:
    return (HERE / "systems" / f"{system}.py").exists()


def interpreter(environment: str) -> Path:
    """Return the Python of an environment in `.bench/`."""
    return _FOLDER / environment / "bin" / "python"


def prepare(system: str, *, install: bool) -> str | None:
    """Make the system's environment, unless it exists. Return the reason if it cannot be made."""
    if _is_here(system):
        return None
    name = _SHARED.get(system, system)
    requirements = HERE / "requirements" / f"{name}.txt"
    stamp = hashlib.sha256(requirements.read_bytes()).hexdigest() + "\n" + sys.version
    ready = _FOLDER / name / ".ready"
    if ready.exists() and ready.read_text() == stamp:
        return None
    if not install:
        return "no environment; run without --offline to make it"
    shutil.rmtree(_FOLDER / name, ignore_errors=True)
    problem = _make(name, requirements)
    if problem is None:
        ready.write_text(stamp)
    return problem


def _make(environment: str, requirements: Path) -> str | None:
    python = str(interpreter(environment))
    flags = "--quiet --disable-pip-version-check --no-input --retries 1 --no-deps --require-hashes"
    commands = (
        [sys.executable, "-m", "venv", str(_FOLDER / environment)],
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
    here = _is_here(system)
    python = sys.executable if here else str(interpreter(_SHARED.get(system, system)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users import compiled modules
    if here:
        environment["PYTHONPATH"] += f"{os.pathsep}{ROOT / 'src'}"  # of this checkout, wherever it was installed from
    # A process that is killed cannot clean up: the folder of its files is removed here.
    with TemporaryDirectory(prefix="benchmarks-") as folder:
        return subprocess.run(
            [python, "-m", "benchmarks.one", f"{'systems' if here else 'peers'}.{system}", jobs],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            cwd=ROOT,
            env=environment | {"TMPDIR": folder},
        )
