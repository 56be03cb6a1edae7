"""The one auditor: after every fault it compares what is on record, what happened outside, and what was asked of the
provider with an undisturbed run, and says what does not hold. I1 to I10 are those of the reliability research."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from concertino import OPERATOR, SqliteStore
from concertino.messages import AssistantMessage, Message, ToolMessage
from concertino.orchestrator import replay, requests
from concertino.storage import StoredJournal, StoredRun, decode_message, encode_message
from concertino.usage import UsageRecord
from concertino.waits import Wait

from .cast import canonical
from .program import ROOT
from .world import Case

PLACES = {"boss-0-2": 3, "boss-0-3": 4, "boss-1-0": 5, "child-0-1": 2, "grandchild-0-0": 1}
"""What the calls of `once` tools have as their argument."""


@dataclass
class Evidence:
    """All that a case has left behind."""

    runs: dict[str, StoredRun]
    journals: dict[str, StoredJournal]
    usage: list[UsageRecord]
    waits: list[Wait]
    due: list[str]
    effects: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    told_unknown: set[str] = field(default_factory=set)
    """Keys of calls whose outcome the model was told to be unknown."""


def gather(case: Case, root: str = ROOT) -> Evidence:
    """Read it, through the port of the store."""

    async def read() -> Evidence:
        async with await SqliteStore.open(case.database) as store:
            runs = {run.start.run_id: run for run in await store.runs(OPERATOR, root_id=root, limit=1000)}
            journals = {}
            for run_id in runs:
                journal = await store.load(OPERATOR, run_id)
                assert journal is not None
                journals[run_id] = journal
            due = await store.due(OPERATOR)
            return Evidence(
                runs,
                journals,
                list(await store.usage(OPERATOR, root)),
                list(await store.waits(OPERATOR, root_id=root, open=False)),
                [*due.ready, *due.orphaned],
                case.effects(),
                case.calls(),
            )

    return asyncio.run(read())


def audit(
    case: Case,
    reference: Evidence,
    *,
    faults: int,
    alive: bool = False,
    root: str = ROOT,
    status: str = "completed",
) -> list[str]:
    """What does not hold after *faults* faults; nothing, if all is well.

    *alive*: a process that has lost the run was not dead, so that no probe could say that an effect will never come.
    """
    found = gather(case, root)
    unsure = {"mail", "pay", "sign"} if alive else {"mail"}
    return [
        *_one_end(found, reference, faults, status),
        *_one_result_per_call(found),
        *_effects(found, reference, faults, unsure),
        *_epochs(found),
        *ledger(found),
        *_history(found, reference),
    ]


def _one_end(found: Evidence, reference: Evidence, faults: int, status: str) -> Iterator[str]:
    """I1 and I9: every run has ended, as the undisturbed ones have, and nothing is left to do."""
    for run_id, run in found.runs.items():
        if run.end is None:
            yield f"I9: run {run.start.agent_path} has not ended: it is {run.state}"
        elif run.end.status != status:
            yield f"I1: run {run.start.agent_path} has ended as {run.end.status}: {run.end.error}"
        elif run_id in reference.runs and run.end.answer != (wanted := reference.runs[run_id].end).answer:
            yield f"I1: the answer of {run.start.agent_path} is {run.end.answer!r}, not {wanted.answer!r}"
    for run_id, journal in found.journals.items():
        if (ends := [entry.kind for entry in journal.entries].count("ended")) != 1:
            yield f"I1: run {found.runs[run_id].start.agent_path} has {ends} ends"
    yield from _nothing_left(found, reference, faults)


def _nothing_left(found: Evidence, reference: Evidence, faults: int) -> Iterator[str]:
    if found.runs.keys() != reference.runs.keys():
        yield f"I1: the runs are {sorted(found.runs)}, not {sorted(reference.runs)}"
    if found.due:
        yield f"I9: {found.due} are still due"
    if not faults and (held := {run.owner for run in found.runs.values()} - {""}):
        yield f"I9: a claim is still held by {held}"
    for wait in found.waits:
        if wait.resolution is None:
            yield f"I9: the wait {wait.key} is still open"


def _one_result_per_call(found: Evidence) -> Iterator[str]:
    """I2: each call has exactly one result before the model is asked again; in the record and in each request."""
    for run_id, journal in found.journals.items():
        path = found.runs[run_id].start.agent_path
        yield from (f"I2: {path}: {problem}" for problem in unpaired(replay(journal).messages))
        for step, _, request in requests(journal):
            yield from (f"I2: {path}, request of step {step}: {problem}" for problem in unpaired(request.messages))
    for call in found.calls:
        messages = [decode_message(message) for message in call["request"]["messages"]]
        yield from (f"I2: a request to the provider: {problem}" for problem in unpaired(messages))


def unpaired(messages: Any) -> Iterator[str]:
    """The calls without exactly one result, and the results without a call."""
    open_calls: Counter[str] = Counter()
    for message in messages:
        match message:
            case ToolMessage(call_id=call_id):
                open_calls[call_id] -= 1
                if open_calls[call_id] < 0:
                    yield f"a result too many for {call_id}"
            case _:
                yield from (f"no result for {call_id}" for call_id, left in open_calls.items() if left > 0)
                open_calls.clear()
                if isinstance(message, AssistantMessage):
                    open_calls.update(call.id for call in message.tool_calls)
    yield from (f"no result for {call_id}" for call_id, left in open_calls.items() if left > 0)


def _effects(found: Evidence, reference: Evidence, faults: int, unsure: set[str]) -> Iterator[str]:
    """I3, I4 and I5: what happened outside, by what each tool has declared."""
    unknown = set(_unknown(found))
    for kind in ("once", "idempotent", "read"):
        wanted = {record["key"] for record in reference.effects if record["what"] == kind}
        seen = Counter(record["key"] for record in found.effects if record["what"] == kind)
        tools = {record["key"]: record["tool"] for record in reference.effects}
        for key in seen.keys() - wanted:
            yield f"I4: the undisturbed run has no {kind} effect {key}: a key has changed"
        for key in wanted - seen.keys():
            if not (kind == "once" and tools[key] in unsure and key in unknown):
                yield f"I3: the {kind} effect {key} of {tools[key]} never happened"
        for key, times in seen.items():
            if times > (1 if kind == "once" else 1 + faults):
                yield f"{'I3' if kind == 'once' else 'I5'}: the {kind} effect {key} happened {times} times"
    applied = Counter(record["key"] for record in found.effects if record["applied"])
    yield from (f"I4: {key} was applied {times} times" for key, times in applied.items() if times > 1)
    for key in unknown:
        if tools_of(reference).get(key) not in unsure:
            yield f"I3: the model was told that {key} is unknown, though it can be asked for"
        if not faults:
            yield f"I3: the model was told that {key} is unknown, though nothing had happened"


def tools_of(evidence: Evidence) -> dict[str, str]:
    """The tool of each call, by key."""
    return {record["key"]: record["tool"] for record in evidence.effects}


def _unknown(found: Evidence) -> Iterator[str]:
    """The keys of calls of which the model was told that their outcome is unknown."""
    for run_id, journal in found.journals.items():
        step, place = 0, 0
        for message in replay(journal).added:
            if isinstance(message, AssistantMessage):
                step, place = step + 1, 0
            elif isinstance(message, ToolMessage):
                if message.content.startswith("OUTCOME_UNKNOWN"):
                    yield f"{run_id}:{step}.{place}"
                place += 1


def _epochs(found: Evidence) -> Iterator[str]:
    """I6 and I7: nothing was written under a claim after the next one had written, and all in order."""
    times: dict[int, list[float]] = defaultdict(list)
    for run_id, journal in found.journals.items():
        path = found.runs[run_id].start.agent_path
        if [entry.seq for entry in journal.entries] != list(range(len(journal.entries))):
            yield f"I7: the entries of {path} are not numbered one by one"
        steps = [entry.step for entry in journal.entries if entry.kind in ("model_requested", "model_answered")]
        if steps != sorted(steps):
            yield f"I7: the steps of {path} go back: {steps}"
        for entry in journal.entries:
            times[entry.epoch].append(entry.at)
    epochs = sorted(times)
    for earlier, later in zip(epochs, epochs[1:], strict=False):
        if max(times[earlier]) > min(times[later]):
            yield f"I6: something was written under claim {earlier} after claim {later} had written"


def ledger(found: Evidence) -> Iterator[str]:
    """I8: each call of the provider has exactly one row, measured where its answer counts; and no row is made up."""
    asked: Counter[tuple[str, int]] = Counter()
    by_task: dict[tuple[str, str], list[str]] = {(run.start.agent, run.start.task): [] for run in found.runs.values()}
    for run_id, run in found.runs.items():
        by_task[run.start.agent, run.start.task].append(run_id)
        kinds = Counter((entry.kind, entry.step) for entry in found.journals[run_id].entries)
        rows: Counter[tuple[int, str]] = Counter()
        for record in found.usage:
            if record.run_id == run_id:
                rows[int(record.id.split(":")[1]), record.source] += 1
        for step in {step for kind, step in kinds if kind == "model_requested"}:
            booked = sum(count for (at, _), count in rows.items() if at == step)
            asked[run_id, step] = booked
            if booked != kinds["model_requested", step]:
                attempts = kinds["model_requested", step]
                yield f"I8: {run.start.agent_path}, step {step}: {attempts} attempts, {booked} rows"
            if run.end.status == "completed" and rows[step, "measured"] != kinds["model_answered", step] == 1:
                yield f"I8: {run.start.agent_path}, step {step}: {rows[step, 'measured']} measured rows"
        if len({r.id for r in found.usage}) != len(found.usage):
            yield "I8: a record was booked twice"
    for (agent, task), count in Counter(_who(call["request"]) for call in found.calls).items():
        runs = by_task.get((agent, task), [])
        rows_of = sum(booked for (run_id, _), booked in asked.items() if run_id in runs)
        if rows_of < count:
            yield f"I8: {agent} ({task}) asked the provider {count} times, and there are {rows_of} rows"


def _who(request: dict[str, Any]) -> tuple[str, str]:
    agent = request["system"].split()[3].strip(".")
    return agent, json.loads(request["messages"][0])["text"]


def _history(found: Evidence, reference: Evidence) -> Iterator[str]:
    """I10: each request begins with the one before, byte for byte; and all are those of the undisturbed run."""
    wanted = {_place(call["request"]): _same(call["request"]) for call in reference.calls}
    for call in found.calls:
        place, request = _place(call["request"]), _same(call["request"])
        if place not in wanted:
            yield f"I10: the undisturbed run never asked {place}"
        elif request != wanted[place]:
            yield f"I10: the request {place} is not that of the undisturbed run:\n{request}\n{wanted[place]}"
    if missing := wanted.keys() - {_place(call["request"]) for call in found.calls}:
        yield f"I10: never asked: {missing}"
    for run_id, journal in found.journals.items():
        before: list[str] = []
        for step, _, asked in requests(journal):
            now = [encode_message(message) for message in asked.messages]
            if now[: len(before)] != before:
                yield f"I10: {found.runs[run_id].start.agent_path}: the request of step {step} changes what was sent"
            before = now
            kept = _same(canonical(asked))
            if wanted.get(place := _place(canonical(asked))) != kept:
                yield f"I10: the journal's request {place} is not that of the undisturbed run"


def _place(request: dict[str, Any]) -> tuple[str, str, int]:
    spoken = sum(json.loads(message)["role"] == "assistant" for message in request["messages"])
    return *_who(request), spoken + 1


def _same(request: dict[str, Any]) -> str:
    """A request as it would be had no outcome been lost: that is the one thing in which a crash may show."""
    return json.dumps({**request, "messages": [_known(message) for message in request["messages"]]}, sort_keys=True)


def _known(text: str) -> str:
    message: Message = decode_message(text)
    if getattr(message, "call_id", "") in PLACES and message.content.startswith("OUTCOME_UNKNOWN"):
        done = f"{message.name} {PLACES[message.call_id]} done"
        return encode_message(ToolMessage(message.call_id, message.name, done))
    return text
