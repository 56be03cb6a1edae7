"""Replay: the journal's typed steps, and the state of a run that follows from them.

Resume, fork, the command line and exports read these steps; nothing else reads stored entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from typing import Any, Literal

from ...context_state import ContextState
from ...errors import ConfigurationError, DamagedDataError, ErasedError, RunStateError, StorageError
from ...events import StopReceipt
from ...messages import AssistantMessage, Media, Message, SystemMessage, ToolCall, ToolSpec, UserMessage
from ...operations import Operation
from ...providers.base import ModelRequest, OutputSchema
from ...records import record
from ...scope import AnyScope
from ...storage.base import Store
from ...storage.types import StoredJournal, StoredMessage, StoredRun
from ...token_engine.edits import Edit, Summarize, decode_edits
from ...token_engine.view import View
from ...unread_messages import UNREAD, has_unread
from ...usage import UsageRecord
from ...waits import Wait
from ..outcome import CONTINUE, Finish, StepOutcome
from ..run_state import RunState
from .entries import (
    Common,
    Ended,
    JournalEntry,
    ModelAnswered,
    ModelRequested,
    Position,
    RequestRecord,
    Resumed,
    SideAnswered,
    SideRequested,
    Started,
    SummaryReady,
    Suspended,
    decode,
    empty_answer,
    message_of,
    schema_of,
    settings_of,
    spec_of,
    unpack_context,
)
from .snapshot import Snapshot, Sources

Stage = Literal["started", "requested", "answered", "finishing", "ended"]
"""`finishing`: no turn is open, and the run waits for its background calls before it finishes."""


@record(kw_only=True)
class JournalStep:
    """An entry of a journal with everything that was appended with it."""

    seq: int
    epoch: int
    """The number of the claim under which it was appended; a new process has a greater one."""
    step: int
    at: float
    """Seconds since the epoch, by the store's clock."""
    entry: JournalEntry
    common: Common
    messages: Sequence[StoredMessage]
    usage: Sequence[UsageRecord]


def read_steps(journal: StoredJournal, *, strict: bool = True) -> Iterator[JournalStep]:
    """Yield the steps of a journal; if not *strict*, erased ones without their content, up to the first damaged one.

    Raises `ErasedError` and `StorageError` as `decode` does.
    """
    for stored in journal.entries:
        try:
            entry, common = decode(stored, journal.run.start.run_id, strict=strict)
        except StorageError:
            if strict:
                raise
            return
        yield JournalStep(
            seq=stored.seq,
            epoch=stored.epoch,
            step=stored.step,
            at=stored.at,
            entry=entry,
            common=common,
            messages=stored.messages,
            usage=stored.usage,
        )


@record(frozen=False)
class OpenRequest:
    """A request that was about to be sent."""

    request: ModelRequest
    model: str
    """`provider:name` of the model that it goes to."""
    own_messages: bool
    """Whether a hook has given it messages of its own."""
    prompt: str
    """The text after the conversation that this request alone contains."""


@record(frozen=False)
class OpenTurn:
    """A turn whose answer is recorded. The states of its calls are in the store's operations."""

    message: AssistantMessage
    calls: tuple[ToolCall, ...]
    outcome: StepOutcome
    """How the turn ends, as far as the answer alone decides it."""
    added_before: int
    """The number of messages that the run had added before the answer."""
    ending: list[str] = field(default_factory=list)
    """Keys of the calls whose results end the run."""
    operations: Sequence[Operation] = ()
    """The run's operations, as stored, and its waits, which are not older: an answer may have come in between."""
    waits: Sequence[Wait] = ()


