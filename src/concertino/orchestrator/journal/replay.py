"""The record of a run: a fold over its journal. Resuming, replaying and forking all begin here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from ...errors import ConfigurationError, ErasedError, RunStateError, StorageError
from ...messages import AssistantMessage, ForcedTool, Message, ToolCall, ToolChoice, ToolSpec
from ...providers.base import ModelRequest, OutputSchema
from ...storage.codec import decode_message
from ...storage.types import StoredEntry, StoredJournal, StoredRun
from ...token_engine.edits import Edit, Summarize, decode_edit
from ...token_engine.view import View, unmeasured_view
from ...usage import UsageRecord
from ..outcome import Finish, GoOn, Outcome, StepOutcome
from ..plain import plain
from ..state import RunState

SETTINGS = ("output_schema", "effort", "temperature", "stop")
"""The parts of a request that an agent may set in `build_request`, and that are on record only if they are set."""
Stage = Literal["begun", "asking", "turn", "ended"]


@dataclass(slots=True)
class Attempt:
    """An attempt at a model that had been announced; until its usage is booked, nobody knows what became of it."""

    number: str
    usage_id: str
    model: str
    tokens: int | None = None
    """What was reserved for it; None: nothing."""
    money: Decimal | None = None
    prompt: int | None = None
    """What of the reserved tokens was for the prompt; None: that is not on record."""
    request: ModelRequest | None = None
    """None: one beside the conversation, which is not on record."""


@dataclass(slots=True)
class OpenRequest:
    """A request that was about to be sent."""

    request: ModelRequest
    model: str
    """The id of the model that it goes to."""
    own_messages: bool
    """Whether the agent had put messages of its own into it."""


@dataclass(slots=True)
class OpenTurn:
    """A turn whose answer is on record, and whose calls may have begun."""

    message: AssistantMessage
    calls: tuple[ToolCall, ...]
    outcome: StepOutcome
    """How the step ends, as far as the answer alone decides it."""
    begun: set[int] = field(default_factory=set)
    """`once` calls that may have begun, by place."""
    waiting: set[int] = field(default_factory=set)
    """Calls that wait for somebody outside."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    """Calls that surely ended."""
    unsure: bool = False
    """Whether a process that may not be dead had the run since: it may still begin what it was about to begin."""
    at: int = 0
    """How many messages the run had added before the answer."""


@dataclass(slots=True)
class Record:
    """Where a run stands, as its journal tells it."""

    run: StoredRun
    begun: dict[str, Any]
    """What the run was given: numbers, names and ids."""
    given: dict[str, Any]
    """What the run was given: content."""
    texts: dict[str, str]
    before: tuple[Message, ...] = ()
    """What came before the run: examples, the history, its summary."""
    view: View = field(default_factory=unmeasured_view)
    """What the model sees of the conversation."""
    added: list[Message] = field(default_factory=list)
    """What this run added to the conversation."""
    replaced: bool = False
    """Whether a hook has replaced the conversation."""
    ready: list[Edit] = field(default_factory=list)
    """Summaries that were made and not put in place yet."""
    cache_key: str = ""
    rent: tuple[float, float] = (0.0, 0.0)
    """See `TokenEngine.rent`."""
    state: RunState = field(default_factory=RunState)
    index: int = 0
    attempts: int = 0
    agent_state: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    stage: Stage = "begun"
    request: ModelRequest | None = None
    """The request that was about to be sent, in stage `asking`."""
    model: str = ""
    """The id of the model that it goes to."""
    own_messages: bool = False
    decoded: dict[str, Message] = field(default_factory=dict)
    """The agent's own messages, by what is written of them: most of them are in many requests."""
    turn: OpenTurn | None = None
    in_flight: dict[str, Attempt] = field(default_factory=dict)
    commands: int = 0
    usage: list[UsageRecord] = field(default_factory=list)
    entries: int = 0
    error: str | None = None
    receipt: dict[str, Any] | None = None

    @property
    def messages(self) -> list[Message]:
        """The conversation, all of it."""
        return self.view.record

    @property
    def edits(self) -> list[Edit]:
        """How what was sent differs from the conversation."""
        return self.view.edits

    def take(self, entry: StoredEntry) -> None:
        """Fold *entry* in. Raises `ErasedError` if what it held is gone, `StorageError` if it makes no sense."""
        if entry.erased:
            raise ErasedError(
                f"run {self.run.start.run_id}: what it held was erased, as its data policy wants it; it can be listed, "
                "and neither resumed, replayed nor forked"
            )
        try:
            self._take(entry, entry.held or {})
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, ConfigurationError) as error:
            where = f"run {self.run.start.run_id}, entry {entry.seq} ({entry.kind})"
            raise StorageError(f"the journal of {where} cannot be read: {error!r}") from error
        self.entries = entry.seq + 1

    def _take(self, entry: StoredEntry, content: dict[str, Any]) -> None:
        body = entry.body
        at = len(self.added)
        self._take_messages(entry)
        for record in entry.usage:
            self.usage.append(record)
            self.in_flight.pop(record.id, None)
        self.state.tool_calls.update(body.get("counts", {}))
        self.state.calls_of.update(body.get("calls_of", {}))
        self.data.update(content.get("data", {}))
        self.agent_state = content.get("agent", self.agent_state)
        self.state.text = content.get("text", self.state.text)
        self._take_edits(content)
        self.commands = body.get("commands", self.commands)
        self.rent = tuple(body.get("rent", self.rent))
        self._take_state(body)
        match entry.kind:
            case "asking":
                self._take_asking(body, content)
            case "answered":
                self._take_answer(entry, content, at)
            case "outcome" | "waiting" | "suspended":
                self._take_outcomes(body, content)
            case "ended":
                self.stage = "ended"
                self.error = content.get("error")
                self.receipt = body.get("receipt")
            case "resumed":
                if self.turn is not None and body.get("unsure"):
                    self.turn.unsure = True
            case "begun" | "noted":
                pass

    def _take_edits(self, content: dict[str, Any]) -> None:
        self.view.settle()
        for edit in map(decode_edit, content.get("edits", ())):
            self.view.apply(edit)
            if isinstance(edit, Summarize):
                self.ready = []
        if "ready" in content:
            self.ready = [decode_edit(written) for written in content["ready"]]

    def _take_messages(self, entry: StoredEntry) -> None:
        if entry.kind == "begun":
            self.before = tuple(decode_message(self.texts[key]) for key in entry.body.get("before", ()))
            self.view = unmeasured_view(self.before)
        rows = iter([stored.message for stored in entry.messages])
        for operation in entry.body.get("operations", [len(entry.messages)]):
            if isinstance(operation, int):
                for _ in range(operation):
                    message = next(rows)
                    self.view.append(message)
                    self.added.append(message)
                    if isinstance(message, AssistantMessage):
                        self.state.text = message.text
            else:
                replaced = [decode_message(self.texts[key]) for key in operation]
                self.view, self.replaced = unmeasured_view([*replaced, self.messages[-1]]), True

    def _take_state(self, body: dict[str, Any]) -> None:
        if (kept := body.get("state")) is None:
            return
        for name, value in kept.items():
            setattr(self.state, name, tuple(value) if isinstance(value, list) else value)
        self.state.tool_choice = _choice(body.get("choice", "auto"))
        self.index, self.attempts = body["index"], body["attempts"]

    def _take_asking(self, body: dict[str, Any], content: dict[str, Any]) -> None:
        if "system" in body:
            self.system = self.texts[body["system"]]
        if "tools" in body:
            self.tools = tuple(_spec(self.texts[key]) for key in body["tools"])
        self.cache_key = content.get("cache_key", self.cache_key)
        asked = body["request"]
        reserved = asked.get("reserved")
        attempt = Attempt(asked["attempt"], asked["usage"], asked["model"])
        if reserved is not None:
            attempt.tokens, attempt.money = reserved[0], None if reserved[1] is None else Decimal(reserved[1])
            attempt.prompt = None if asked["max"] is None else reserved[0] - asked["max"]
        if not asked.get("forked"):  # where the request was copied from, it was sent
            self.in_flight[attempt.usage_id] = attempt
        if asked.get("side"):
            self.attempts = max(self.attempts, int(attempt.number))
            return
        self.stage, self.turn = "asking", None
        self.model, self.own_messages = asked["model"], "messages" in content
        self.request = attempt.request = self._request(asked, content)

    def _request(self, asked: dict[str, Any], content: dict[str, Any]) -> ModelRequest:
        """The request, as it was sent: a pure function of what is recorded up to here."""
        if "messages" in content:
            messages = [self._decoded(text) for text in content["messages"]]
        else:
            messages = list(self.view.shown)
        tools = self.tools if asked["tools"] is True else tuple(_spec(self.texts[key]) for key in asked["tools"])
        return ModelRequest(
            model=asked.get("name", asked["model"].partition(":")[2]),
            system=self.texts[asked["system"]] if "system" in asked else self.system,
            messages=messages,
            tools=tools,
            tool_choice=_choice(asked["choice"]),
            parallel_tool_calls=asked["parallel"],
            max_output_tokens=asked["max"],
            extra=content.get("extra", {}),
            marks=tuple(asked["marks"]) if "marks" in asked else None,
            cache_key=self.cache_key,
            **_settings(content.get("settings", {})),
        )

    def _decoded(self, text: str) -> Message:
        if text not in self.decoded:
            self.decoded[text] = decode_message(text)
        return self.decoded[text]

    def _take_answer(self, entry: StoredEntry, content: dict[str, Any], at: int) -> None:
        body = entry.body
        message = AssistantMessage(())
        if body["answer"]:
            message = next(m for m in self.added[at:] if isinstance(m, AssistantMessage))
        calls = message.tool_calls
        if "calls" in content:
            calls = tuple(ToolCall(*call) for call in content["calls"])
        calls = calls if body["calls"] else ()
        outcome: StepOutcome = Finish(content.get("finish")) if body.get("finish") else GoOn()
        for call in calls:
            self.state.calls_of[call.name] = self.state.calls_of.get(call.name, 0) + 1
        self.stage, self.request = "turn", None
        self.turn = OpenTurn(message, calls, outcome, set(body.get("begun", ())), at=at)

    def _take_outcomes(self, body: dict[str, Any], content: dict[str, Any]) -> None:
        assert self.turn is not None
        self.turn.begun.update(body.get("begun", ()))
        self.turn.waiting.update(body.get("waiting", ()))
        for place, kept in content.get("outcomes", {}).items():
            call = self.turn.calls[int(place)]
            self.turn.outcomes[int(place)] = Outcome(call, **kept)


