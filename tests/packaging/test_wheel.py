"""The built wheel works when it is installed from its metadata, with each extra and with all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from .programs import CORE, PROGRAMS, without

pytestmark = pytest.mark.wheel
ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = sorted(PROJECT["optional-dependencies"])
UV = Path(sys.executable).with_name("uv")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program that sees neither this checkout nor the environment of the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run([str(part) for part in command], env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


class Environment:
    """A fresh virtual environment."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.python = folder / "bin" / "python"

    def install(self, wheel: Path, *extras: str) -> None:
        """Install with the pip that the environment came with."""
        wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        run(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)

    def install_lowest(self, wheel: Path, *extras: str) -> None:
        """Install the lowest version that pyproject.toml allows of each direct dependency."""
        chosen = [f"--extra={extra}" for extra in extras]
        install: list[str | Path] = [UV, "pip", "install", "--quiet", f"--python={self.python}"]
        run(*install, "--resolution=lowest-direct", *chosen, "-r", ROOT / "pyproject.toml")
        run(*install, "--no-deps", wheel)

    def check(self, *programs: str) -> None:
        """Run programs in isolated mode, with warnings as errors."""
        for program in programs:
            run(self.python, "-I", "-W", "error", "-c", program)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env")


def test_every_extra_has_a_program() -> None:
    assert sorted(PROGRAMS) == EXTRAS


def test_without_extras(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)
    environment.check(CORE, *(without(extra) for extra in EXTRAS if extra != "examples"))  # the package imports no data


@pytest.mark.parametrize("extra", EXTRAS)
def test_one_extra(wheel: Path, environment: Environment, extra: str) -> None:
    environment.install(wheel, extra)
    environment.check(CORE, PROGRAMS[extra])


def test_all_extras_and_the_examples_of_the_readme(wheel: Path, environment: Environment) -> None:
    environment.install(wheel, *EXTRAS)
    examples = [each for each in EXAMPLE.findall((ROOT / "README.md").read_text()) if "ollama:" not in each]
    assert examples
    environment.check(CORE, *PROGRAMS.values(), *examples)


@pytest.mark.parametrize("extras", [[extra] for extra in EXTRAS] + [EXTRAS], ids="-".join)
def test_lowest_versions(wheel: Path, environment: Environment, extras: list[str]) -> None:
    environment.install_lowest(wheel, *extras)
    environment.check(CORE, *(PROGRAMS[extra] for extra in extras))
