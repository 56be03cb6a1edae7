"""The view: sizes, indexes and messages agree after any sequence of edits."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.messages import (
    AssistantMessage,
    Message,
    MessagePart,
    Reasoning,
    Text,
    ToolMessage,
    UserMessage,
)
from concertino.token_engine import Edit, Reduce, Strip, Summarize
from concertino.token_engine.counting.sizes import message_text
from concertino.token_engine.view import View, without_reasoning

from .session import fold


def measure(message: Message) -> int:
    return len(message_text(message))


class Plain:
    """A simple model of `View` that recomputes everything for each edit."""

    def __init__(self) -> None:
        self.length = 0
        self.shown: list[tuple[int, Message]] = []

    def append(self, message: Message) -> None:
        self.shown.append((self.length, message))
        self.length += 1

    def apply(self, edit: Edit) -> None:
        match edit:
            case Reduce(places, digests):
                short = dict(zip(places, digests, strict=True))
                self.shown = [
                    (place, replace(message, content=short[place], media=(), stored=True))
                    if place in short and message.role == "tool"
                    else (place, message)
                    for place, message in self.shown
                ]
            case Summarize(first, end, kept, text):
                stay = [one for one in self.shown if first <= one[0] < end and one[0] in kept]
                before = [one for one in self.shown if one[0] < first]
                stay.append((max(set(range(first, end)) - {*kept}), UserMessage(text)))
                self.shown = [*before, *sorted(stay, key=itemgetter(0)), *(o for o in self.shown if o[0] >= end)]
            case Strip(end):
                bare = [(place, without_reasoning(m) if place < end else m) for place, m in self.shown]
                self.shown = [(place, message) for place, message in bare if message is not None]


def some_message(chance: Random, number: int) -> Message:
    text = str(number) + "x" * chance.randrange(9)
    kind = chance.choice(("tool", "tool", "user", "text", "thought", "both"))
    if kind == "tool":
        return ToolMessage(str(number), "look", text)
    if kind == "user":
        return UserMessage(text)
    parts: dict[str, tuple[MessagePart, ...]] = {"text": (Text(text),), "thought": (Reasoning(text),)}
    return AssistantMessage(parts[kind] if kind in parts else (Reasoning("why"), Text(text)))


def some_edit(chance: Random, length: int) -> Edit:
    """Return a random edit of messages in the record, shown or not."""
    first = chance.randrange(length)
    end = chance.randrange(first, length) + 1
    kind = chance.choice(("reduce", "reduce", "reduce", "summarize", "strip"))
    if kind == "reduce":
        places = sorted(chance.sample(range(length), min(length, chance.choice((1, 1, 5)))))
        return Reduce(tuple(places), tuple(f"short {place}" for place in places), "check")
    if kind == "summarize":
        kept = tuple(place for place in range(first + 1, end) if chance.random() < 0.3)
        return Summarize(first, end, kept, f"of {first} to {end}", "handle", "check")
    return Strip(end)


def agree(view: View, plain: Plain) -> None:
    places, shown = [place for place, _ in plain.shown], [message for _, message in plain.shown]
    sizes = [measure(message) for message in shown]
    assert (view.shown, list(view.indexes)) == (shown, places)
    assert [view.before(index) for index in range(len(shown) + 1)] == [
        sum(sizes[:index]) for index in range(len(shown) + 1)
    ]
    assert view.tokens == sum(sizes)
    thoughts = [p for p, m in plain.shown if isinstance(m, AssistantMessage) and m.parts[0].kind == "reasoning"]
    assert view.reasoned == max(thoughts, default=-1)


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_view_agrees_with_the_simple_model(chance: Random) -> None:
    view, plain, handed_out = View(measure), Plain(), []
    for _ in range(chance.randrange(1, 30)):
        for number in range(chance.choice((0, 1, 1, 2, 8))):
            message = some_message(chance, number)
            view.record.append(message)
            plain.append(message)
        if chance.random() < 0.5:
            handed_out.append((view.messages(), [message for _, message in plain.shown]))
        view.settle()
        for _ in range(chance.choice((0, 1, 1, 3)) if plain.length else 0):
            edit = some_edit(chance, plain.length)
            view.apply(edit)
            plain.apply(edit)
        if chance.random() < 0.5:
            agree(view, plain)
    agree(view, plain)
    assert view.shown == fold(view.record, view.edits)
    for held, was in handed_out:
        assert list(held) == was, "later changes do not show in it"


def test_an_edit_of_a_view_that_shows_nothing_is_counted() -> None:
    view = View(measure)
    view.record.append(AssistantMessage((Reasoning("why"),)))
    view.settle()
    view.apply(Strip(1))
    assert (view.shown, view.tokens) == ([], 0)
    view.apply(Summarize(0, 1, (), "a summary", "handle", "check"))
    assert view.before(1) == view.tokens == measure(view.shown[0]) > 0


def test_edits_measure_only_the_messages_that_they_change() -> None:
    measured = 0

    def counted(message: Message) -> int:
        nonlocal measured
        measured += 1
        return measure(message)

    view = View(counted)
    for number in range(1_000):
        view.record.append(ToolMessage(str(number), "look", "some text"))
    view.settle()
    assert measured == 1_000
    for index in range(1_000):
        view.messages()
        view.apply(Reduce((index,), ("short",), "check"))
        if index % 100 == 0:
            assert view.tokens == sum(measure(message) for message in view.shown)
    assert view.tokens == sum(measure(message) for message in view.shown)
    assert measured == 2_000


def test_a_copy_is_independent() -> None:
    view = View(measure)
    for number in range(4):
        view.record.append(ToolMessage(str(number), "look", "some text"))
    view.settle()
    copy = view.copy()
    copy.record.append(UserMessage("more"))
    copy.settle()
    copy.apply(Reduce((1,), ("short",), "check"))
    assert (len(view.record), view.edits, view.shown) == (4, [], view.record)
    assert view.tokens == sum(measure(message) for message in view.shown)
    assert copy.tokens == sum(measure(message) for message in copy.shown)