def fold(journal: StoredJournal, before_step: int | None = None) -> Record:
    """The record of a run; with *before_step*, as it was when that step was about to ask its model.

    Raises `ErasedError`, `StorageError`, or `RunStateError` if the run has no such step.
    """
    record = _unfolded(journal)
    for entry in journal.entries:
        record.take(entry)
        if before_step is not None and _asks(entry, before_step):
            return record
    if before_step is not None:
        raise RunStateError(
            f"run {journal.run.start.run_id} has no step {before_step}; it has steps 1 to {record.state.step}"
        )
    return record


def _asks(entry: StoredEntry, step: int) -> bool:
    return entry.kind == "asking" and entry.step == step and not entry.body["request"].get("side")


def asking_entry(journal: StoredJournal, step: int) -> StoredEntry:
    """The first entry in which the run was about to ask its model in *step*."""
    for entry in journal.entries:
        if _asks(entry, step):
            return entry
    raise RunStateError(f"run {journal.run.start.run_id} has no step {step}")


def requests(journal: StoredJournal) -> Iterator[tuple[int, str, ModelRequest]]:
    """Replay: every request that a run sent, in order, from its journal alone: the step, the model's id, the request.

    Requests beside the conversation (`Run.ask`) are left out. Raises as `fold`.
    """
    record = _unfolded(journal)
    for entry in journal.entries:
        record.take(entry)
        if entry.kind != "asking":
            continue
        asked = entry.body["request"]
        if not asked.get("side") and not asked.get("forked"):  # where that was copied from, it was sent
            assert record.request is not None
            yield entry.step, record.model, record.request


