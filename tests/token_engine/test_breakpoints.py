"""Cache breakpoints: the prefix before an edit is in the cache, from the first edit on."""

from __future__ import annotations

from concertino.messages import AssistantMessage, Message, Text, UserMessage
from concertino.token_engine import Retention, TokenEngine
from concertino.usage import Tokens

from .kit import COUNTER, FIXED
from .test_bug_classes import edited, turn

LOOK_BACK = 10
"""Messages that the provider looks back from a breakpoint: 20 blocks, of which some messages have two."""
LIFETIME = 4
"""Requests after which an unused cache entry expires."""
CLAUDE = "anthropic:claude-sonnet-4-5"


class Watched:
    """The requests of a conversation over several runs, and the cache of a provider with breakpoints."""

    def __init__(self, retention: Retention) -> None:
        self.retention = retention
        self.record: list[Message] = []
        self.sent: list[list[Message]] = []
        self.kept: dict[str, int] = {}
        self.lost: list[int] = []
        self.engine = self.open()

    def open(self) -> TokenEngine:
        return TokenEngine(COUNTER, 8_000, self.retention, clock=lambda: 1.0)

    def next_run(self) -> None:
        state = self.engine.state()
        self.engine = self.open()
        assert self.engine.start(self.record, state)

    def add(self, *messages: Message) -> None:
        for message in messages:
            self.record.append(message)
            self.engine.append(message)

    def ask(self) -> None:
        self.engine.plan(FIXED, 300, CLAUDE)
        self.engine.fit()
        view, marks = list(self.engine.view()), self.engine.breakpoints
        assert marks is not None
        if self.sent:
            same = 0
            while same < min(len(view), len(self.sent[-1])) and view[same] == self.sent[-1][same]:
                same += 1
            places = {place for mark in marks for place in range(max(mark - LOOK_BACK, 0), mark + 1)}
            alive = {prefix for prefix, used in self.kept.items() if len(self.sent) - used <= LIFETIME}
            found = max((place + 1 for place in places if repr(view[: place + 1]) in alive), default=0)
            if same - found > 1:
                self.lost.append(same - found)
        self.kept |= {repr(view[: mark + 1]): len(self.sent) for mark in marks}
        self.sent.append(view)
        self.engine.observe(Tokens(prompt=self.engine.tokens + 50))


def test_the_prefix_before_each_edit_is_cached() -> None:
    watched = Watched(Retention(summaries=False))
    for number in range(30):  # long before there is a result
        watched.add(UserMessage(f"Question {number}"), AssistantMessage((Text(f"Answer {number}. " * 30),)))
    number = 0
    for run in range(6):
        watched.add(UserMessage(f"Run {run}"))
        for _ in range(8):
            watched.ask()
            watched.add(*turn(number))
            number += 1
        watched.ask()
        watched.add(AssistantMessage((Text("Done."),)))
        watched.next_run()
    assert len(edited(watched.sent)) >= 4
    assert watched.lost == []
