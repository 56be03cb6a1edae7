"""Journal entries: one frozen class per kind, with its codec. No other module knows an entry's field names.

An entry is stored in two parts. The structure (numbers, names, ids) stays for good. The content (text, arguments,
results) is what the data policy may erase.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any, ClassVar, Literal

from ...context_state import ContextState
from ...errors import DamagedDataError, ErasedError
from ...events import StopReceipt
from ...messages import AssistantMessage, ForcedTool, Media, Message, ToolCall, ToolChoice, ToolSpec
from ...operations import OperationState
from ...providers.base import ModelRequest, OutputSchema
from ...records import record
from ...storage.codec import decode_message, encode_message
from ...storage.types import EntryKind, StoredEntry
from ...token_engine.edits import Edit, decode_edit, encode_edit
from ..outcome import Outcome
from ..plain import plain
from ..run_state import RunState
from .data_policy import shared_message
from .snapshot import Snapshot

Json = dict[str, Any]
EndStatus = Literal["completed", "limited", "failed", "cancelled"]


@record(kw_only=True)
class Position:
    """A run's position. Values that did not change since the previous entry are not stored, and are read as None."""

    state: RunState
    index: int
    """The content index."""
    attempts: int
    """The number of model attempts so far."""
    bill: float | None = None
    failures: int = 0
    """See `TokenEngine.failures`."""
    commands: int | None = None
    """The number of the last command that the run has processed."""
    text: str | None = None
    """The model's last text, if it does not follow from the messages."""
    agent_state: str | None = None
    """The agent's own state as JSON text; "" if it was set to None."""
    background: Sequence[Sequence[Any]] | None = None
    """The background calls whose results are not part of the conversation; see `BackgroundCalls.rows`."""

    def write(self, body: Json, content: Json, known: Json) -> None:
        state = self.state
        body["position"] = [
            state.step,
            state.iteration,
            state.has_tool_calls,
            state.errored_tools,
            state.disabled_tools,
            state.limit,
            state.last_step,
            self.index,
            self.attempts,
        ]
        if state.tool_choice != "auto":
            body["choice"] = _choice_json(state.tool_choice)
        if state.prompt:
            content["next_prompt"] = state.prompt
        for name, value, part in (
            ("bill", self.bill, body),
            ("commands", self.commands, body),
            ("text", self.text, content),
            ("agent_state", self.agent_state, content),
            ("background", self.background, content),
        ):
            if value is not None and known.get(name) != value:
                part[name] = known[name] = value
        if self.failures:
            body["failures"] = self.failures

    @classmethod
    def read(cls, body: Json, content: Json) -> Position:
        step, iteration, has_calls, errored, disabled, limit, last_step, index, attempts = body["position"]
        state = RunState(
            step=step,
            iteration=iteration,
            has_tool_calls=has_calls,
            errored_tools=tuple(errored),
            disabled_tools=tuple(disabled),
            limit=limit or None,
            last_step=last_step,
            prompt=content.get("next_prompt", ""),
            tool_choice=_choice(body.get("choice", "auto")),
        )
        return cls(
            state=state,
            index=index,
            attempts=attempts,
            bill=body.get("bill"),
            failures=body.get("failures", 0),
            commands=body.get("commands"),
            text=content.get("text"),
            agent_state=content.get("agent_state"),
            background=content.get("background"),
        )


