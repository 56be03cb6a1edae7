"""The auditor: compares what a store has on record with what happened outside, and reports what does not hold.

    violations = await audit(url, folder / "calls", folder / "effects")

The invariants, for runs that have all ended:

I1   Each accepted message has exactly one end, and its log of events exactly one last event.
I2   Each tool call has exactly one result before the next model call, in the record and in each request.
I3   The effect of a `once` tool happens at most once; a result on record has its effect.
I4   The effect of an `idempotent` tool has the same key in each attempt, and is applied once.
I5   A call is attempted at most once per claim on its tree.
I6   Nothing is written under a claim after the next claim has written.
I7   Entries, steps, events, and the turns of a conversation are in order.
I8   The ledger has each answer of the provider, to the token; only answers that were lost are marked as such.
I9   Nothing is open: no run, turn, operation, wait or claimable tree.
I10  Each request begins with the one before it, also in the next turn, and is on record.

Both logs are written by processes that no fault hits, one JSON object a line:

- provider: `{"request": {"messages": [...]}, "tokens": [prompt, completion]}`, when it begins to answer. The messages
  are encoded by `encode_message`. `tokens` is what it bills: null or absent if it refused.
- effects: `{"what": "once" | "idempotent" | "read", "key": ..., "tool": ..., "applied": bool}`, before it answers.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from concertino import OPERATOR, RunEvent, Runtime, Scope
from concertino.events import RunEnded
from concertino.messages import AssistantMessage, Message, ToolMessage
from concertino.operations import ENDED
from concertino.orchestrator import JournalStep, read_steps, replay, requests
from concertino.storage import Store, StoredJournal, StoredRun, StoredTurn, decode_message, encode_message
from concertino.usage import UsageRecord
from concertino.wiring import open_store

MANY = 1_000_000


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold."""

    invariant: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.where}: {self.what}"


@dataclass
class Tree:
    """A root and the runs below it, as stored."""

    root: StoredRun
    runs: Mapping[str, StoredRun]
    journals: Mapping[str, StoredJournal]
    """Without those whose content was erased."""
    usage: Sequence[UsageRecord]
    """Of its own runs, and of runs of other trees that work for its calls."""
    events: Sequence[tuple[int, RunEvent]]
    """What a reader of its log gets, if it has ended."""
    open: Sequence[str]
    """Operations and waits that are not closed."""


@dataclass
class Evidence:
    """All that is on record, and what was seen outside."""

    trees: list[Tree] = field(default_factory=list)
    conversations: dict[str, Sequence[StoredTurn]] = field(default_factory=dict)
    due: Sequence[str] = ()
    calls: Sequence[dict[str, Any]] = ()
    effects: Sequence[dict[str, Any]] = ()

    def journals(self) -> Iterator[StoredJournal]:
        """Yield the journals of all runs."""
        for tree in self.trees:
            yield from tree.journals.values()


async def audit(
    store_url: str | Path, provider_log: Path, effects_log: Path, *, accepted: Collection[str] = ()
) -> list[Violation]:
    """Return what does not hold, once all work is done. *accepted* are ids of turns that were acknowledged."""
    async with await open_store(store_url) as store:
        return violations(await gather(store, provider_log, effects_log), accepted)


async def gather(store: Store, provider_log: Path, effects_log: Path) -> Evidence:
    """Read all trees and conversations of a store, and both logs."""
    found = Evidence(calls=lines(provider_log), effects=lines(effects_log))
    for root in await store.runs(OPERATOR, roots=True, limit=MANY):
        found.trees.append(await _tree(store, root))
    for scope in {tree.root.start.scope for tree in found.trees}:
        if isinstance(scope, Scope):
            for stored in await store.conversations(scope, limit=MANY):
                found.conversations[stored.id] = await store.all_turns(scope, stored.id)
    due = await store.due(OPERATOR)
    found.due = [*due.ready, *due.orphaned]
    return found