def _unfolded(journal: StoredJournal) -> Record:
    if not journal.entries:
        raise StorageError(f"run {journal.run.start.run_id} has no journal: it was kept by an older concertino")
    first = journal.entries[0]
    return Record(journal.run, first.body, first.held or {}, journal.texts)


def chosen(choice: ToolChoice) -> str | dict[str, str]:
    """A tool choice as JSON."""
    return {"tool": choice.name} if isinstance(choice, ForcedTool) else choice


def _settings(kept: dict[str, Any]) -> dict[str, Any]:
    found = dict(kept)
    if "output_schema" in found:
        found["output_schema"] = OutputSchema(**found["output_schema"])
    if "stop" in found:
        found["stop"] = tuple(found["stop"])
    return found


def _choice(kept: Any) -> ToolChoice:
    return ForcedTool(kept["tool"]) if isinstance(kept, dict) else kept


def spec_text(spec: ToolSpec) -> str:
    """A tool's spec as text, for the journal."""
    return json.dumps([spec.name, spec.description, spec.parameters], ensure_ascii=False)


def _spec(text: str) -> ToolSpec:
    return ToolSpec(*json.loads(text))


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON, without its call."""
    fields = [field for field in dataclasses.fields(outcome) if field.name != "call"]
    kept = {field.name: getattr(outcome, field.name) for field in fields}
    kept["data"] = plain(kept["data"])
    usual = {field.name: field.default for field in fields}
    return {name: value for name, value in kept.items() if value != usual[name] and value != []}
