"""The samples in the tree are exactly what their generator writes."""

from __future__ import annotations

from pathlib import Path

from .samples import SAMPLES, write


def test_the_samples_are_current(tmp_path: Path) -> None:
    assert write(tmp_path) > 100
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.json")}
    stored = {path.relative_to(SAMPLES): path.read_text() for path in SAMPLES.rglob("*.json")}
    assert stored == written, "run `python -m tests.wire.samples`"
