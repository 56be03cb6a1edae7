"""The timeline of a run: its steps with their attempts, calls and interruptions.

Content that the data policy does not keep is hidden even before it is erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from ...operations import OperationState
from ...orchestrator.journal.data_policy import DataPolicy, KeepFor, policy_of
from ...storage.types import StoredEntry, StoredJournal
from ...token_engine.edits import Edit, Reduce, Summarize, decode_edit
from ...usage import UsageRecord
from ...waits import Wait
from .format import counted

_INTERRUPTED, _UNKNOWN = "interrupted:", "OUTCOME_UNKNOWN:"


@dataclass(slots=True)
class TimelineCall:
    """A tool call of a step."""

    key: str
    name: str
    """Empty once erased."""
    call_id: str = ""
    arguments: str | None = None
    """None if the policy does not keep them."""
    state: OperationState = "planned"
    error: str = ""
    waits: list[Wait] = field(default_factory=list)
    """Its approval and its wait for a result, if it had them."""


@dataclass(slots=True)
class TimelineAttempt:
    """A model call that was about to be sent."""

    usage_id: str
    model: str
    at: float
    side: bool
    """Whether it is outside the conversation: a hook's question or a summary."""
    state: OperationState | None = None
    record: UsageRecord | None = None
    error: str = ""
    """The reason of its failure, if it is recorded."""

    @property
    def lost(self) -> bool:
        """Whether its process ended before the answer arrived."""
        return self.state == "unknown" or (self.record is not None and self.record.source == "unknown")


@dataclass(frozen=True, slots=True)
class TimelineNote:
    """An event between the calls of a step."""

    at: float
    label: str
    """`compaction`, `suspended` or `resumed`."""
    text: str