@record(kw_only=True)
class Started:
    """The run has started; what it was given."""

    kind: ClassVar[EntryKind] = "started"
    model: str | None = None
    """`provider:name`; None if the run was refused and its chat names no model."""
    policy: list[Any]
    """The data policy, as `policy_form` writes it."""
    limits: dict[str, Any]
    """The values that differ from the defaults, as `limits_form` writes them."""
    before: Sequence[str]
    """Ids of the texts of the messages before the user's."""
    follows: Sequence[Any] | None = None
    """For a turn of a conversation: the run id of the turn before it, the index in `before` at which that turn's
    history begins, and the number of its messages. They are not written again."""
    media: str | None = None
    """Id of the text of a user message with the media that belong to the user's message."""
    skipped: Sequence[int] = ()
    """Indexes in `before` that the next run of the conversation does not have."""
    context: Sequence[Any] | None = None
    """The context state that the run continues; see `pack_context`."""
    chatbot: str | None = None
    without_tools: bool = False
    """Whether the agent may call no tools."""
    without_memory: bool = False
    without_personalization: bool = False
    """Whether the user has switched them off."""
    traceparent: str = ""
    payer: str = ""
    """The tree whose account pays, for a run that works for a call of another tree."""
    forked_from: str | None = None
    message: str = ""
    system_prompt: str | None = None
    personalization: str = ""
    memories: Sequence[str] = ()
    project_rules: str = ""
    attachments: Sequence[Sequence[str]] = ()
    project_attachments: Sequence[Sequence[str]] = ()
    few_shot: Sequence[Sequence[Any]] = ()
    """The examples, for a turn that is asked again: each key with ids of texts. `before` has those of the model."""
    budget: Sequence[Any] | None = None
    """Tokens, and money as text: what the run was allowed to spend."""
    process: str = ""
    """The process that started the run, for people."""

    def write(self, body: Json, content: Json) -> None:
        for name in ("model", "policy", "limits", "before", "follows", "skipped", "context", "chatbot"):
            _put(body, name, getattr(self, name))
        for name in ("few_shot", "budget", "process"):
            _put(body, name, getattr(self, name))
        if self.media is not None:
            body["media"] = self.media
        if self.traceparent:
            body["traceparent"] = self.traceparent
        if self.payer:
            body["payer"] = self.payer
        _put(body, "without_tools", self.without_tools)
        if self.without_memory:
            body["without_memory"] = True
        if self.without_personalization:
            body["without_personalization"] = True
        _put(body, "forked_from", self.forked_from)
        for name in ("message", "system_prompt", "personalization", "memories", "project_rules", "attachments"):
            _put(content, name, getattr(self, name))
        if self.project_attachments:
            content["project_attachments"] = self.project_attachments

    @classmethod
    def read(cls, body: Json, content: Json) -> Started:
        names = [item.name for item in dataclasses.fields(cls)]
        return cls(
            **{
                "before": (),
                "limits": {},
                **{name: value for name, value in {**body, **content}.items() if name in names},
            }
        )


@record(kw_only=True)
class RequestRecord:
    """An attempt at a model, recorded before it is sent."""

    attempt: str
    """The attempt's part of the usage id."""
    usage_id: str
    model: str
    """`provider:name` of the model that is called."""
    max_output: int | None
    reserved: tuple[int, Decimal | None] | None = None
    """Tokens and US dollars reserved for it; None without a budget."""
    name: str = ""
    """The model named in the request, where it differs."""
    forked: bool = False
    """Whether it was copied from the run that this one is a fork of: it was not sent here."""

    def write(self) -> list[Any]:
        reserved = self.reserved and [self.reserved[0], None if self.reserved[1] is None else str(self.reserved[1])]
        return [self.attempt, self.usage_id, self.model, self.max_output, reserved, self.name, self.forked]

    @classmethod
    def read(cls, row: list[Any]) -> RequestRecord:
        attempt, usage_id, model, most, reserved, name, forked = row
        if reserved is not None:
            reserved = (reserved[0], None if reserved[1] is None else Decimal(reserved[1]))
        return cls(
            attempt=attempt,
            usage_id=usage_id,
            model=model,
            max_output=most,
            reserved=reserved,
            name=name,
            forked=forked,
        )


