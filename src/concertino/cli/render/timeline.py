"""The timeline of a run: its steps with their attempts, calls and interruptions, read from the journal's typed steps.

Content that the data policy does not keep is hidden even before it is erased.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal

from ...events import StopReceipt
from ...ids import call_key
from ...messages import AssistantMessage, ToolCall, ToolMessage
from ...operations import ENDED, Operation, OperationState
from ...orchestrator.journal.data_policy import DataPolicy, KeepFor, policy_of
from ...orchestrator.journal.entries import (
    Ended,
    ModelAnswered,
    ModelRequested,
    RequestRecord,
    Resumed,
    SideRequested,
    Started,
    Suspended,
    outcome_of,
)
from ...orchestrator.journal.replay import JournalStep, read_steps
from ...records import record
from ...storage.types import StoredJournal
from ...usage import UsageRecord
from ...waits import Verdict, Wait
from .format import counted, tokens


@record(frozen=False)
class TimelineCall:
    """A tool call of a step."""

    key: str
    name: str
    """Empty once erased."""
    call_id: str = ""
    arguments: str | None = None
    """None if the policy does not keep them."""
    state: OperationState | Literal["erased"] = "planned"
    """`erased`: the call has ended, and the policy has erased its outcome."""
    error: str = ""
    waits: list[Wait] = field(default_factory=list)
    """Its approval and its wait for a result, if it had them."""


@record(frozen=False)
class TimelineAttempt:
    """A model call that was about to be sent."""

    usage_id: str
    model: str
    at: float
    side: bool
    """True if it is outside the conversation: a hook's question or a summary."""
    state: OperationState | None = None
    record: UsageRecord | None = None
    error: str = ""
    """The reason of its failure, if it is recorded."""

    @property
    def lost(self) -> bool:
        """True if its process ended before the answer arrived."""
        return self.state == "unknown" or (self.record is not None and self.record.source == "unknown")


@record
class TimelineNote:
    """An event between the calls of a step."""

    at: float
    label: str
    """`compaction`, `suspended` or `resumed`."""
    text: str


@record(frozen=False)
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


@record(frozen=False)
class Timeline:
    """All steps of a run."""

    steps: list[TimelineStep]
    erased: bool
    """True if content of the run has been erased."""
    receipt: StopReceipt | None = None
    problem: str = ""
    """The reason why the rest of the journal cannot be read."""


_VERDICTS: dict[Verdict, OperationState] = {
    "denied": "failed",
    "expired": "failed",
    "failed": "failed",
    "result": "done",
    "cancelled": "cancelled",
}
"""The states of calls whose outcome is the answer itself."""