@dataclass(slots=True)
class TimelineStep:
    """One turn of the loop: its model calls and its tool calls."""

    number: int
    at: float
    until: float
    """The time of the step's last entry."""
    attempts: list[TimelineAttempt] = field(default_factory=list)
    answered: float | None = None
    calls: list[TimelineCall] = field(default_factory=list)
    notes: list[TimelineNote] = field(default_factory=list)
    usage: list[UsageRecord] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The duration of the step, waits included."""
        return max(self.until - self.at, 0.0)

    @property
    def requests(self) -> list[TimelineAttempt]:
        """The attempts of the turn itself; all but the last one failed or were lost."""
        return [attempt for attempt in self.attempts if not attempt.side]

    @property
    def model_seconds(self) -> float | None:
        """The duration of the answered attempt; None without an answer."""
        requests = self.requests
        return None if self.answered is None or not requests else max(self.answered - requests[-1].at, 0.0)

    @property
    def model(self) -> str:
        """The model of the last attempt."""
        requests = self.requests
        return requests[-1].model if requests else ""


@dataclass(slots=True)
class Timeline:
    """All steps of a run."""

    steps: list[TimelineStep]
    erased: bool
    """Whether content of the run has been erased."""
    receipt: dict[str, Any] | None = None


def timeline(
    journal: StoredJournal, usage: Iterable[UsageRecord], waits: Iterable[Wait], *, interrupted: bool
) -> Timeline:
    """The timeline of *journal*; *interrupted*: nobody is at work on it."""
    if not journal.entries:
        return Timeline([], erased=False)
    reader = _Reader(journal, list(usage), list(waits))
    for entry in journal.entries:
        reader.take(entry)
    reader.end(interrupted=interrupted)
    return Timeline(list(reader.steps.values()), reader.erased, reader.receipt)


class _Reader:
    """A fold over the entries that needs no content: see `orchestrator/record.py` for the one that does."""

    def __init__(self, journal: StoredJournal, usage: list[UsageRecord], waits: list[Wait]) -> None:
        self.steps: dict[int, TimelineStep] = {}
        self.erased = False
        self.receipt: dict[str, Any] | None = None
        self._run_id = journal.run.start.run_id
        self._over = journal.run.end is not None
        form = journal.entries[0].body.get("policy")
        self._policy = DataPolicy() if form is None else policy_of(form)
        self._usage = {record.id: record for record in usage}
        self._waits = {wait.key: wait for wait in waits if wait.run_id == self._run_id}
        self._turn: TimelineStep | None = None

    def take(self, entry: StoredEntry) -> None:
        """Take *entry* in."""
        self.erased = self.erased or entry.erased
        messages = [stored.message for stored in entry.messages]
        self._take_results(messages)
        step = self.steps.get(entry.step)
        body, held = entry.body, entry.held or {}
        if entry.kind == "asking":
            step = self._take_asking(entry)
        elif step is None:
            self.receipt = body.get("receipt", self.receipt)
            return
        step.until = entry.at
        if held.get("edits"):
            step.notes.append(
                TimelineNote(entry.at, "compaction", _edits([decode_edit(form) for form in held["edits"]]))
            )
        match entry.kind:
            case "answered":
                self._take_answer(step, entry, messages)
            case "outcome" | "waiting" | "suspended":
                self._take_outcomes(step, body, held)
                if entry.kind == "suspended":
                    step.notes.append(TimelineNote(entry.at, "suspended", "every open call waits for an answer"))
            case "resumed":
                step.notes.append(TimelineNote(entry.at, "resumed", "in a new process"))
            case "ended":
                self.receipt = body.get("receipt", self.receipt)

    def _take_asking(self, entry: StoredEntry) -> TimelineStep:
        asked = entry.body["request"]
        before = self.steps.get(entry.step - 1)
        step = self.steps.get(entry.step)
        if step is None:
            step = self.steps[entry.step] = TimelineStep(entry.step, entry.at, entry.at)
            if before is not None:
                before.until = entry.at  # the outcomes of its calls are in this entry
        if not asked.get("forked"):  # that was sent where the run was forked from
            aside = bool(asked.get("side"))
            step.attempts.append(
                TimelineAttempt(asked["usage"], asked["model"], entry.at, aside, record=self._usage.get(asked["usage"]))
            )
        if not asked.get("side"):
            self._turn = None
        return step

    def _take_answer(self, step: TimelineStep, entry: StoredEntry, messages: Sequence[Message]) -> None:
        body, held = entry.body, entry.held or {}
        step.answered = entry.at
        said = next((m for m in messages if isinstance(m, AssistantMessage)), None)
        known = said.tool_calls if said is not None else ()
        if "calls" in held:
            known = tuple(ToolCall(*call) for call in held["calls"])
        wanted = int(body.get("calls", 0))
        calls = [self._call(call) for call in known[:wanted]]
        if len(calls) < wanted:
            calls += [TimelineCall("", "", state="done") for _ in range(wanted - len(calls))]
        step.calls = calls
        if len(known) >= wanted:  # else nobody knows which is which
            self._begin(step, body)
        self._turn = step
        self._take_results(messages)

    def _call(self, call: ToolCall) -> TimelineCall:
        how = self._policy.tool(call.name).arguments
        return TimelineCall(
            "", call.name, call.id, call.arguments if how == "keep" or isinstance(how, KeepFor) else None
        )

    def _begin(self, step: TimelineStep, body: dict[str, Any]) -> None:
        for place in body.get("begun", ()):
            if place < len(step.calls):
                step.calls[place].state = "running"

    def _take_outcomes(self, step: TimelineStep, body: dict[str, Any], held: dict[str, Any]) -> None:
        if any(not call.name for call in step.calls):
            return  # erased: nobody knows which is which
        self._begin(step, body)
        for place in body.get("waiting", ()):
            if place < len(step.calls):
                step.calls[place].state = "waiting"
        for place, kept in held.get("outcomes", {}).items():
            if int(place) < len(step.calls):
                self._close(step.calls[int(place)], kept.get("content", ""), bool(kept.get("is_error")), kept)

    def _take_results(self, messages: Sequence[Message]) -> None:
        if self._turn is None:
            return
        for message in messages:
            if isinstance(message, ToolMessage):
                call = next((c for c in self._turn.calls if c.name and c.call_id == message.call_id), None)
                if call is not None:
                    self._close(call, message.content, message.is_error, {})
            elif isinstance(message, UserMessage) and message.text.startswith("[result of "):
                name = message.text.removeprefix("[result of ").partition("]")[0]
                call = next(
                    (c for c in self._turn.calls if c.name == name and c.state in ("planned", "running", "waiting")),
                    None,
                )
                if call is not None:
                    self._close(call, "", False, {})

    def _close(self, call: TimelineCall, content: str, is_error: bool, kept: dict[str, Any]) -> None:
        cut_short = call.state in ("running", "waiting") and content.startswith(_INTERRUPTED)
        if kept.get("unknown") or cut_short or (is_error and content.startswith(_UNKNOWN)):
            call.state = "unknown"
        else:
            call.state = "failed" if is_error else "done"
        how = self._policy.tool(call.name).results
        if is_error and (how == "keep" or isinstance(how, KeepFor)):
            call.error = content

    def end(self, *, interrupted: bool) -> None:
        """Nothing follows: see what each attempt and call came to."""
        for step in self.steps.values():
            step.usage = [r for r in self._usage.values() if r.id.startswith(f"{self._run_id}:{step.number}:")]
            asked = step.requests
            over = interrupted or self._over or step.answered is not None
            for attempt in asked if over and step.answered is None else asked[:-1]:
                if attempt.record is None or attempt.record.source == "unknown":
                    attempt.state = "unknown"
            last = step.number == max(self.steps)
            self._name_erased(step)
            for place, call in enumerate(step.calls):
                wait = next(iter(call.waits), None) or self._wait(step, place, call)
                call.waits = [] if wait is None else [wait]
                if wait is not None and wait.resolution is None:
                    call.state = "waiting"
                elif call.state in ("planned", "waiting") and (self._over or not last):
                    call.state = "done"

    def _name_erased(self, step: TimelineStep) -> None:
        """Calls that are erased, and had waited, are known by their waits; then nobody knows the others' places."""
        gone = [call for call in step.calls if not call.name]
        if not gone:
            return
        known = {(call.name, call.call_id) for call in step.calls}
        waits = [w for w in self._waits.values() if step_of_wait(w) == step.number]
        for call, wait in zip(gone, [w for w in waits if (w.tool, w.call_id) not in known], strict=False):
            call.name, call.call_id, call.waits = wait.tool, wait.call_id, [wait]

    def _wait(self, step: TimelineStep, place: int, call: TimelineCall) -> Wait | None:
        wait = self._waits.get(f"{self._run_id}:{step.number}.{place}")
        if wait is not None and (wait.tool, wait.call_id) == (call.name, call.call_id):
            return wait
        return next(
            (
                w
                for w in self._waits.values()
                if step_of_wait(w) == step.number and (w.tool, w.call_id) == (call.name, call.call_id)
            ),
            None,
        )


def step_of_wait(wait: Wait) -> int:
    """The step that a wait belongs to; its key tells."""
    step = wait.key.rpartition(":")[2].partition(".")[0]
    return int(step) if step.isdecimal() else 0


def _edits(edits: Sequence[Edit]) -> str:
    reduced = sum(len(edit.indexes) for edit in edits if isinstance(edit, Reduce))
    spans = [edit for edit in edits if isinstance(edit, Summarize)]
    parts = (
        (reduced, "tool result", "shortened"),
        (sum(edit.messages for edit in spans if not edit.omitted), "message", "summarized"),
        (sum(edit.messages for edit in spans if edit.omitted), "message", "omitted"),
    )
    return ", ".join(f"{counted(count, noun)} {verb}" for count, noun, verb in parts if count) or "reasoning omitted"
