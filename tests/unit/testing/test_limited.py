"""The file of a `LimitedModel`."""

from __future__ import annotations

from pathlib import Path

from concertino.testing.limited import read_requests


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "requests"
    assert read_requests(file) == []
    file.write_text("1.5 sent ann\n2.5 se")
    assert read_requests(file) == [(1.5, "sent", "ann")]
