"""A random session with the token engine, and the invariants of each request.

The twelve invariants are named where they are checked. Chance comes from outside: from Hypothesis, which shrinks what
it finds, or from a seed, for the long run (`python -m tests.unit.token_engine.long`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from concertino import ModelRequest
from concertino.cache_rules import binding
from concertino.errors import ContextFloorError
from concertino.messages import (
    AssistantMessage,
    Media,
    Message,
    MessagePart,
    Opaque,
    Reasoning,
    Retain,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.token_engine import Edit, Retention, SummaryJob, TokenEngine
from concertino.token_engine.counting.sizes import size_of
from concertino.token_engine.edits import decode_edit, encode_edit
from concertino.token_engine.view import View
from concertino.usage import Tokens

from ...token_engine.kit import COUNTER, FIXED, TOOL
from ...validity.judge import problems

MODELS = (
    "anthropic:claude-sonnet-4-5",
    "anthropic:claude-opus-5-5",
    "openai:gpt-5",
    "openai:gpt-5.6",
    "google:gemini-3-pro",
    "vendor:unknown",
)
WORDS = ("an", "order", "Größe", "値段", "42", '{"a": [1, 2]}', "\n", "emoji 🙂", "https://example.org/?q=1", "word")
RETAINED: tuple[Retain, ...] = ("window", "window", "window", "window", "window", "window", "once", "pin")
RECALL = re.compile(r'recall\("(\w+)"\)')


MEASURE = partial(size_of, COUNTER, "")


def fold(record: Iterable[Message], edits: Iterable[Edit]) -> list[Message]:
    """Return the messages that *record* shows after *edits*."""
    view = View(record=record)
    for edit in edits:
        view.apply(edit)
    return view.shown


class Session:
    """A randomly growing conversation; `run` raises `AssertionError` if an invariant is violated."""

    def __init__(self, chance: Random, *, judged: bool = True) -> None:
        self.chance = chance
        self.judged = judged
        self.now = 1_000.0
        self.model = chance.choice(MODELS)
        self.limit = chance.choice((3_000, 9_000, 60_000, 1_000_000))
        self.reserve = self.limit // 10
        self.recallable = chance.random() < 0.5
        self.retention = Retention(
            users=chance.choice((0, 0.1, 0.5)),
            frees=chance.choice((30, 0.1, 0.3)),
            price=chance.choice((0.03, 1e9)),
            floor=chance.choice((0, 0, 0.5)),
            summaries=chance.random() < 0.8,
        )
        self.engine = self.new_engine()
        self.record: list[Message] = []
        self.requests = 0
        self.calls = 0
        self.thought: dict[int, list[Message]] = {}
        """By index of an answer with reasoning: the view that it was given for."""
        self.last_view: list[Message] = []
        self.waiting: SummaryJob | None = None

    def new_engine(self) -> TokenEngine:
        return TokenEngine(COUNTER, self.limit, self.retention, clock=lambda: self.now)

    # -- the session --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run some turns of the user, each with a tool loop."""
        chance = self.chance
        try:
            for _ in range(chance.choice((1, 1, 2, 5))):
                self.turn()
        except ContextFloorError as error:
            assert re.search(r"Shorten the (result of \w+|\w+ message|tools|reserve)", str(error)), error

    def turn(self) -> None:
        """Add a message of the user, and run the tool loop."""
        chance = self.chance
        self.say(UserMessage(self.text(400), self.media()))
        if chance.random() < 0.1:
            self.say(SystemMessage(self.text(60)))
        for _ in range(chance.choice((1, 3, 8, 25))):
            if not self.step():
                break
        if chance.random() < 0.3:
            self.next_run()

    def step(self) -> bool:
        """Send a request and add its answer; return True if the loop continues."""
        chance = self.chance
        self.now += chance.choice((1.0, 20.0, 20.0, 400.0, 4_000.0))
        self.request()
        if chance.random() < 0.05:
            self.restart()
        answer = self.answer()
        place = len(self.record)
        self.say(answer)
        if any(part.kind == "reasoning" for part in answer.parts):
            self.thought[place] = self.last_view
        if self.waiting is not None and chance.random() < 0.7:
            job, self.waiting = self.waiting, None
            self.summary(job)
        if answer.stop_reason == "pause":
            return True
        for call in answer.tool_calls:
            self.say(self.result(call))
        if answer.tool_calls and chance.random() < 0.05:
            self.say(UserMessage(self.text(40)))  # steered
        return bool(answer.tool_calls)

    def say(self, message: Message) -> None:
        self.record.append(message)
        self.engine.append(message)

    def answer(self) -> AssistantMessage:
        chance, parts = self.chance, list[MessagePart]()
        provider = self.model.partition(":")[0]
        if provider in ("anthropic", "google") and chance.random() < 0.4:
            parts.append(Reasoning(self.text(40), signature="c2ln", provider=provider))
        if chance.random() < 0.1 and provider == "anthropic":
            use = {"type": "server_tool_use", "id": f"srvtoolu_{len(self.record)}", "name": "web_search", "input": {}}
            found = {"type": "web_search_tool_result", "tool_use_id": use["id"], "content": []}
            parts += [Opaque(provider, str(block["type"]), json.dumps(block)) for block in (use, found)]
            if chance.random() < 0.3:
                return AssistantMessage(tuple(parts), "pause", "m")
        if chance.random() < 0.5:
            parts.append(Text(self.text(60)))
        for _ in range(chance.choice((0, 1, 1, 1, 2, 6))):
            self.calls += 1
            signature = "c2ln" if provider == "google" else None
            parts.append(ToolCall(f"call_{self.calls}", "look_up", '{"q": 1}', signature, provider=provider))
        if not parts or parts[-1].kind in ("reasoning", "opaque"):
            parts.append(Text("Done."))
        return AssistantMessage(tuple(parts), "tool_calls" if parts[-1].kind == "tool_call" else "end", "m")

    def result(self, call: ToolCall) -> ToolMessage:
        chance = self.chance
        most = self.engine.allowance(6)
        content = COUNTER.cut(self.text(chance.choice((5, 60, 400, 3_000))), most) or "-"
        summary = self.text(5) if chance.random() < 0.2 else None
        retain: Retain = chance.choice(RETAINED)
        if retain == "pin":
            content = content[:60]
        whole = content + " and more" if chance.random() < 0.1 else None
        return ToolMessage(
            call.id, call.name, content, chance.random() < 0.1, whole, summary, retain=retain, handle=f"h{call.id[5:]}"
        )

    def text(self, words: int) -> str:
        count = self.chance.randrange(1, words + 1)
        return " ".join(self.chance.choice(WORDS) for _ in range(min(count, 40))) * max(count // 40, 1) + "."

    def media(self) -> tuple[Media, ...]:
        return (Media("image/png", data="aGk="),) if self.limit > 50_000 and self.chance.random() < 0.1 else ()

    def summary(self, job: SummaryJob) -> None:
        """Complete *job*, sometimes with an invalid summary, which changes nothing (7)."""
        kind = self.chance.choice(("good", "good", "good", "none", "empty", "long"))
        text = {"none": None, "empty": "  ", "long": "x" * 3 * job.tokens}.get(kind, "They spoke of an order.")
        edits, shown = list(self.engine.edits), list(self.engine.view())
        planner = self.engine._planner
        wanted = planner is not None and planner.job is job  # its messages may have been omitted meanwhile
        good = self.engine.complete(job, text)
        assert good == (wanted and kind == "good")
        assert (self.engine.edits, list(self.engine.view())) == (edits, shown)

    def restart(self) -> None:
        """Restart: record and edits, as JSON, give the same view in another process (4)."""
        edits = [decode_edit(json.loads(json.dumps(encode_edit(edit)))) for edit in self.engine.edits]
        shown, self.engine, self.waiting = list(self.engine.view()), self.new_engine(), None
        for message in self.record:
            self.engine.append(message)
        self.engine.restore(edits)
        assert list(self.engine.view()) == shown

    def next_run(self) -> None:
        """Start the next run of the conversation, which has the same view (4)."""
        state, shown = self.engine.state(), list(self.engine.view())
        last = self.engine if self.chance.random() < 0.5 else None
        self.engine, self.waiting = self.new_engine(), None
        assert self.engine.start(self.record, state, last=last)
        assert list(self.engine.view()) == shown

    # -- the invariants ------------------------------------------------------------------------------------------

    def request(self) -> None:
        """Plan, fit and check the view."""
        engine = self.engine
        log, shown = list(engine.edits), list(engine.view())
        plan = engine.plan(FIXED, self.reserve, self.model, recallable=self.recallable)
        if plan.urgent:
            job = plan.job or self.waiting
            self.waiting = None
            if job is not None:
                self.summary(job)
        elif plan.job is not None:
            self.waiting = plan.job
        edits = engine.fit()
        view, marks = list(engine.view()), engine.breakpoints
        self.requests += 1
        assert engine.edits == [*log, *edits], "the log only grows, and is complete (4)"
        if not edits:
            assert view == shown, "without an edit the prefix is stable (3)"
        assert view == fold(self.record, engine.edits), "a pure fold (4)"
        self.check_view(view)
        self.check_reasoning(view, edits)
        self.check_marks(view, marks)
        self.check_recall(view)
        if self.judged:
            request = ModelRequest(model="m", system="Be brief.", messages=view, tools=(TOOL,), breakpoints=marks)
            assert not (found := problems(request)), found  # (1)
        self.last_view = view
        size = sum(MEASURE(message) for message in view) + sum(map(COUNTER.count, FIXED.values()))
        assert size + self.reserve <= self.limit, "it fits (5)"
        engine.observe(Tokens(prompt=size, cached=size))

    def check_view(self, view: Sequence[Message]) -> None:
        """Check counts (9), groups (1, 2) and pins (8)."""
        assert self.engine.tokens == sum(MEASURE(message) for message in view)
        here = {id(message) for message in view}
        told = [m.text for m in view if isinstance(m, UserMessage) and m.text.startswith("[Record of")]
        assert all(re.search(r"They spoke|not shown|too long", text) for text in told), "no invalid summary (7)"
        users = [message for message in self.record if isinstance(message, UserMessage)]
        pinned = [m for m in self.record if isinstance(m, ToolMessage) and m.retain == "pin"]
        for message in (users[-1], *pinned):
            assert id(message) in here, f"{message} is pinned (8)"
        calls = [call.id for message in view if isinstance(message, AssistantMessage) for call in message.tool_calls]
        results = [message.call_id for message in view if isinstance(message, ToolMessage)]
        assert calls == results, "each call has its result (1)"
        by_parts = {message.parts: message for message in self.record if isinstance(message, AssistantMessage)}
        bare = {tuple(p for p in parts if p.kind != "reasoning") for parts in by_parts}
        for message in view:
            if isinstance(message, AssistantMessage):
                assert message.parts in by_parts or message.parts in bare, "reasoning stays whole or goes whole (2)"

    def check_reasoning(self, view: Sequence[Message], edits: Sequence[Any]) -> None:
        """Check that the prefix of bound reasoning has not changed (2)."""
        if binding(*self.model.split(":")) != "prefix":  # type: ignore[arg-type]
            return
        for place, before in self.thought.items():
            index = next((n for n, message in enumerate(view) if message is self.record[place]), None)
            if index is not None:
                assert list(view[:index]) == list(before), f"reasoning at {place} is bound to another prefix"

    def check_marks(self, view: Sequence[Message], marks: Sequence[int] | None) -> None:
        """Check breakpoints: few, ascending, eligible, and never behind a single-use result (11)."""
        if marks is None:
            return
        assert len(marks) <= 4
        assert list(marks) == sorted(set(marks))
        ends = [view[mark] for mark in marks]
        assert all(m.role != "assistant" or (m.parts and m.parts[-1].kind != "reasoning") for m in ends)
        if binding(*self.model.split(":")) != "prefix":  # type: ignore[arg-type]
            last = max([n for n, m in enumerate(self.record) if isinstance(m, AssistantMessage)], default=0)
            unseen = {id(m) for m in self.record[last:] if isinstance(m, ToolMessage) and m.retain == "once"}
            raw = [n for n, m in enumerate(view) if id(m) in unseen]
            assert not raw or not marks or marks[-1] < raw[0], "a single-use result is never cached"

    def check_recall(self, view: Sequence[Message]) -> None:
        """Check that removed content can be recalled (12)."""
        if not self.recallable:
            return
        for message in view:
            if isinstance(message, ToolMessage | UserMessage):
                text = message.content if isinstance(message, ToolMessage) else message.text
                for handle in RECALL.findall(text):
                    found = self.engine.recall(handle)
                    assert found, handle
                    if isinstance(message, ToolMessage):
                        own = next(
                            m for m in self.record if isinstance(m, ToolMessage) and m.call_id == message.call_id
                        )
                        assert found == [own]