@record(kw_only=True)
class ModelRequested:
    """A request of a turn is about to be sent. What follows from the run or was recorded before is left out."""

    kind: ClassVar[EntryKind] = "model_requested"
    position: Position
    request: RequestRecord
    choice: ToolChoice
    parallel: bool
    tools: Literal[True] | Sequence[str]
    """Ids of the request's tools; True for the run's own."""
    system: str | None = None
    """Id of the request's system prompt; None for the run's own."""
    run_system: str | None = None
    """Id of the run's system prompt, if it changed."""
    run_tools: Sequence[str] | None = None
    """Ids of the run's tools, if they changed."""
    breakpoints: Sequence[int] | None = None
    cache_key: str | None = None
    """If it changed."""
    schema: Literal[True] | str | None = None
    """Id of the request's output schema; True if it is that of the last request that had one."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Request settings that a hook has set."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[str] | None = None
    """The encoded messages of a request that a hook has given its own."""
    prompt: str | None = None
    """Text for the model after the conversation, in this request alone."""
    after: str | None = None
    """The class of the error that the previous attempt ended with."""
    after_text: str | None = None
    """Its message."""
    calls_of: Mapping[str, int] | None = None
    """For a fork: the calls so far, by tool."""

    def write(self, body: Json, content: Json) -> None:
        body["request"] = self.request.write()
        body["asks"] = [_choice_json(self.choice), self.parallel, self.tools]
        for name in _OPTIONAL:
            if (value := getattr(self, name)) is not None:
                body[name] = value
        for name in ("cache_key", "messages", "prompt", "after_text"):
            if (value := getattr(self, name)) is not None:
                content[name] = value
        _put(content, "settings", self.settings)
        _put(content, "extra", self.extra)

    @classmethod
    def read(cls, body: Json, content: Json) -> ModelRequested:
        choice, parallel, tools = body["asks"]
        return cls(
            position=Position.read(body, content),
            request=RequestRecord.read(body["request"]),
            choice=_choice(choice),
            parallel=parallel,
            tools=tools,
            **{name: body.get(name) for name in _OPTIONAL},
            **{n: content.get(n) for n in ("cache_key", "messages", "prompt", "after_text")},
            settings=content.get("settings", {}),
            extra=content.get("extra", {}),
        )


@record(kw_only=True)
class SideRequested:
    """A request outside the conversation is about to be sent: a question of a hook, or a summary."""

    kind: ClassVar[EntryKind] = "side_requested"
    request: RequestRecord

    def write(self, body: Json, content: Json) -> None:
        body["request"] = self.request.write()

    @classmethod
    def read(cls, body: Json, _content: Json) -> SideRequested:
        return cls(request=RequestRecord.read(body["request"]))


@record(kw_only=True)
class SideAnswered:
    """A question outside the conversation has its answer. What runs again after a crash gets this answer again."""

    kind: ClassVar[EntryKind] = "side_answered"
    question: str
    """A digest of the question."""
    answer: str
    caller: str = ""
    """The key of the tool call that asked; empty for a hook."""

    def write(self, body: Json, content: Json) -> None:
        body["question"] = self.question
        _put(body, "caller", self.caller)
        content["answer"] = self.answer

    @classmethod
    def read(cls, body: Json, content: Json) -> SideAnswered:
        return cls(question=body["question"], answer=content.get("answer", ""), caller=body.get("caller", ""))


@record(kw_only=True)
class ModelAnswered:
    """The answer of a turn, recorded before any of its calls runs. The agent's own turn has no request before it."""

    kind: ClassVar[EntryKind] = "model_answered"
    position: Position
    has_message: bool
    """Whether the answer is part of the conversation: an empty one is not."""
    call_count: int
    calls: Sequence[ToolCall] | None = None
    """The calls to run, where they are not those of the message."""
    finish: bool = False
    """Whether the agent has ended the run with this answer."""
    finish_text: str | None = None
    run_system: str | None = None
    """For the agent's own turn: see `ModelRequested.run_system`."""
    run_tools: Sequence[str] | None = None

    def write(self, body: Json, content: Json) -> None:
        body["answer"] = [self.has_message, self.call_count, self.finish]
        if self.run_tools is not None:
            body["run_system"], body["run_tools"] = self.run_system, self.run_tools
        if self.calls is not None:
            content["calls"] = [[call.id, call.name, call.arguments, call.signature] for call in self.calls]
        if self.finish_text is not None:
            content["finish_text"] = self.finish_text

    @classmethod
    def read(cls, body: Json, content: Json) -> ModelAnswered:
        has_message, count, finish = body["answer"]
        calls = content.get("calls")
        return cls(
            position=Position.read(body, content),
            has_message=has_message,
            call_count=count,
            calls=None if calls is None else tuple(ToolCall(*call) for call in calls),
            finish=finish,
            finish_text=content.get("finish_text"),
            run_system=body.get("run_system"),
            run_tools=body.get("run_tools"),
        )


@record(kw_only=True)
class CallsChanged:
    """Calls of the turn began, wait or ended before the others."""

    kind: ClassVar[EntryKind] = "calls_changed"

    def write(self, body: Json, content: Json) -> None:
        """Write nothing: the transitions are part of every entry."""

    @classmethod
    def read(cls, _body: Json, _content: Json) -> CallsChanged:
        return cls()