@record(frozen=False)
class Replay:
    """The state of a run as its journal determines it."""

    run: StoredRun
    texts: dict[str, str]
    contents: Mapping[str, str]
    """Contents of media by digest."""
    history: Sequence[Message] = ()
    """Messages of the turns before the run."""
    started: Started = field(init=False)
    before: tuple[Message, ...] = ()
    """Messages before the run: examples, the history, its summary."""
    media: tuple[Media, ...] = ()
    """The media of the user's message."""
    view: View = field(default_factory=View)
    """The conversation and what the model sees of it."""
    added: list[Message] = field(default_factory=list)
    """Messages that this run added."""
    replaced: bool = False
    """Whether a hook has replaced the conversation."""
    ready: list[Edit] = field(default_factory=list)
    """Summaries that were made and are not in use yet."""
    cache_key: str = ""
    bill: float = 0.0
    """See `TokenEngine.bill`."""
    failures: int = 0
    """See `TokenEngine.failures`."""
    state: RunState = field(default_factory=RunState)
    index: int = 0
    attempts: int = 0
    agent_state: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    schema: OutputSchema | None = None
    """That of the last request that had one."""
    stage: Stage = "started"
    request: OpenRequest | None = None
    """In stage `requested`."""
    turn: OpenTurn | None = None
    """In stage `answered`."""
    outcome: StepOutcome = CONTINUE
    """In stage `finishing`: how the run would have finished."""
    background: Sequence[Sequence[Any]] = ()
    """See `Position.background`."""
    side_answers: list[SideAnswered] = field(default_factory=list)
    """Answers to questions outside the conversation, as far as they may be asked again."""
    phase: int = 0
    """See `RunSession.phase`."""
    commands: int = 0
    seconds: float = 0.0
    """Seconds that processes have worked on the run, without the time between them."""
    at: float = 0.0
    """The time of the last entry, by the store's clock."""
    entries: int = 0
    error: str | None = None
    receipt: StopReceipt | None = None
    context: ContextState | None = None
    """The context for the next run of the conversation, after the end."""
    sources: Sources = field(default_factory=Sources)
    """The entries that the state depends on."""
    snapshot: Snapshot | None = None
    """The snapshot from which the journal was read; None if it was read whole."""
    snapshot_edits: int = 0
    """The number of edits of the view up to it."""
    snapshot_at: int = 0
    """The number of its entry."""
    _earlier: Mapping[int, Sequence[StoredMessage]] | None = None
    """Messages before the snapshot, until it was reached."""
    _edits: list[Edit] = field(default_factory=list)
    """Edits before the snapshot, until it was reached."""
    _began: float = 0.0
    """The time of the last start or resumption."""
    _decoded: dict[str, Message] = field(default_factory=dict)

    @property
    def messages(self) -> list[Message]:
        """The whole conversation."""
        return self.view.record

    def apply(self, step: JournalStep) -> None:
        """Apply one step. Raises `DamagedDataError` if it contradicts the steps before it."""
        try:
            self._apply(step)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, StopIteration, ConfigurationError) as e:
            where = f"run {self.run.start.run_id}, entry {step.seq} ({step.entry.kind})"
            raise DamagedDataError(f"the journal of {where} is damaged: {e!r}; stop or erase the run") from e
        if step.common.ending and self.turn is not None:
            self.turn.ending += step.common.ending
        self.entries = step.seq + 1
        if isinstance(step.entry, Started | Resumed):
            self.sources.seconds, self._began = self.seconds, step.at
        self.seconds = self.sources.seconds + max(step.at - self._began, 0.0)
        self.at = step.at
        if step.seq == self.snapshot_at:
            self.snapshot_edits = len(self.view.edits)
        if step.messages:
            self.sources.fresh.append((step.seq, len(step.messages)))
        self.sources.note(step.seq, step.entry.kind, step.common)

    def _restore(self, snapshot: Snapshot | None, earlier: Mapping[int, Sequence[StoredMessage]]) -> None:
        """Set what the entries that are left out have determined, before the entry of *snapshot*."""
        if snapshot is None:
            raise ValueError("the snapshot cannot be read")
        self._earlier = None
        self.state.tool_calls, self.state.calls_of = dict(snapshot.counts), dict(snapshot.calls_of)
        self.phase, self.snapshot = snapshot.phase, snapshot
        self.added, next_one = [UNREAD] * snapshot.added, snapshot.first
        for seq, messages in earlier.items():
            first = snapshot.apart[seq] if seq < snapshot.since else next_one
            next_one = next_one if seq < snapshot.since else first + len(messages)
            self.added[first : first + len(messages)] = [each.message for each in messages]
            self.sources.locate(seq, first, len(messages))
        self.sources.restore(snapshot)
        left_out = len(self.messages) - snapshot.shift
        if (next_one, len(self.added)) != (snapshot.added, snapshot.added) or left_out < 0:
            raise ValueError("messages that the snapshot names are missing")
        self.messages.extend(self.added[left_out:])
        for edit in self._edits:
            self.view.apply(edit)

    def _apply(self, step: JournalStep) -> None:  # noqa: C901 - one case for each kind of entry
        entry, common = step.entry, step.common
        if isinstance(entry, Started):
            self._apply_start(entry)
        if self._earlier is not None and step.seq == self.snapshot_at:
            self._restore(common.snapshot, self._earlier)
        added_before = len(self.added)
        self._apply_log(common, step.messages)
        self.state.tool_calls.update(common.counts)
        self.data.update(common.data)
        self._apply_edits(common)
        if (position := getattr(entry, "position", None)) is not None:
            self._apply_position(position)
        match entry:
            case ModelRequested():
                self._apply_request(entry)
            case SideRequested(request=request):
                self.attempts = max(self.attempts, int(request.attempt))
            case SideAnswered():
                self.side_answers.append(entry)
            case ModelAnswered():
                self._apply_answer(entry, added_before)
            case SummaryReady(ready=ready):
                self.ready = list(ready)
            case Suspended(finish=True, finish_text=text):
                self.stage, self.turn, self.outcome = "finishing", None, Finish(text)
            case Ended():
                self.stage, self.error, self.receipt = "ended", entry.error, entry.receipt
                if entry.context is not None:
                    self.context = unpack_context(entry.context, self.texts)
            case _:
                pass

    def _apply_start(self, entry: Started) -> None:
        self.started = entry
        if entry.media is not None:
            message = message_of(self.texts[entry.media], self.contents)
            self.media = message.media if isinstance(message, UserMessage) else ()
        self.before = self._before(entry)
        self.view = View(record=self.before)

    def _before(self, entry: Started) -> tuple[Message, ...]:
        before = tuple(message_of(self.texts[key], self.contents) for key in entry.before)
        if entry.follows is None:
            return before
        turn, first, count = entry.follows
        if len(self.history) != count:
            run_id = self.run.start.run_id
            raise ErasedError(f"run {run_id} follows turn {turn}, whose messages were erased; it cannot be resumed")
        return (*before[:first], *self.history, *before[first:])

    def _apply_log(self, common: Common, messages: Sequence[StoredMessage]) -> None:
        first = 0
        for change in common.log:
            if isinstance(change, int):
                if self._earlier is not None:  # the snapshot knows where they are
                    continue
                self._add(messages[first : first + change])
                first += change
                if first > len(messages):
                    raise IndexError(f"{len(messages)} messages of {first}")
            else:
                replaced = [message_of(self.texts[key], self.contents) for key in change]
                last = self.messages[-1:] if self._earlier is None else ()
                self.view, self.replaced = View(record=[*replaced, *last]), True
                self.ready, self._edits = [], []

    def _add(self, stored: Sequence[StoredMessage]) -> None:
        messages = [each.message for each in stored]
        self.view.record.extend(messages)
        self.added.extend(messages)
        self.state.text = next((m.text for m in reversed(messages) if isinstance(m, AssistantMessage)), self.state.text)

    def _apply_edits(self, common: Common) -> None:
        carried: list[Edit] = []
        if common.carried is not None and self.started.context is not None:
            carried = decode_edits(unpack_context(self.started.context, self.texts).edits, common.carried)
        for edit in (*carried, *common.edits):
            if self._earlier is None:
                self.view.apply(edit)
            else:
                self._edits.append(edit)
            if isinstance(edit, Summarize):
                self.ready = []

    def _apply_position(self, position: Position) -> None:
        old, self.state = self.state, position.state
        self.state.tool_calls, self.state.calls_of, self.state.text = old.tool_calls, old.calls_of, old.text
        self.index, self.attempts, self.failures = position.index, position.attempts, position.failures
        if position.text is not None:
            self.state.text = position.text
        if position.agent_state is not None:
            self.agent_state = position.agent_state
        if position.background is not None:
            self.background = position.background
        if position.bill is not None:
            self.bill = position.bill
        if position.commands is not None:
            self.commands = position.commands

    def _apply_texts(self, entry: ModelRequested | ModelAnswered) -> None:
        if entry.run_system is not None:
            self.system = self.texts[entry.run_system]
        if entry.run_tools is not None:
            self.tools = tuple(spec_of(self.texts[key]) for key in entry.run_tools)

    def _apply_request(self, entry: ModelRequested) -> None:
        self._apply_texts(entry)
        if entry.cache_key is not None:
            self.cache_key = entry.cache_key
        if isinstance(entry.schema, str):
            self.schema = schema_of(self.texts[entry.schema])
        if entry.calls_of is not None:
            self.state.calls_of.update(entry.calls_of)
        self.stage, self.turn, self.outcome, self.side_answers = "requested", None, CONTINUE, []
        self.phase += 1
        own = entry.messages is not None
        self.request = OpenRequest(self._request(entry), entry.request.model, own, entry.prompt or "")

    def _request(self, entry: ModelRequested) -> ModelRequest:
        """Return the request as it was sent: a pure function of what is recorded up to here."""
        sent: RequestRecord = entry.request
        if entry.messages is not None:
            messages = [self._message(text) for text in entry.messages]
        else:
            messages = [*self.view.shown, *([SystemMessage(entry.prompt)] if entry.prompt else ())]
        tools = self.tools if entry.tools is True else tuple(spec_of(self.texts[key]) for key in entry.tools)
        return ModelRequest(
            model=sent.name or sent.model.partition(":")[2],
            system=self.system if entry.system is None else self.texts[entry.system],
            messages=messages,
            tools=tools,
            tool_choice=entry.choice,
            parallel_tool_calls=entry.parallel,
            max_output_tokens=sent.max_output,
            extra=dict(entry.extra),
            breakpoints=None if entry.breakpoints is None else tuple(entry.breakpoints),
            cache_key=self.cache_key,
            output_schema=None if entry.schema is None else self.schema,
            **settings_of(entry.settings),
        )

    def _message(self, text: str) -> Message:
        if text not in self._decoded:
            self._decoded[text] = message_of(text, self.contents)
        return self._decoded[text]

    def _apply_answer(self, entry: ModelAnswered, added_before: int) -> None:
        self._apply_texts(entry)
        message = empty_answer()
        if entry.has_message:
            message = next(m for m in self.added[added_before:] if isinstance(m, AssistantMessage))
        calls = message.tool_calls if entry.calls is None else tuple(entry.calls)
        calls = calls if entry.call_count else ()
        for call in calls:
            self.state.calls_of[call.name] = self.state.calls_of.get(call.name, 0) + 1
        outcome: StepOutcome = Finish(entry.finish_text) if entry.finish else CONTINUE
        self.stage, self.request = "answered", None
        # A tool that started early may have asked already.
        self.side_answers = [answer for answer in self.side_answers if answer.caller]
        self.phase += 1
        self.turn = OpenTurn(message, calls, outcome, added_before)


