"""A run that fails, and an output that takes nothing: what there is stays, and is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import kept

DRIVER = Path(__file__).with_name("driver.py")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_failed_run_says_why_and_keeps_what_there_is(
    environment: dict[str, str], corpus: Path, tmp_path: Path, as_json: bool
) -> None:
    file = tmp_path / "runs.db"
    done = subprocess.run(
        [sys.executable, str(DRIVER), "research", "failing", str(file), *(["--json"] if as_json else [])],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("concertino: the run failed: BadRequestError: the provider says no")
    assert str(file) in last
    if as_json:
        found = json.loads(done.stdout)
        assert found["status"] == "failed"
        assert "the provider says" in found["error"]
    else:
        assert done.stdout == "So far.\n"
    assert kept(file) == {"supervisor": ("failed", "So far. ")}


def _run_into(output: int, environment: dict[str, str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages"],
        env=environment,
        cwd=folder,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_reader_that_has_gone_is_no_error(environment: dict[str, str], corpus: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    status, err = _run_into(writing, environment, tmp_path)
    os.close(writing)
    assert status == 141
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stored in")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_an_output_that_is_full_is_an_error(environment: dict[str, str], corpus: Path, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        status, err = _run_into(full.fileno(), environment, tmp_path)
    assert status == 1
    assert err.splitlines()[-2].startswith("stored in")
    assert err.splitlines()[-1].startswith("concertino: standard output cannot be written to")
