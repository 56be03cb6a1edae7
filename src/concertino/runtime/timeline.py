"""The timeline of a run: its steps with their attempts, calls and interruptions, read from the journal's typed steps.

Content that the data policy does not keep is hidden even before it is erased.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal

from ..events import StopReceipt
from ..ids import call_key
from ..messages import AssistantMessage, ToolCall, ToolMessage
from ..operations import ENDED, Operation, OperationState
from ..orchestrator.journal import entries
from ..orchestrator.journal.data_policy import DataPolicy, KeepFor, policy_of
from ..orchestrator.journal.replay import JournalStep, read_steps
from ..records import record
from ..storage.types import StoredJournal
from ..usage import UsageRecord
from ..waits import Verdict, Wait


@record(frozen=False)
class TimelineCall:
    """A tool call of a step."""

    key: str
    waits: list[Wait]
    """Its approval and its wait for a result, if it had them."""
    name: str = ""
    """Empty once erased."""
    call_id: str = ""
    arguments: str | None = None
    """None if the policy does not keep them."""
    state: OperationState | Literal["erased"] = "planned"
    """`erased`: the call has ended, and the policy has erased its outcome."""
    error: str = ""


@record(frozen=False)
class TimelineAttempt:
    """A model call that was about to be sent."""

    usage_id: str
    model: str
    at: float
    side: bool
    """True if it is outside the conversation: a hook's question or a summary."""
    record: UsageRecord | None
    state: OperationState | None = None
    error: str = ""
    """The reason of its failure, if it is recorded."""
    process: str = ""
    """The process that made it."""

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
    text: str = ""
    process: str = ""
    """The process that has the run, if it is known."""
    edited: tuple[int, ...] = ()
    """For a compaction: tool results shortened, messages summarized and omitted, tokens before and after."""


@record(frozen=False)
class TimelineStep:
    """A turn of the loop: its model calls and its tool calls."""

    number: int
    at: float
    until: float
    """The time of the step's last entry."""
    usage: list[UsageRecord]
    attempts: list[TimelineAttempt] = field(default_factory=list)
    answered: float | None = None
    calls: list[TimelineCall] = field(default_factory=list)
    notes: list[TimelineNote] = field(default_factory=list)

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


@record
class Timeline:
    """All steps of a run."""

    steps: Sequence[TimelineStep] = ()
    erased: bool = False
    """True if content of the run has been erased."""
    receipt: StopReceipt | None = None
    process: str = ""
    """The process that started the run."""
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


def read_timeline(
    journal: StoredJournal, usage: Sequence[UsageRecord], waits: Sequence[Wait], operations: Sequence[Operation]
) -> Timeline:
    """Return the timeline of a run up to the first entry that cannot be read; *operations* are its open ones."""
    reader = _Reader(journal.run.start.run_id, usage, waits)
    count = 0
    for count, step in enumerate(read_steps(journal, strict=False), 1):  # noqa: B007 - the number of readable entries
        reader.apply(step)
    reader.finish(operations)
    problem = f"journal entry {count} is damaged; the rest is not shown" if count < len(journal.entries) else ""
    erased = any(entry.erased for entry in journal.entries)
    return Timeline(tuple(reader.steps.values()), erased, reader.receipt, reader.started_by, problem)