def replay(journal: StoredJournal, before_step: int | None = None) -> Replay:
    """Return the state of a run; with *before_step*, its state when that step was about to call the model.

    Raises `ErasedError`, `StorageError`, or `RunStateError` if the run has no such step.
    """
    found = _empty(journal)
    for step in read_steps(journal):
        found.apply(step)
        if before_step is not None and step.step == before_step and isinstance(step.entry, ModelRequested):
            return found
    if before_step is not None:
        run_id, last = journal.run.start.run_id, found.state.step
        raise RunStateError(f"run {run_id} has no step {before_step}; choose one from 1 to {last}")
    return found


def replay_up_to(journal: StoredJournal, seq: int) -> Replay:
    """Return the state of a run after its entry *seq*. Raises as `replay`."""
    found = _empty(journal)
    for step in takewhile(lambda step: step.seq <= seq, read_steps(journal)):
        found.apply(step)
    return found


async def load_replay(
    store: Store, scope: AnyScope, run_id: str, journal: StoredJournal | None = None
) -> Replay | None:
    """Return the state of a run, read from its last snapshot on if that can be used; None if the run is unknown.

    A *journal* read so is kept. `UNREAD` stands for messages out of view. Raises `ErasedError`, `StorageError`.
    """
    journal = journal or await store.load(scope, run_id, from_snapshot=True)
    if journal is not None and journal.snapshot and journal.run.end is None:
        try:
            found = replay(journal)
            if not has_unread(found.view.shown):
                return found
        except DamagedDataError:
            pass
    if journal is not None and journal.snapshot:
        journal = await store.load(scope, run_id)
    return None if journal is None else replay(journal)