@record(kw_only=True)
class Suspended:
    """Only calls that wait are left."""

    kind: ClassVar[EntryKind] = "suspended"
    position: Position
    finish: bool = False
    """Whether no turn is open: the run would have finished, but for its background calls."""
    finish_text: str | None = None

    def write(self, body: Json, content: Json) -> None:
        _put(body, "finish", self.finish)
        if self.finish_text is not None:
            content["finish_text"] = self.finish_text

    @classmethod
    def read(cls, body: Json, content: Json) -> Suspended:
        position, text = Position.read(body, content), content.get("finish_text")
        return cls(position=position, finish=body.get("finish", False), finish_text=text)


@record(kw_only=True)
class SummaryReady:
    """A summary was made and is not in use yet."""

    kind: ClassVar[EntryKind] = "summary_ready"
    ready: Sequence[Edit]

    def write(self, body: Json, content: Json) -> None:
        content["ready"] = [encode_edit(edit) for edit in self.ready]

    @classmethod
    def read(cls, _body: Json, content: Json) -> SummaryReady:
        return cls(ready=[decode_edit(written) for written in content.get("ready", ())])


@record(kw_only=True)
class Resumed:
    """A process has resumed the run."""

    kind: ClassVar[EntryKind] = "resumed"
    sure: bool = True
    """Whether the previous process has certainly stopped."""
    process: str = ""
    """The process that has resumed it, for people."""

    def write(self, body: Json, content: Json) -> None:
        body["sure"] = self.sure
        _put(body, "process", self.process)

    @classmethod
    def read(cls, body: Json, _content: Json) -> Resumed:
        return cls(sure=body["sure"], process=body.get("process", ""))


@record(kw_only=True)
class UsageBooked:
    """Usage alone. A resumed run continues from the entry before it."""

    kind: ClassVar[EntryKind] = "usage_booked"

    def write(self, body: Json, content: Json) -> None:
        """Write nothing: the usage records have rows of their own."""

    @classmethod
    def read(cls, _body: Json, _content: Json) -> UsageBooked:
        return cls()


@record(kw_only=True)
class Ended:
    """The run has ended. Only usage may follow."""

    kind: ClassVar[EntryKind] = "ended"
    status: EndStatus
    position: Position | None = None
    """None for a run that was ended without being replayed."""
    error: str | None = None
    receipt: StopReceipt | None = None
    context: list[Any] | None = None
    """The context state for the next run of the conversation; see `pack_context`."""

    def write(self, body: Json, content: Json) -> None:
        body["status"] = self.status
        if self.receipt is not None:
            body["receipt"] = dataclasses.asdict(self.receipt)
        if self.error is not None:
            content["error"] = self.error
        if self.context is not None:
            content["context"] = self.context

    @classmethod
    def read(cls, body: Json, content: Json) -> Ended:
        receipt = body.get("receipt")
        return cls(
            status=body["status"],
            position=Position.read(body, content) if "position" in body else None,
            error=content.get("error"),
            receipt=None if receipt is None else StopReceipt.restored(receipt),
            context=content.get("context"),
        )


JournalEntry = (
    Started
    | ModelRequested
    | SideRequested
    | SideAnswered
    | ModelAnswered
    | CallsChanged
    | Suspended
    | SummaryReady
    | Resumed
    | UsageBooked
    | Ended
)
"""Every kind of entry."""
_KINDS: dict[str, Any] = {
    entry.kind: entry
    for entry in (
        Started,
        ModelRequested,
        SideRequested,
        SideAnswered,
        ModelAnswered,
        CallsChanged,
        Suspended,
        SummaryReady,
        Resumed,
        UsageBooked,
        Ended,
    )
}