def violations(found: Evidence, accepted: Collection[str] = ()) -> list[Violation]:
    """Return what does not hold."""
    return [
        *_ends(found, accepted),
        *_results(found),
        *_effects(found),
        *_claims(found),
        *_order(found),
        *_ledger(found),
        *_open(found),
        *_history(found),
    ]


async def _tree(store: Store, root: StoredRun) -> Tree:
    root_id = root.start.run_id
    runs = {run.start.run_id: run for run in await store.runs(OPERATOR, root_id=root_id, limit=MANY)}
    journals = {}
    for run_id in runs:
        journal = await store.load(OPERATOR, run_id)
        assert journal is not None
        if not any(entry.erased for entry in journal.entries):
            journals[run_id] = journal
    events: list[tuple[int, RunEvent]] = []
    if root.end is not None:
        events = [each async for each in Runtime(store=store).events(OPERATOR, root_id)]
    operations = [each for each in await store.operations(OPERATOR, root_id=root_id) if each.state not in ENDED]
    waits = await store.waits(OPERATOR, root_id=root_id, open=True, limit=MANY)
    return Tree(
        root,
        runs,
        journals,
        await store.usage(OPERATOR, root_id),
        events,
        [*(f"operation {each.key} is {each.state}" for each in operations), *(f"wait {each.key}" for each in waits)],
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of a log, also while it is being written; one that was never written is empty."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


# -- the invariants --------------------------------------------------------------------------------------------------


def _ends(found: Evidence, accepted: Collection[str]) -> Iterator[Violation]:
    """I1."""
    known = {turn.run_id: turn.state for turns in found.conversations.values() for turn in turns}
    for turn_id in accepted:
        if turn_id not in known:
            yield Violation("I1", turn_id, "the message was accepted and is not on record")
    for tree in found.trees:
        for run_id, journal in tree.journals.items():
            many = [entry.kind for entry in journal.entries].count("ended")
            if many > 1 or (not many and run_id == tree.root.start.run_id and tree.root.end is not None):
                yield Violation("I1", _name(journal), f"{many} ends")
        root_id = tree.root.start.run_id
        ends = [event for _, event in tree.events if isinstance(event, RunEnded) and event.run_id == root_id]
        ends = [event for event in ends if event.result.status != "suspended"]
        if (
            root_id in tree.journals
            and tree.root.end is not None
            and (len(ends) != 1 or tree.events[-1][1] is not ends[0])
        ):
            yield Violation("I1", root_id, f"a reader gets {len(ends)} last events")


def _results(found: Evidence) -> Iterator[Violation]:
    """I2."""
    for journal in found.journals():
        yield from (Violation("I2", _name(journal), each) for each in unpaired(replay(journal).messages))
        for step, _, request in requests(journal):
            for each in unpaired(request.messages):
                yield Violation("I2", _name(journal), f"request of step {step}: {each}")
    for call in found.calls:
        for each in unpaired(decode_message(text) for text in call["request"]["messages"]):
            yield Violation("I2", "a request to the provider", each)


def unpaired(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the calls without exactly one result, and the results without a call."""
    left: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, ToolMessage):
            left[message.call_id] -= 1
            if left[message.call_id] < 0:
                yield f"a result too many for {message.call_id}"
            continue
        yield from (f"no result for {call_id}" for call_id, many in left.items() if many > 0)
        left.clear()
        if isinstance(message, AssistantMessage):
            left.update(call.id for call in message.tool_calls)
    yield from (f"no result for {call_id}" for call_id, many in left.items() if many > 0)


def _effects(found: Evidence) -> Iterator[Violation]:
    """I3, I4 and I5."""
    calls = {key: (name, states, tree) for tree in found.trees for key, name, states in _tool_calls(tree)}
    attempts = Counter(each["key"] for each in found.effects if each["what"] in ("once", "idempotent", "read"))
    applied = Counter(each["key"] for each in found.effects if each["applied"])
    tools = {each["key"]: (each["tool"], each["what"]) for each in found.effects}
    for key, many in attempts.items():
        tool, what = tools[key]
        if key not in calls:
            yield Violation("I4", key, f"no run has this call of {tool}: a key has changed")
            continue
        if what == "once" and many > 1:
            yield Violation("I3", key, f"the once tool {tool} took effect {many} times")
        if what == "idempotent" and applied[key] != 1:
            yield Violation("I4", key, f"{tool} was applied {applied[key]} times")
        if many > max(1, calls[key][2].root.epoch):
            yield Violation("I5", key, f"{tool} was attempted {many} times under {calls[key][2].root.epoch} claims")
    outside = {tool for tool, _ in tools.values()}
    for key, (name, states, _) in calls.items():
        if name in outside and states[-1:] == ["done"] and key not in attempts:
            yield Violation("I3", key, f"{name} has a result and had no effect")


def _tool_calls(tree: Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each tool call of a tree: its key, its tool and the states that it entered."""
    names: dict[str, str] = {}
    states: dict[str, list[str]] = defaultdict(list)
    for journal in tree.journals.values():
        for step in read_steps(journal):
            for key, state in step.common.transitions:
                states[key].append(state)
            names.update(_named(journal, step))
    yield from ((key, name, states[key]) for key, name in names.items())


def _named(journal: StoredJournal, step: JournalStep) -> Iterator[tuple[str, str]]:
    for stored in step.messages:
        if isinstance(stored.message, AssistantMessage):
            for index, call in enumerate(stored.message.tool_calls):
                yield f"{journal.run.start.run_id}:{step.step}.{index}", call.name


def _claims(found: Evidence) -> Iterator[Violation]:
    """I6."""
    for tree in found.trees:
        times: dict[int, list[float]] = defaultdict(list)
        for journal in tree.journals.values():
            epochs = [entry.epoch for entry in journal.entries]
            if epochs != sorted(epochs):
                yield Violation("I6", _name(journal), f"the claims of its entries go back: {epochs}")
            for entry in journal.entries:
                times[entry.epoch].append(entry.at)
        ordered = sorted(times)
        for earlier, later in pairwise(ordered):
            if max(times[earlier]) > min(times[later]):
                yield Violation("I6", tree.root.start.run_id, f"claim {earlier} wrote after claim {later} had written")


def _order(found: Evidence) -> Iterator[Violation]:
    """I7."""
    for tree in found.trees:
        for journal in tree.journals.values():
            if [entry.seq for entry in journal.entries] != list(range(len(journal.entries))):
                yield Violation("I7", _name(journal), "its entries are not numbered one by one")
            steps = [entry.step for entry in journal.entries if entry.kind in ("model_requested", "model_answered")]
            if steps != sorted(steps):
                yield Violation("I7", _name(journal), f"its steps go back: {steps}")
        numbers = [number for number, _ in tree.events]
        if numbers != sorted(set(numbers)):
            yield Violation("I7", tree.root.start.run_id, "the numbers of its events do not ascend")
    spans = {tree.root.start.run_id: _span(tree) for tree in found.trees if tree.root.end is not None and tree.journals}
    for conversation_id, turns in found.conversations.items():
        started = [spans[turn.run_id] for turn in turns if turn.run_id in spans]  # in the order of their messages
        for (earlier, ended), (begun, _) in pairwise(started):
            if begun < earlier:
                yield Violation("I7", conversation_id, "a turn ran before one whose message came earlier")
            elif begun < ended:
                yield Violation("I7", conversation_id, "two turns ran at the same time")


def _span(tree: Tree) -> tuple[float, float]:
    times = [entry.at for entry in tree.journals[tree.root.start.run_id].entries]
    return times[0], times[-1]


def _ledger(found: Evidence) -> Iterator[Violation]:
    """I8."""
    rows = [record for tree in found.trees for record in tree.usage if record.run_id in tree.runs]
    if doubled := [key for key, many in Counter(record.id for record in rows).items() if many > 1]:
        yield Violation("I8", "the ledger", f"booked twice: {doubled}")
    billed = Counter(tuple(call["tokens"]) for call in found.calls if call.get("tokens"))
    measured = Counter((row.tokens.prompt, row.tokens.completion) for row in rows if row.source == "measured")
    del measured[0, 0]  # a request that the provider refused
    if invented := measured - billed:
        yield Violation("I8", "the ledger", f"{sum(invented.values())} measured rows that the provider never billed")
    lost, marked = (billed - measured).total(), sum(row.source != "measured" for row in rows)
    if lost > marked:
        yield Violation("I8", "the ledger", f"{lost} answers were lost, and {marked} rows say so")
    for journal in found.journals():
        entered = [state for step in read_steps(journal) for key, state in step.common.transitions if _is_attempt(key)]
        # An attempt that is cancelled before it is sent uses nothing.
        attempts = entered.count("running") - entered.count("cancelled")
        booked = [row for row in rows if row.run_id == journal.run.start.run_id]
        if journal.run.end is not None and len(booked) < attempts:
            yield Violation("I8", _name(journal), f"{attempts} attempts, {len(booked)} rows")
        answered = {entry.step for entry in journal.entries if entry.kind == "model_answered"}
        measured_steps = {int(row.id.split(":")[1]) for row in booked if row.source == "measured"}
        if answered - measured_steps:
            yield Violation(
                "I8", _name(journal), f"no measured row for the answers of steps {answered - measured_steps}"
            )


def _is_attempt(key: str) -> bool:
    return key.count(":") == 2


def _open(found: Evidence) -> Iterator[Violation]:
    """I9."""
    for tree in found.trees:
        for run_id, run in tree.runs.items():
            if run.end is None:
                yield Violation("I9", run_id, f"the run is {run.state} {run.reason}".strip())
        yield from (Violation("I9", tree.root.start.run_id, each) for each in tree.open)
    for conversation_id, turns in found.conversations.items():
        for turn in turns:
            if turn.state in ("queued", "running", "waiting"):
                yield Violation("I9", conversation_id, f"turn {turn.run_id} is {turn.state}")
    if found.due:
        yield Violation("I9", "the store", f"due: {', '.join(found.due)}")


def _history(found: Evidence) -> Iterator[Violation]:
    """I10."""
    sent: set[tuple[str, ...]] = set()
    changed = any(tree.journals.keys() != tree.runs.keys() for tree in found.trees)
    asked: dict[str, list[tuple[str, ...]]] = {}
    for journal in found.journals():
        made = [tuple(encode_message(message) for message in request.messages) for _, _, request in requests(journal)]
        sent.update(made)
        if any(_edits(step) for step in read_steps(journal)):
            changed = True
            continue
        asked[journal.run.start.run_id] = made
        for before, now in pairwise(made):
            if now[: len(before)] != before:
                yield Violation("I10", _name(journal), "a request changes what was sent before")
    for turn in (each for turns in found.conversations.values() for each in turns if each.parent):
        earlier, later = asked.get(turn.parent, []), asked.get(turn.run_id, [])
        if earlier and later and later[0][: len(earlier[-1])] != earlier[-1]:
            yield Violation("I10", turn.run_id, "its first request does not begin with the turn before it")
    for call in found.calls if not changed else ():
        if tuple(call["request"]["messages"]) not in sent:
            last = call["request"]["messages"][-1]
            yield Violation("I10", "a request to the provider", f"it is not on record; it ends with {last:.200}")


def _edits(step: JournalStep) -> bool:
    """Whether an entry changes what the model sees of the conversation so far."""
    return bool(step.common.edits) or any(isinstance(each, list) for each in step.common.log)


def _name(journal: StoredJournal) -> str:
    return f"{journal.run.start.run_id} ({journal.run.start.agent_path})"