def request_entry(journal: StoredJournal, step: int) -> ModelRequested:
    """Return the first request of *step*. Raises `RunStateError` if the step has no request."""
    for found in read_steps(journal):
        if found.step == step and isinstance(found.entry, ModelRequested):
            return found.entry
    raise RunStateError(f"run {journal.run.start.run_id} has no step {step}")


def started_of(journal: StoredJournal) -> Started:
    """Return what the run was given. Raises `ErasedError`, `StorageError`."""
    first = next(read_steps(journal), None)
    if first is None or not isinstance(first.entry, Started):
        run_id = journal.run.start.run_id
        raise DamagedDataError(f"the journal of run {run_id} is damaged: it does not begin with a start")
    return first.entry


def receipt_of(journal: StoredJournal) -> StopReceipt | None:
    """Return the receipt of a stop, which the data policy does not erase; None if the run was not stopped."""
    ends = [step.entry for step in read_steps(journal, strict=False) if isinstance(step.entry, Ended)]
    return ends[-1].receipt if ends else None


def requests(journal: StoredJournal) -> Iterator[tuple[int, str, ModelRequest]]:
    """Yield every request that a run sent in its turns, in order: the step, the model's id, the request.

    Requests outside the conversation (`RunContext.ask`, summaries) are left out. Raises as `replay`.
    """
    found = _empty(journal)
    for step in read_steps(journal):
        found.apply(step)
        if isinstance(step.entry, ModelRequested) and not step.entry.request.forked:
            assert found.request is not None
            yield step.step, found.request.model, found.request.request


def _empty(journal: StoredJournal) -> Replay:
    if not journal.entries:
        raise DamagedDataError(f"run {journal.run.start.run_id} has no journal")
    found = Replay(journal.run, journal.texts, journal.contents, journal.history)
    if journal.snapshot:
        found.snapshot_at, found._earlier = journal.snapshot, journal.earlier
    return found