@record(frozen=False)
class Common:
    """Fields that any entry may have in addition to its own."""

    log: list[int | list[str]] = field(default_factory=list)
    """How the conversation changed, in order: a number of appended messages, or the ids of texts that replace all
    messages but the last one."""
    texts: list[str] = field(default_factory=list)
    """Ids of shared texts that the entry refers to first."""
    counts: dict[str, int] = field(default_factory=dict)
    """Tool calls so far, by agent path."""
    transitions: list[tuple[str, OperationState]] = field(default_factory=list)
    """Operations by key, and the states that they entered."""
    data: dict[str, Any] = field(default_factory=dict)
    """Structured results, by tool."""
    carried: int | None = None
    """The number of examples before the conversation, in the entry from which the view has the edits of the context in
    entry 0. They are not written again."""
    ending: Sequence[str] = ()
    """Keys of calls whose results end the run."""
    edits: Sequence[Edit] = ()
    """Edits of the view, after those."""
    edited: tuple[int, ...] = ()
    """What the edits changed: results reduced, messages summarized, messages left out, tokens before and after."""
    snapshot: Snapshot | None = None
    """Of a request that repeats what the entries before it recorded."""

    def write(self, body: Json, content: Json) -> None:
        if self.log and not (len(self.log) == 1 and type(self.log[0]) is int):
            body["log"] = self.log
        if self.texts:
            body["texts"] = self.texts
        if self.counts:
            body["counts"] = self.counts
        if self.transitions:
            body["transitions"] = self.transitions
        if self.ending:
            body["ending"] = self.ending
        if self.carried is not None:
            body["carried"] = self.carried
        if self.edited:
            body["edited"] = self.edited
        if self.data:
            content["data"] = {name: plain(value) for name, value in self.data.items()}
        if self.edits:
            content["edits"] = [encode_edit(edit) for edit in self.edits]

    @classmethod
    def read(cls, body: Json, content: Json, messages: int) -> Common:
        return cls(
            log=body.get("log", [messages]),
            texts=body.get("texts", []),
            counts=body.get("counts", {}),
            transitions=[(key, state) for key, state in body.get("transitions", ())],
            data=content.get("data", {}),
            carried=body.get("carried"),
            ending=body.get("ending", ()),
            edits=[decode_edit(edit) for edit in content.get("edits", ())],
            edited=tuple(body.get("edited", ())),
            snapshot=Snapshot.read(body.get("snapshot")),
        )


def encode(entry: JournalEntry, common: Common, known: Json) -> tuple[Json, Json | None]:
    """Return the structure and the content of an entry, for the store.

    A value of its position that equals the *known* one, which was recorded last, is left out; the others become known.
    """
    # First in the text: by it the store finds the entry.
    body: Json = {} if common.snapshot is None else {"snapshot": common.snapshot.write()}
    content: Json = {}
    entry.write(body, content)
    if (position := getattr(entry, "position", None)) is not None:
        position.write(body, content, known)
    common.write(body, content)
    return body, content or None


def decode(stored: StoredEntry, run_id: str, *, strict: bool = True) -> tuple[JournalEntry, Common]:
    """Return a stored entry; if not *strict*, an erased one without its content.

    Raises `ErasedError` if the content was erased, `DamagedDataError` if the entry is damaged.
    """
    if stored.erased and strict:
        raise ErasedError(
            f"run {run_id}: its content was erased as its data policy demands; it can be listed, but not resumed, "
            "replayed or forked"
        )
    content = stored.content or {}
    try:
        common = Common.read(stored.body, content, len(stored.messages))
        return _KINDS[stored.kind].read(stored.body, content), common
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        where = f"run {run_id}, entry {stored.seq} ({stored.kind})"
        raise DamagedDataError(f"the journal of {where} is damaged: {error!r}; stop or erase the run") from error


# -- parts of entries ------------------------------------------------------------------------------------------------

_OPTIONAL = ("system", "run_system", "run_tools", "schema", "breakpoints", "calls_of", "after")
"""Fields of a request's structure that are stored if they are set."""
_SETTINGS = (
    "effort",
    "temperature",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "service_tier",
    "logprobs",
    "headers",
)
"""Parts of a request that only a hook sets."""


def request_settings(request: ModelRequest) -> Json:
    """Return the settings of *request* that a hook has set, as JSON."""
    values = {name: getattr(request, name) for name in _SETTINGS}
    return {
        name: plain(value) for name, value in values.items() if value not in (None, "", (), {}) and value is not False
    }


def settings_of(written: Mapping[str, Any]) -> Json:
    """Return the keyword arguments of `ModelRequest` that `request_settings` wrote."""
    found = dict(written)
    if "stop" in found:
        found["stop"] = tuple(found["stop"])
    return found


def spec_text(spec: ToolSpec) -> str:
    """Return a tool's definition as text, which runs share."""
    return json.dumps([spec.name, spec.description, spec.parameters], ensure_ascii=False)


