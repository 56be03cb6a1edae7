"""Comparison with an undisturbed run, once the auditor has checked what holds after every fault."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from concertino import SqliteStore
from concertino.messages import AssistantMessage, Message, ToolMessage
from concertino.orchestrator import replay, requests
from concertino.storage import StoredJournal, StoredRun, decode_message, encode_message
from tests import auditor

from .cast import canonical
from .program import ROOT
from .world import Case

PLACES = {"boss-0-2": 3, "boss-0-3": 4, "boss-1-0": 5, "child-0-1": 2, "grandchild-0-0": 1}
"""What the calls of `once` tools have as their argument."""


@dataclass
class Evidence:
    """All that a case has left behind of one tree."""

    all: auditor.Evidence
    """Of all trees."""
    runs: Mapping[str, StoredRun]
    journals: Mapping[str, StoredJournal]

    @property
    def due(self) -> list[str]:
        """The trees that are due."""
        return list(self.all.due)

    @property
    def effects(self) -> list[dict[str, Any]]:
        """What the receiver of effects has written down."""
        return list(self.all.effects)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the provider has written down."""
        return list(self.all.calls)


def gather(case: Case, root: str = ROOT) -> Evidence:
    """Read it, through the port of the store."""

    async def read() -> Evidence:
        async with await SqliteStore.open(case.database) as store:
            found = await auditor.gather(store, case.folder / "calls", case.folder / "effects")
            (tree,) = (each for each in found.trees if each.root.start.run_id == root)
            return Evidence(found, tree.runs, tree.journals)

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
        *map(str, auditor.violations(found.all)),
        *_one_end(found, reference, faults, status),
        *_effects(found, reference, faults, unsure),
        *_history(found, reference),
    ]


def _one_end(found: Evidence, reference: Evidence, faults: int, status: str) -> Iterator[str]:
    """I1 and I9: the same runs have ended, as the undisturbed ones have."""
    if found.runs.keys() != reference.runs.keys():
        yield f"I1: the runs are {sorted(found.runs)}, not {sorted(reference.runs)}"
    for run_id, run in found.runs.items():
        wanted = reference.runs.get(run_id)
        if run.end is not None and run.end.status != status:
            yield f"I1: run {run.start.agent_path} has ended as {run.end.status}: {run.end.error}"
        elif run.end and wanted and wanted.end and run.end.answer != wanted.end.answer:
            yield f"I1: the answer of {run.start.agent_path} is {run.end.answer!r}, not {wanted.end.answer!r}"
    if not faults and (held := {run.owner for run in found.runs.values()} - {""}):
        yield f"I9: a claim is still held by {held}"


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


def _who(request: dict[str, Any]) -> tuple[str, str]:
    agent = request["system"].split()[3].strip(".")
    return agent, json.loads(request["messages"][0])["text"]


def _history(found: Evidence, reference: Evidence) -> Iterator[str]:
    """I10: all requests are those of the undisturbed run, byte for byte."""
    wanted = {_place(call["request"]): _same(call["request"]) for call in reference.calls}
    for call in found.calls:
        place, request = _place(call["request"]), _same(call["request"])
        if place not in wanted:
            yield f"I10: the undisturbed run never asked {place}"
        elif request != wanted[place]:
            yield f"I10: the request {place} is not that of the undisturbed run:\n{request}\n{wanted[place]}"
    if missing := wanted.keys() - {_place(call["request"]) for call in found.calls}:
        yield f"I10: never asked: {missing}"
    for journal in found.journals.values():
        for _, _, asked in requests(journal):
            kept = canonical(asked)
            if wanted.get(place := _place(kept)) != _same(kept):
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
