"""The decision contract: what is read, what is repaired, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino import tool
from concertino.agents.worker import decision_type, read_decision
from concertino.errors import InvalidOutputError
from concertino.orchestrator.strict_schema import strict_form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '"x"',
        "{" * 5_000,
        "[" * 50_000,
        '{"a": 1}',
        "\ud800",
        "NaN",
        "{1: 2}",
        "plain words",
        "{'thinking': '" + "x" * 50_000,
    ],
)
def test_an_answer_without_a_decision_is_refused(text: str) -> None:
    with pytest.raises(InvalidOutputError):
        read_decision(text)


@pytest.mark.parametrize(
    ("fields", "repairs"),
    [
        ({"tool_calls": "stats"}, 1),
        ({"tool_calls": [{"params": {}}, 3]}, 2),
        ({"tool_calls": [{"tool": "stats", "params": [1]}]}, 1),
        ({"confidence": "very"}, 1),
        ({"document_updates": ["a"]}, 1),
        ({"document_updates": {"a": None, " ": "x", "b": "y"}, "thinking": None, "response": 5}, 0),
    ],
)
def test_a_field_of_another_type_is_read_as_far_as_it_can_be(fields: dict[str, Any], repairs: int) -> None:
    found = read_decision(json.dumps({"confidence": "low", **fields}))
    assert len(found.repairs) == repairs
    assert found.tool_calls == ()
    assert set(found.document_updates) <= {"b"}


@tool(effect="read")
async def stats(year: int = 2025) -> str:
    """Count."""
    return ""


def test_the_schema_has_a_form_that_providers_enforce() -> None:
    strict = strict_form(decision_type(["plan", "confidence"], [stats]))
    assert strict is not None
    assert strict["properties"]["document_updates"]["required"] == ["plan"]
    assert strict_form(decision_type([], [])) is not None
