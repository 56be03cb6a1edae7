"""Provider rules: a model is recognized by its name, with any prefix or date."""

from __future__ import annotations

import pytest

from concertino.cache_rules import binding

PREFIX = ["opus-5-5", "opus-5.5", "sonnet-5-9", "haiku-5-10", "fable-5-1", "mythos-5.1", "fable-5-12"]
LATER = ["opus-6", "sonnet-6-1", "fable-6", "mythos-7.2", "haiku-10", "someone-6"]
TURN = ["opus-4-8", "opus-5", "opus-5-4", "sonnet-5.0", "fable-5", "mythos-5-0", "haiku-4-5", "3-7-sonnet", "someone-5"]


@pytest.mark.parametrize("date", ["", "-20260801", "@20260801", "-latest", "-20260801-v1:0"])
@pytest.mark.parametrize("maker", ["", "anthropic/", "eu.anthropic."])
def test_preserved_thinking_begins_with_its_versions(maker: str, date: str) -> None:
    found = {name: binding("anthropic", f"{maker}claude-{name}{date}") for name in (*PREFIX, *LATER, *TURN)}
    assert found == {**dict.fromkeys((*PREFIX, *LATER), "prefix"), **dict.fromkeys(TURN, "turn")}


def test_other_models_bind_no_reasoning() -> None:
    assert binding("openai", "gpt-6") == binding("google", "gemini-3-pro") == "free"