def spec_of(text: str) -> ToolSpec:
    """Return the tool's definition that `spec_text` wrote."""
    return ToolSpec(*json.loads(text))


def schema_text(schema: OutputSchema) -> str:
    """Return an output schema as text, which runs share."""
    return json.dumps([schema.name, schema.schema, schema.strict], ensure_ascii=False)


def schema_of(text: str) -> OutputSchema:
    """Return the output schema that `schema_text` wrote."""
    return OutputSchema(*json.loads(text))


def message_texts(messages: Sequence[Message], contents: dict[str, str]) -> list[str]:
    """Return the encoded messages. The contents of their media are added to *contents*, by digest."""
    return [encode_message(message if message.stored else shared_message(message), contents) for message in messages]


def message_of(text: str, contents: Mapping[str, str]) -> Message:
    """Return an encoded message, with the *contents* of its media."""
    return decode_message(text, contents)


def pack_context(
    context: ContextState,
    text_ids: Callable[[Sequence[str]], list[str]],
    earlier: ContextState | None = None,
    packed: Sequence[Any] | None = None,
) -> list[Any]:
    """Return a context state as JSON. *text_ids* stores its edits as texts, and returns their ids.

    If the edits continue those of an *earlier* state, which is stored as *packed*, only the new ones are written,
    together with the edits of smaller texts before them: each text has more than twice the edits of the next one, so
    their number grows with the logarithm of the edits.
    """
    keys: list[str] = []
    counts: list[int] = []
    new = len(context.edits)
    if earlier is not None and packed is not None and context.edits[: len(earlier.edits)] == earlier.edits:
        keys, counts, new = [*packed[0]], [*packed[-1]], new - len(earlier.edits)
    while new and counts and counts[-1] <= 2 * new:
        keys.pop()
        new += counts.pop()
    if new:
        keys += text_ids([json.dumps(context.edits[-new:])])
        counts.append(new)
    ready = text_ids([json.dumps(context.prepared)]) if context.prepared else []
    counted = context.failures + 1 if context.failures else context.counted  # the previous version reads it as true
    numbers = [context.sent_at, context.model, context.bill, context.omitted, context.anchor, counted]
    return [keys, ready, *numbers, counts]


def unpack_context(written: Sequence[Any], texts: Mapping[str, str]) -> ContextState:
    """Return the context state that `pack_context` wrote."""
    *logs, at, model, bill, omitted, anchor, counted, _ = written
    edits, ready = ([edit for key in log for edit in json.loads(texts[key])] for log in logs)
    return ContextState(edits, ready, at, model, bill, omitted, anchor, bool(counted), max(counted - 1, 0))


_NOT_WRITTEN = ("call", "ends_run", "replaced")
"""Fields of an outcome that its JSON lacks: the operation has the call, `Common.ending` the results that end a run."""


def outcome_json(outcome: Outcome) -> Json:
    """Return an outcome as JSON, without its call and without defaults."""
    fields = [item for item in dataclasses.fields(outcome) if item.name not in _NOT_WRITTEN]
    kept = {item.name: getattr(outcome, item.name) for item in fields}
    kept["data"] = plain(kept["data"])
    if outcome.media:
        kept["media"] = [plain(media) for media in outcome.media]
    usual = {item.name: item.default for item in fields}
    return {name: value for name, value in kept.items() if value != usual[name] and value != []}


def outcome_of(call: ToolCall, written: Mapping[str, Any]) -> Outcome:
    """Return the outcome of *call* that `outcome_json` wrote. Fields that this version does not know are left out."""
    known = {item.name: written[item.name] for item in dataclasses.fields(Outcome) if item.name in written}
    media = tuple([Media(**form) for form in written.get("media", ())])
    return Outcome(call, **{**known, "media": media})


def empty_answer() -> AssistantMessage:
    """Return the answer of a turn whose message is not part of the conversation."""
    return AssistantMessage(())


def _put(target: Json, name: str, value: Any) -> None:
    if value:
        target[name] = value


def _choice_json(choice: ToolChoice) -> str | dict[str, str]:
    return {"tool": choice.name} if isinstance(choice, ForcedTool) else choice


def _choice(written: Any) -> ToolChoice:
    return ForcedTool(written["tool"]) if isinstance(written, dict) else written
