"""The error for a missing optional dependency names the import that failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from concertino.errors import MissingExtraError
from concertino.extras import extra


def test_a_missing_module(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError) as caught, extra("web", "web search"):
        import absent_module  # type: ignore[import-not-found]  # noqa: F401
    assert str(caught.value) == (
        "web search needs the extra 'web' (No module named 'absent_module'): pip install 'concertino[web]'"
    )


def test_a_missing_dependency_of_an_installed_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "installed_reader.py").write_text("import absent_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match="absent_dependency") as caught, extra("web", "reading HTML"):
        import installed_reader  # type: ignore[import-not-found]  # noqa: F401
    assert "installed_reader" not in str(caught.value)


def test_a_broken_import_of_our_own_is_not_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "concertino.ids", None)
    with pytest.raises(ModuleNotFoundError), extra("web", "web search"):
        import concertino.ids  # noqa: F401
