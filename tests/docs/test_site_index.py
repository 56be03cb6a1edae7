"""The documentation site has every page: Sphinx builds what docs/index.md and docs/api/index.md list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("folder", [DOCS, DOCS / "api"], ids=["docs", "api"])
def test_the_index_lists_every_page_once(folder: Path) -> None:
    toctrees = re.findall(r"^```{toctree}\n(.*?)^```", (folder / "index.md").read_text(), re.MULTILINE | re.DOTALL)
    listed = [line for tree in toctrees for line in tree.splitlines() if line and not line.startswith(":")]
    pages = [path.stem for path in folder.glob("*.md") if path.stem != "index"]
    assert sorted(listed) == sorted([*pages, *(["api/index"] if folder == DOCS else [])])
