"""docs/glossary.md is in alphabetical order, and docs/coming-from.md names hooks that exist."""

from __future__ import annotations

import re
from pathlib import Path

import concertino
from concertino import AgentConfig

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_glossary_is_sorted_and_has_each_term_once() -> None:
    terms = [term for term, _ in ROW.findall((DOCS / "glossary.md").read_text())][2:]
    assert len(terms) > 50
    assert terms == sorted(set(terms))


def test_the_comparisons_name_hooks_and_public_names_that_exist() -> None:
    rows = ROW.findall((DOCS / "coming-from.md").read_text())
    ours = " ".join(cell for _, cell in rows)
    hooks = set(re.findall(r"the hook `(\w+)`", ours)) | set(re.findall(r"`AgentConfig\.(\w+)`", ours))
    assert hooks
    assert all(hasattr(AgentConfig, hook) for hook in hooks)
    for owner, name in re.findall(r"`(Runtime|ToolOrchestrator|Tool|ToolContext)\.(\w+)", ours):
        assert hasattr(getattr(concertino, owner), name), f"{owner}.{name}"
