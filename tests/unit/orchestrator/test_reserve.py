"""What a request may take is counted anew wherever it is not what was counted before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from concertino import Limits, Resources
from concertino.messages import Message, Messages, ToolSpec, UserMessage
from concertino.orchestrator.model_call.budget import Reserve
from concertino.providers.base import ModelRequest
from concertino.token_engine.counting.base import EstimatingCounter, TokenCounter


def fresh(counter: TokenCounter | None = None) -> Reserve:
    """One that has counted nothing yet."""
    meter: Any = SimpleNamespace(endings={})
    return Reserve(Resources(counter=counter or EstimatingCounter()), Limits(), meter, "r1")


def asking(messages: Any, system: str = "") -> ModelRequest:
    return ModelRequest(model="m", system=system, messages=messages)


changes = st.lists(st.tuples(st.sampled_from(["grows", "edited", "own", "shorter", "in place"]), st.integers(1, 40)))


@given(changes)
def test_it_counts_what_is_sent(steps: list[tuple[str, int]]) -> None:
    shown: list[Message] = [UserMessage("go")]
    own: list[Message] = [UserMessage("go")]
    reserve = fresh()
    for how, size in steps:
        messages: Any = own
        said = UserMessage("word " * size)
        if how == "grows":
            shown.append(said)
            messages = Messages(shown)
        elif how == "edited":
            shown = [*shown[: size // 8], said, *shown[size // 8 + 1 :]]
            messages = Messages(shown)
        elif how == "own":
            messages = (said, *shown[1:])
        elif how == "shorter":
            messages = shown[-1:]
        else:
            own[0] = said
            own.append(said)
        request = asking(messages)
        assert reserve.prompt(request) == fresh().prompt(request)


def test_what_is_counted_once_is_not_counted_again() -> None:
    counted: list[str] = []

    class Counter(EstimatingCounter):
        def count(self, text: str) -> int:
            counted.append(text)
            return super().count(text)

    reserve = fresh(Counter())
    shown: list[Message] = [*map(UserMessage, ("said 0", "said 1", "said 2"))]
    tools = (ToolSpec("look", "Look.", {}),)
    for _ in range(3):
        reserve.prompt(ModelRequest(model="m", system="Be.", messages=Messages(shown), tools=tools))
    assert counted == ["Be.", tools[0].text, "said 0", "said 1", "said 2"]


def test_another_prompt_in_the_place_of_one_that_is_gone() -> None:
    """Where a text was freed, another one may have its address."""
    reserve = fresh()
    for _ in range(20):
        for letter in "a1":
            reserve.prompt(asking((), letter * 9_000))
        assert reserve.prompt(asking((), "1" * 9_000)) > 3_000