class _Reader:
    """Builds the steps of a timeline from those of a journal."""

    def __init__(self, run_id: str, usage: Sequence[UsageRecord], waits: Sequence[Wait]) -> None:
        self.steps: dict[int, TimelineStep] = {}
        self.receipt: StopReceipt | None = None
        self._run_id = run_id
        self._usage = {record.id: record for record in usage}
        self._waits = waits
        self._policy = DataPolicy()
        self._calls: dict[str, TimelineCall] = {}
        self._attempts: dict[str, TimelineAttempt] = {}
        self._ended = False
        self.started_by = self._process = ""

    def apply(self, step: JournalStep) -> None:
        """Apply one step of the journal."""
        match step.entry:
            case entries.Started(policy=policy, process=process):
                self._policy = policy_of(policy)
                self.started_by = self._process = process
            case entries.Resumed(process=process):
                self._process = process
            case entries.ModelRequested(request=request) | entries.SideRequested(request=request):
                self._request(step, request)
            case entries.ModelAnswered() as answered:
                self._answer(step, answered)
            case entries.Ended(receipt=receipt):
                self.receipt, self._ended = receipt, True
        for key, state in step.common.transitions:
            self._update(key, state)
        for stored in step.messages:
            if isinstance(stored.message, ToolMessage):
                self._close(stored.message)
        if step.step in self.steps:
            self.steps[step.step].until = step.at
            self.steps[step.step].notes += _notes(step, self._process)

    def finish(self, operations: Sequence[Operation]) -> None:
        """Apply the states of the open operations; the outcome of any other open call of an earlier step was erased."""
        for operation in operations:
            self._update(operation.key, operation.state)
            if (call := self._calls.get(operation.key)) is not None and operation.outcome is not None:
                outcome = entries.outcome_of(ToolCall(call.call_id, call.name, ""), operation.outcome)
                if outcome.is_error:
                    self._fail(call, outcome.content)
        open_keys = {operation.key for operation in operations}
        for number, step in self.steps.items():
            for call in step.calls:
                is_over = self._ended or number < max(self.steps)
                if is_over and call.state not in ENDED and call.key not in open_keys:
                    verdicts = [wait.resolution.verdict for wait in call.waits if wait.resolution is not None]
                    call.state = next((_VERDICTS[verdict] for verdict in verdicts if verdict in _VERDICTS), "erased")

    def _request(self, step: JournalStep, request: entries.RequestRecord) -> None:
        number = step.step
        if number not in self.steps:
            prefix = f"{self._run_id}:{number}:"
            usage = [record for record in self._usage.values() if record.id.startswith(prefix)]
            self.steps[number] = TimelineStep(number, step.at, step.at, usage)
            if number - 1 in self.steps:
                self.steps[number - 1].until = step.at  # this entry contains the outcomes of its calls
        if request.forked:
            return
        current, turn = self.steps[number], step.entry if isinstance(step.entry, entries.ModelRequested) else None
        if turn is not None and turn.after and current.requests:
            current.requests[-1].error = f"{turn.after}: {turn.after_text}" if turn.after_text else turn.after
        record = self._usage.get(request.usage_id)
        attempt = TimelineAttempt(request.usage_id, request.model, step.at, turn is None, record, process=self._process)
        self._attempts[request.usage_id] = attempt
        current.attempts.append(attempt)

    def _answer(self, step: JournalStep, entry: entries.ModelAnswered) -> None:
        current = self.steps[step.step]
        current.answered = step.at
        message = next((s.message for s in step.messages if isinstance(s.message, AssistantMessage)), None)
        known = entry.calls if entry.calls is not None else () if message is None else message.tool_calls
        for index in range(entry.call_count):
            key = call_key(self._run_id, step.step, index)
            self._calls[key] = TimelineCall(key, [wait for wait in self._waits if wait.key == key])
            current.calls.append(self._calls[key])
        self._name(current.calls, known)

    def _name(self, calls: Sequence[TimelineCall], known: Sequence[ToolCall]) -> None:
        """Name the calls of a turn: erased ones by their waits, and the others in the order of *known*."""
        ids = {call.id for call in known}
        for call in calls:
            if call.waits and call.waits[0].call_id not in ids:
                call.name, call.call_id = call.waits[0].tool, call.waits[0].call_id
        others = [call for call in calls if not call.name]
        if len(others) == len(known):
            for call, found in zip(others, known, strict=True):
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


def _notes(step: JournalStep, process: str) -> Iterator[TimelineNote]:
    if step.common.edited:
        yield TimelineNote(step.at, "compaction", process=process, edited=step.common.edited)
    if isinstance(step.entry, entries.Suspended):
        yield TimelineNote(step.at, "suspended", "every open call waits for an answer", process)
    elif isinstance(step.entry, entries.Resumed):
        by = f" by {process}" if process else ""
        yield TimelineNote(step.at, "resumed", f"from the journal{by}", process)


def _is_kept(treatment: str | KeepFor) -> bool:
    return treatment == "keep" or isinstance(treatment, KeepFor)
