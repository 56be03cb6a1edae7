"""The auditor reports each invariant that does not hold, and nothing for runs that were not disturbed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from concertino import AgentConfig, AssistantMessage, ModelRequest, Resources, Runtime, Scope, ToolContext, tool
from concertino.messages import Text, ToolCall, ToolMessage, UserMessage
from concertino.providers import ModelEvent, Reply
from concertino.storage import SqliteStore, encode_message
from concertino.usage import Tokens

from .auditor import Evidence, Tree, audit, gather, lines, violations


class Clerk(AgentConfig[Path]):
    """Pays, and keeps both logs."""

    name = "clerk"


class Logged:
    """A model that writes the provider's log."""

    provider, name = "scripted", "logged"

    def __init__(self, log: Path) -> None:
        self._log = log

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        number = len(lines(self._log))
        write(self._log, {"request": {"messages": [*map(encode_message, request.messages)]}, "tokens": [10, number]})
        if isinstance(request.messages[-1], ToolMessage):
            yield Reply(AssistantMessage((Text("paid"),), "end", self.name), Tokens(10, number))
            return
        parts = (ToolCall("call_1", "pay", "{}"), ToolCall("call_2", "note", "{}"))
        yield Reply(AssistantMessage(parts, "tool_calls", self.name), Tokens(10, number))

    async def close(self) -> None:
        """See the port."""


def write(log: Path, record: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(record) + "\n")


@tool(effect="once")
async def pay(context: ToolContext) -> str:
    """Pay."""
    write(context.deps, {"what": "once", "key": context.key, "tool": "pay", "applied": True})
    return "paid"


@tool(effect="idempotent")
async def note(context: ToolContext) -> str:
    """Note."""
    write(context.deps, {"what": "idempotent", "key": context.key, "tool": "note", "applied": True})
    return "noted"


Clerk.tools = (pay, note)


@pytest.fixture
async def evidence(tmp_path: Path) -> Evidence:
    """What two turns that nothing happened to have left behind."""
    calls, effects = tmp_path / "calls", tmp_path / "effects"
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        model = Logged(calls)
        resources = Resources(store=store, model=model, models=lambda _: model, deps=effects)
        async with Runtime([Clerk()], resources) as runtime:
            conversation = await runtime.conversation(Scope(user="u"), "c1", agent="clerk")
            for _ in range(2):
                await (await conversation.send("pay")).result()
        found = await gather(store, calls, effects)
    assert await audit(tmp_path / "runs.db", calls, effects) == []
    return found


def first(found: Evidence) -> Tree:
    return min(found.trees, key=lambda tree: tree.root.start.started)


def running(found: Evidence) -> None:
    tree = first(found)
    run = replace(tree.root, end=None, state="running")
    tree.runs = {run.start.run_id: run}


def changed(found: Evidence, number: int, **fields: Any) -> None:
    tree = first(found)
    ((run_id, journal),) = tree.journals.items()
    entries = list(journal.entries)
    entries[number] = replace(entries[number], **fields)
    tree.journals = {run_id: replace(journal, entries=entries)}


def without_result(found: Evidence) -> None:
    request = found.calls[1]["request"]
    request["messages"] = request["messages"][:-1]


def early(found: Evidence) -> None:
    """Let the second turn begin when the first one does."""
    (before,) = first(found).journals.values()
    later = max(found.trees, key=lambda tree: tree.root.start.started)
    ((run_id, journal),) = later.journals.items()
    begun = replace(journal.entries[0], at=before.entries[0].at)
    later.journals = {run_id: replace(journal, entries=[begun, *journal.entries[1:]])}


def swapped(found: Evidence) -> None:
    """Let the messages of both turns have come in the other order."""
    found.conversations = {each: turns[::-1] for each, turns in found.conversations.items()}


def unmeasured(found: Evidence) -> None:
    """Mark all answers as lost."""
    for tree in found.trees:
        tree.usage = [replace(record, source="unknown") for record in tree.usage]


def edited_past(found: Evidence) -> None:
    """Change the first message that the second turn was sent, on record and at the provider."""
    later = max(found.trees, key=lambda tree: tree.root.start.started)
    ((run_id, journal),) = later.journals.items()
    other = UserMessage("another message")
    later.journals = {run_id: replace(journal, history=[other, *journal.history[1:]])}
    for call in found.calls[2:]:
        call["request"]["messages"][0] = encode_message(other)


BREAKS: dict[str, tuple[str, Callable[[Evidence], Any]]] = {
    "two last events": ("I1", lambda found: first(found).events.append(first(found).events[-1])),  # type: ignore[attr-defined]
    "a call without a result": ("I2", without_result),
    "an effect twice": ("I3", lambda found: found.effects.append(found.effects[0])),  # type: ignore[attr-defined]
    "a result without its effect": ("I3", lambda found: found.effects.pop(0)),  # type: ignore[attr-defined]
    "another key": ("I4", lambda found: found.effects[1].update(key="another")),
    "applied twice": ("I4", lambda found: found.effects.append(found.effects[1])),  # type: ignore[attr-defined]
    "attempted twice under one claim": ("I5", lambda found: found.effects.append(found.effects[1])),  # type: ignore[attr-defined]
    "a stale claim wrote": ("I6", lambda found: changed(found, 1, epoch=2)),
    "a number is missing": ("I7", lambda found: changed(found, 1, seq=7)),
    "turns at the same time": ("I7", early),
    "turns in the wrong order": ("I7", swapped),
    "an answer that is not booked": ("I8", lambda found: found.calls[0].update(tokens=[11, 11])),
    "answers that are marked as lost": ("I8", unmeasured),
    "a record of no answer": ("I8", lambda found: found.calls.pop()),  # type: ignore[attr-defined]
    "a run goes on": ("I9", running),
    "a tree is due": ("I9", lambda found: setattr(found, "due", ["run_1"])),
    "a turn that forgets": ("I10", edited_past),
    "a request that is not on record": (
        "I10",
        lambda found: found.calls[0]["request"].update(messages=found.calls[3]["request"]["messages"][-4:]),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
async def test_what_does_not_hold_is_reported(evidence: Evidence, name: str) -> None:
    invariant, make = BREAKS[name]
    assert violations(evidence) == []
    make(evidence)
    assert invariant in {each.invariant for each in violations(evidence)}


async def test_an_accepted_message_is_on_record(evidence: Evidence) -> None:
    (found,) = violations(evidence, ["run_lost"])
    assert str(found) == "I1: run_lost: the message was accepted and is not on record"
