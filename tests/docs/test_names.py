"""The public names in the text of the documentation exist."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import concertino
from concertino import errors, events, runtime, storage, token_engine
from concertino.observability import names as observability_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "coming-from.md"})]
"""All pages but the one with the names of other frameworks."""
MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)")
KEYWORD = re.compile(r"`([A-Z]\w+)\((\w+)=")
MODULE = re.compile(r"`(concertino(?:\.\w+)+)")
MODULES = (concertino, errors, events, runtime, storage, token_engine)


def public(name: str) -> Any:
    """Return the public class or function of this name; None if there is none."""
    return next((getattr(module, name) for module in MODULES if hasattr(module, name)), None)


def has_member(owner: Any, name: str) -> bool:
    """Return whether a class has this attribute or field."""
    fields = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    return hasattr(owner, name) or name in fields


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_members_exist(page: Path) -> None:
    found = [(public(owner), owner, name) for owner, name in MEMBER.findall(page.read_text())]
    missing = [f"{owner}.{name}" for kind, owner, name in found if kind is not None and not has_member(kind, name)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_fields_exist(page: Path) -> None:
    """Check the keywords of dataclasses, whose fields are known."""
    found = [(public(owner), owner, name) for owner, name in KEYWORD.findall(page.read_text())]
    kinds = [each for each in found if dataclasses.is_dataclass(each[0])]
    assert [f"{owner}({name}=)" for kind, owner, name in kinds if not has_member(kind, name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_dotted_names_can_be_imported(page: Path) -> None:
    telemetry = {value for value in vars(observability_names).values() if isinstance(value, str)}
    for dotted in set(MODULE.findall(page.read_text())) - telemetry:
        module, _, name = dotted.rpartition(".")
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(dotted)
