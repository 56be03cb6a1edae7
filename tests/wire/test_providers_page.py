"""The table of docs/providers.md is what is found."""

from __future__ import annotations

import pytest

from .abilities import ABILITIES, KINDS, PAGE, Ability, cell, page


def test_the_page_says_what_is_found() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "python -m tests.wire.abilities writes it anew"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ability", ABILITIES, ids=lambda ability: ability.label)
def test_what_a_provider_is_said_to_do_it_does(ability: Ability, kind: str) -> None:
    assert (cell(ability, kind) == "yes") == (kind in ability.marks), cell(ability, kind)
