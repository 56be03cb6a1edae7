"""`make fleet` ends with a report, although two workers were killed."""

from __future__ import annotations

import pytest

from .demo import main


@pytest.mark.slow
def test_the_demonstration(capfd: pytest.CaptureFixture[str]) -> None:
    main()
    shown = capfd.readouterr().out
    assert "killed worker" in shown
    assert "the turn is completed; its report:" in shown
    assert "## Sources" in shown
    assert "supervisor/researcher-1" in shown
