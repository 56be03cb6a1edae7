"""The table of docs/workers.md: what ends a worker's loop, in order, and that each end has an answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from concertino import Limits, Retry
from concertino.agents import EXIT_CONDITIONS
from concertino.errors import OverloadedError
from concertino.testing import Answer
from concertino.usage import Tokens

from .worker_kit import Played, cost_of, decision, play, respond, worker

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "workers.md").read_text()
TABLE = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## How the loop ends")[2].partition("\n## ")[0], re.MULTILINE)
HIGH = {"confidence": "high"}


def years(*numbers: int, confidence: str = "high") -> list[str]:
    """Return passes that look up one year each."""
    return [decision(("stats", {"year": number}), confidence=confidence) for number in numbers]


def expensive(text: str, tokens: int = 1_000) -> Answer:
    return Answer(text=text, tokens=Tokens(prompt=tokens, completion=1))


async def responded() -> Played:
    return await play(worker(), *years(2024), respond("120 records."))


async def max_passes() -> Played:
    return await play(worker(loop={"max_passes": 2}), *years(2024, 2025), writer=["A summary."])


async def token_budget() -> Played:
    scripts = [expensive(text) for text in years(2024, 2025)]
    return await play(worker(loop={"token_budget": 2_000}), *scripts, writer=["A summary."])


async def budget_exceeded() -> Played:
    settings: Any = {"price": cost_of(30)}
    return await play(worker(), *years(2024, 2025), writer=["A summary."], **settings)


async def stale_confidence() -> Played:
    first, second = years(2021, 2022, confidence="medium"), years(2023, 2024, confidence="medium")
    return await play(worker(), *first, strong=second, writer=["A summary."])


async def all_tools_duplicate() -> Played:
    return await play(worker(), *years(2024, 2024), writer=["A summary."])


async def no_tools() -> Played:
    idle = decision(**HIGH)
    return await play(worker(), *years(2024), idle, strong=[idle, idle], writer=["A summary."])


async def empty_response() -> Played:
    return await play(worker(), *years(2024), respond(""), writer=["A summary."])


async def limit() -> Played:
    limits: Any = {"limits": lambda *_: Limits(steps=2)}
    return await play(worker(), *years(2024, 2025), decision("stats", **HIGH), writer=["A summary."], **limits)


SCENES = {
    scene.__name__: scene
    for scene in (
        responded,
        max_passes,
        token_budget,
        budget_exceeded,
        stale_confidence,
        all_tools_duplicate,
        no_tools,
        empty_response,
    )
}


def test_each_row_of_the_table_has_a_scene_and_the_order_is_that_of_the_checks() -> None:
    checked = [code for code in TABLE if code in EXIT_CONDITIONS]
    assert checked == list(EXIT_CONDITIONS)
    assert set(TABLE) == {*SCENES, "approval_needed"}


@pytest.mark.parametrize("code", SCENES)
async def test_a_row_of_the_table(code: str) -> None:
    played = await SCENES[code]()
    assert played.reason == code
    assert played.result.status == "completed"
    assert played.result.text == ("120 records." if code == "responded" else "A summary.")


async def test_a_limit_of_the_run_leaves_one_pass_to_respond_and_then_a_synthesis() -> None:
    played = await limit()
    assert played.reason == "steps"
    assert "respond now" in played.last(2)
    assert played.result.text == "A summary."
    played = await play(worker(), *years(2024, 2025), respond("Two."), limits=lambda *_: Limits(steps=2))
    assert (played.reason, played.result.text) == ("responded", "Two.")


@pytest.mark.parametrize(
    ("code", "loop"),
    [
        ("max_passes", {"max_passes": 1, "token_budget": 5, "cost_budget": "0.01"}),
        ("token_budget", {"token_budget": 5, "cost_budget": "0.01"}),
        ("budget_exceeded", {"cost_budget": "0.01"}),
    ],
)
async def test_the_first_of_several_conditions_is_the_reason(code: str, loop: Any) -> None:
    played = await play(worker(loop=loop), *years(2024), writer=["A summary."], price=cost_of(1))
    assert played.reason == code


async def test_stale_confidence_comes_before_duplicates() -> None:
    first = years(2021, 2022, confidence="medium")
    second = years(2023, 2023, confidence="medium")
    assert (await play(worker(), *first, strong=second, writer=["A summary."])).reason == "stale_confidence"


async def test_low_confidence_twice_escalates_once() -> None:
    strong = [*years(2023, confidence="low"), respond()]
    played = await play(worker(), *years(2021, 2022, confidence="low"), strong=strong)
    assert played.custom("escalated") == [{"reason": "low_confidence", "model": "scripted:strong"}]
    assert [each["model"].partition(":")[2] for each in played.custom("pass")] == ["main", "main", "strong", "strong"]


async def test_high_confidence_is_never_stale() -> None:
    played = await play(worker(), *years(2021, 2022, 2023), respond())
    assert (played.custom("escalated"), played.reason) == ([], "responded")


async def test_stale_confidence_ends_a_worker_without_a_stronger_model() -> None:
    agent = worker(loop={"escalation_model": None})
    played = await play(agent, *years(2021, 2022, confidence="low"), writer=["A summary."])
    assert (played.custom("escalated"), played.reason) == ([], "stale_confidence")


async def test_a_pass_without_tools_escalates_and_a_pass_with_tools_resets_the_count() -> None:
    idle = decision(**HIGH)
    agent = worker(loop={"max_passes": 9})
    strong = [idle, *years(2024), idle, idle, respond()]
    played = await play(agent, idle, strong=strong)
    assert played.custom("escalated") == [{"reason": "no_tools", "model": "scripted:strong"}]
    assert played.reason == "responded"


async def test_nothing_gathered_is_stated_without_a_model() -> None:
    played = await play(worker(loop={"max_passes": 1}), decision(**HIGH))
    assert played.result.text.startswith("I could not gather any data")
    assert played.requests["writer"] == []


async def test_results_that_no_model_puts_into_words_are_shown_as_notes() -> None:
    found = decision("stats", document_updates={"findings": "120 in 2025"}, **HIGH)
    agent = worker(loop={"max_passes": 1})
    played = await play(agent, found, writer=[OverloadedError("down", provider="scripted")], retry=Retry(attempts=1))
    assert played.result.status == "completed"
    assert "[pass 1] 120 in 2025" in played.result.text
    assert "down" in played.result.text