class TimelineReader:
    """Builds the timeline of one run from the steps of its journal."""

    def __init__(
        self, run_id: str, usage: Sequence[UsageRecord], waits: Sequence[Wait], operations: Sequence[Operation]
    ) -> None:
        self._run_id = run_id
        self._usage = {record.id: record for record in usage}
        self._waits = [wait for wait in waits if wait.run_id == run_id]
        self._operations = operations
        self._policy = DataPolicy()
        self._steps: dict[int, TimelineStep] = {}
        self._calls: dict[str, TimelineCall] = {}
        self._attempts: dict[str, TimelineAttempt] = {}
        self._receipt: StopReceipt | None = None
        self._over = False

    def read(self, journal: StoredJournal) -> Timeline:
        """Return the timeline of *journal*, up to the first entry that cannot be read."""
        count = 0
        for step in read_steps(journal, strict=False):
            self._apply(step)
            count = step.seq + 1
        unread = len(journal.entries) - count
        problem = f"journal entry {count} is damaged: {'the rest is'} not shown" if unread else ""
        erased = any(entry.erased for entry in journal.entries)
        for one in self._steps.values():
            prefix = f"{self._run_id}:{one.number}:"
            one.usage = [record for record in self._usage.values() if record.id.startswith(prefix)]
        for operation in self._operations:
            self._update(operation.key, operation.state)
            call = self._calls.get(operation.key)
            if call is not None and operation.outcome is not None:
                outcome = outcome_of(ToolCall(call.call_id, call.name, ""), operation.outcome)
                if outcome.is_error:
                    self._fail(call, outcome.content)
        self._close_erased()
        return Timeline(list(self._steps.values()), erased, self._receipt, problem)

    def _close_erased(self) -> None:
        """Close the calls whose outcome was erased: they are open in the journal, but not in the store."""
        open_keys = {operation.key for operation in self._operations}
        last = max(self._steps, default=0)
        for number, step in self._steps.items():
            for call in step.calls:
                if call.state not in ENDED and call.key not in open_keys and (self._over or number < last):
                    verdicts = [wait.resolution.verdict for wait in call.waits if wait.resolution is not None]
                    call.state = next((_VERDICTS[verdict] for verdict in verdicts if verdict in _VERDICTS), "erased")

    def _apply(self, step: JournalStep) -> None:
        entry = step.entry
        match entry:
            case Started():
                self._policy = policy_of(entry.policy)
            case ModelRequested() | SideRequested():
                self._request(step, entry.request, side=isinstance(entry, SideRequested))
            case ModelAnswered():
                self._answer(step, entry)
            case Ended():
                self._receipt, self._over = entry.receipt, True
            case _:
                pass
        for key, state in step.common.transitions:
            self._update(key, state)
        for stored in step.messages:
            if isinstance(stored.message, ToolMessage):
                self._close(stored.message)
        if step.step in self._steps:
            self._steps[step.step].until = step.at
            self._steps[step.step].notes += _notes(step)

    def _request(self, step: JournalStep, request: RequestRecord, *, side: bool) -> None:
        number = step.step
        if number not in self._steps:
            self._steps[number] = TimelineStep(number, step.at, step.at)
            if number - 1 in self._steps:
                self._steps[number - 1].until = step.at  # this entry contains the outcomes of its calls
        if request.forked:
            return
        record = self._usage.get(request.usage_id)
        attempt = TimelineAttempt(request.usage_id, request.model, step.at, side, record=record)
        if isinstance(step.entry, ModelRequested) and step.entry.after and self._steps[number].requests:
            after, text = step.entry.after, step.entry.after_text
            self._steps[number].requests[-1].error = f"{after}: {text}" if text else after
        self._attempts[request.usage_id] = attempt
        self._steps[number].attempts.append(attempt)

    def _answer(self, step: JournalStep, entry: ModelAnswered) -> None:
        current = self._steps[step.step]
        current.answered = step.at
        message = next((s.message for s in step.messages if isinstance(s.message, AssistantMessage)), None)
        calls = entry.calls if entry.calls is not None else () if message is None else message.tool_calls
        for index in range(entry.call_count):
            call = TimelineCall(call_key(self._run_id, step.step, index), "")
            if len(calls) == entry.call_count:
                self._name(call, calls[index])
            current.calls.append(call)
            self._calls[call.key] = call
            call.waits = [wait for wait in self._waits if wait.key == call.key]
        self._name_erased(current.calls, calls)

    def _name_erased(self, calls: Sequence[TimelineCall], known: Sequence[ToolCall]) -> None:
        """Name the calls of a turn of which some were erased: by their waits, and the others in order."""
        ids = {call.id for call in known}
        for call in calls:
            if not call.name and call.waits and call.waits[0].call_id not in ids:
                call.name, call.call_id = call.waits[0].tool, call.waits[0].call_id
        unnamed = [call for call in calls if not call.name]
        if len(unnamed) == len(known):
            for call, found in zip(unnamed, known, strict=True):
                self._name(call, found)

    def _name(self, call: TimelineCall, found: ToolCall) -> None:
        kept = _is_kept(self._policy.tool(found.name).arguments)
        call.name, call.call_id, call.arguments = found.name, found.id, found.arguments if kept else None

    def _update(self, key: str, state: OperationState) -> None:
        operation = self._calls.get(key) or self._attempts.get(key)
        if operation is not None:
            operation.state = state

    def _close(self, message: ToolMessage) -> None:
        """Apply the result of a call; the entry has no transition if the call ended in between two appends."""
        for call in self._calls.values():
            if call.call_id == message.call_id:
                if call.state not in ENDED:
                    call.state = "failed" if message.is_error else "done"
                if message.is_error:
                    self._fail(call, message.content)

    def _fail(self, call: TimelineCall, error: str) -> None:
        if _is_kept(self._policy.tool(call.name).results):
            call.error = error


def _notes(step: JournalStep) -> Iterator[TimelineNote]:
    if step.common.edited:
        yield TimelineNote(step.at, "compaction", _compaction(*step.common.edited))
    if isinstance(step.entry, Suspended):
        yield TimelineNote(step.at, "suspended", "every open call waits for an answer")
    elif isinstance(step.entry, Resumed):
        yield TimelineNote(step.at, "resumed", "from the journal")


def _is_kept(treatment: str | KeepFor) -> bool:
    return treatment == "keep" or isinstance(treatment, KeepFor)


def _compaction(reduced: int, summarized: int, omitted: int, before: int, after: int) -> str:
    made = (
        (reduced, "tool result", "shortened"),
        (summarized, "message", "summarized"),
        (omitted, "message", "omitted"),
    )
    parts = [f"{counted(count, noun)} {verb}" for count, noun, verb in made if count]
    return ", ".join([f"{before:,} to {tokens(after)}", *parts])
