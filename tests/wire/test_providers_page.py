"""The tables of docs/providers.md match the adapters."""

from __future__ import annotations

import pytest

from .abilities import ABILITIES, KINDS, PAGE, Ability, cell, page


def test_the_tables_are_current() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "python -m tests.wire.abilities writes it anew"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ability", ABILITIES, ids=lambda ability: ability.label)
def test_claimed_abilities_are_real(ability: Ability, kind: str) -> None:
    assert (cell(ability, kind) == "yes") == (kind in ability.marks), cell(ability, kind)
