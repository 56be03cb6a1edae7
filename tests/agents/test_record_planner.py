"""The patterns of the record analyst's model: what is understood, and that the rest is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from examples.record_analyst.planner import plan

from .record_strangers import REFUSED, STRANGERS


@pytest.mark.parametrize(
    ("question", "arguments", "filters"),
    [
        ("What's the total air time for carrier B6?", {"measure": "sum", "column": "air_time"}, ["carrier = B6"]),
        ("What was the highest departure delay in May?", {"measure": "maximum", "column": "dep_delay"}, ["month = 5"]),
        ("Count of flights by origin", {"measure": "count", "group_by": "origin"}, []),
        ("How many flights with plane model 737-824?", {"measure": "count"}, ["plane_model = 737-824"]),
        (
            "How many flights where airline is 'JetBlue Airways' and precipitation is at least 0.5?",
            {"measure": "count"},
            ["precipitation >= 0.5", "airline = JetBlue Airways"],
        ),
        (
            "Bottom 5 airlines by total air time",
            {"measure": "sum", "column": "air_time", "group_by": "airline", "descending": False, "limit": 5},
            [],
        ),
    ],
)
def test_a_question_is_understood(question: str, arguments: dict[str, Any], filters: list[str]) -> None:
    found = plan(question)
    assert not isinstance(found, str)
    tool, planned, marks = found
    given = planned.pop("filters")
    assert (tool, planned, marks) == ("data.summarize", arguments, False)
    assert [f"{each['column']} {each['operator']} {each['value']}" for each in given] == filters


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("How many flights did not leave JFK?", "not"),
        ("How many flights from JFK or to Boston?", "or"),
        ("Average ticket price by carrier", "ticket price"),
        ("How many flights by carrier, and mark them", "mark them: ask for flights to mark"),
    ],
)
def test_what_is_not_understood_is_named(question: str, left: str) -> None:
    assert plan(question) == left


def test_questions_of_strangers_are_understood_or_refused() -> None:
    assert [question for question, _ in STRANGERS if isinstance(plan(question), str)] == []
    assert [question for question in REFUSED if not isinstance(plan(question), str)] == []


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "x" * 100_000,
        "how many flights " * 5_000,
        "'" * 999,
        "in May " * 3_000,
        "\ud800 \0 \u202e",
        "distance above 1" * 2_000,
    ],
    ids=range(8),
)
def test_hostile_questions_are_refused(question: str) -> None:
    assert isinstance(plan(question), str)
