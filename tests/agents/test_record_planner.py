"""The patterns of the record analyst's model: what is understood, and that the rest is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from examples.record_analyst.planner import plan


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
            ["airline = JetBlue Airways", "precipitation >= 0.5"],
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
        ("How many flights did not leave JFK?", "not leave JFK"),
        ("How many flights from JFK or LGA?", "or LGA"),
        ("Average ticket price by carrier", "Average ticket price"),
        ("How many flights by carrier, and mark them", "mark them: ask for flights to mark"),
    ],
)
def test_what_is_not_understood_is_named(question: str, left: str) -> None:
    assert plan(question) == left
