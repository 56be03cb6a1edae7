"""The data policy: what may remain of a run's content, one rule for every sink.

The store keeps what `held` and `kept_text` leave; observers (logs, traces, metrics) see what `shown` leaves. The run's
consumer and the model see everything. Names, ids, counts, usage and times are structure: they always remain.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, assert_never, get_args

from ... import events
from ...errors import ConfigurationError
from ...messages import AssistantMessage, Message, Part, SystemMessage, ToolCall, ToolMessage, UserMessage
from ...storage.types import EntryMessage
from ...waits import Wait

_REDACTED = "[redacted]"
_REDUCED = "[a result of {name}, used and not kept]"
_STEP = ("id", "name", "icon", "ended")  # what is structure in a tool's progress
_IN_PIECES = ("keep", "redact")  # no piece of a text has the hash of the whole


@dataclass(frozen=True, slots=True)
class KeepFor:
    """Keep it for *seconds* after the end of the run. Raises `ConfigurationError` unless that is above 0."""

    seconds: float

    def __post_init__(self) -> None:
        number = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not number or not 0 < self.seconds < math.inf:
            raise ConfigurationError(
                f"KeepFor(seconds={self.seconds!r:.80}): use seconds above 0; 'drop' keeps nothing, 'keep' all"
            )


_Word = Literal["keep", "redact", "hash", "drop"]
Treatment = _Word | KeepFor
"""`keep`: as it is. `redact`: a mark says that there was something. `hash`: a mark that is the same for the same text.
`drop`: not even a mark. `KeepFor`: as it is, for a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolData:
    """What may remain of a tool's calls. Raises `ConfigurationError` for what is no treatment.

    Providers take history back only in pairs of call and result: drop both sides or none; `redact` hides one of them.
    """

    arguments: Treatment = "keep"
    results: Treatment = "keep"
    """The results, whole and cut, the structured data, errors and progress."""

    def __post_init__(self) -> None:
        _check_treatments(self, "arguments", "results")
        if (self.arguments == "drop") != (self.results == "drop"):
            raise ConfigurationError(
                f"ToolData(arguments={self.arguments!r}, results={self.results!r}): drop both or none, since no "
                "provider takes a call without its result back; 'redact' hides one side and keeps the pair"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPolicy:
    """What may remain of a run. Raises `ConfigurationError`, naming the field, for what it cannot be."""

    text: Treatment = "keep"
    """What the user, the product and the model say: messages, steering, the answer, the run's error."""
    reasoning: Treatment = "keep"
    tools: Mapping[str, ToolData] = field(default_factory=dict, hash=False)
    """By tool name."""
    other_tools: ToolData = field(default_factory=ToolData)
    """For every tool that `tools` does not name."""
    keep_whole_results: bool = False
    """Store use-and-throw results whole instead of their summary, as research agents do."""
    hash_key: bytes = field(default=b"", repr=False)
    """For `hash`: a secret of 16 to 64 bytes, without which a short text could be guessed from its hash."""
    _plain: bool = field(init=False, repr=False, compare=False, default=True)

    def __post_init__(self) -> None:
        _check_treatments(self, "text", "reasoning")
        _check_fields(self)
        object.__setattr__(self, "tools", dict(self.tools))
        treatments = list(self._treatments())
        if (self.hash_key or "hash" in treatments) and not 16 <= len(self.hash_key) <= 64:
            raise ConfigurationError(
                "DataPolicy(hash_key=...): 'hash' needs 16 to 64 secret bytes; secrets.token_bytes(32) makes them"
            )
        object.__setattr__(self, "_plain", all(how == "keep" for how in treatments))

    def tool(self, name: str) -> ToolData:
        """What holds for the tool *name*."""
        return self.tools.get(name, self.other_tools)

    @property
    def keeps_everything(self) -> bool:
        """Whether nothing is changed, and nothing is kept for a time only."""
        return self._plain

    @property
    def erase_after(self) -> float | None:
        """For how many seconds after its end a run may hold all that it was: None, for ever; 0, not at all, since
        some of it may not remain; else the shortest `KeepFor`."""
        treatments = list(self._treatments())
        return _shortest(treatments) if all(map(_stays, treatments)) else 0.0

    def _treatments(self) -> Iterator[Treatment]:
        yield from (self.text, self.reasoning)  # this order is what `_stricter` reads
        for tool in (self.other_tools, *self.tools.values()):
            yield from (tool.arguments, tool.results)


def held(policy: DataPolicy, message: Message, tokens: int | None, progress: Sequence[dict[str, Any]]) -> EntryMessage:
    """*message* as a run needs it, with what may remain of it, and for how long.

    A use-and-throw result remains as its summary, unless the policy keeps whole results.
    """
    reduced = isinstance(message, ToolMessage) and message.retain == "once"
    if policy._plain and not reduced:
        return EntryMessage(message=message, tokens=tokens, progress=progress, keep=message)
    keep = _filtered(policy, message)
    if isinstance(keep, ToolMessage) and reduced and not policy.keep_whole_results:
        content = keep.summary or _REDUCED.format(name=keep.name)
        keep = replace(keep, content=content, whole=None, summary=None, retain="window")
    steps = all(map(_stays, _applying(policy, message)))
    time = None if keep is None else _shortest(_applying(policy, keep))
    later = None if keep is None or time is None else _filtered(_stricter(policy), keep)
    return EntryMessage(
        message=message,
        tokens=tokens,
        progress=progress,
        keep=keep,
        keep_progress=steps,
        keep_seconds=time,
        later=later,
    )


def text_lasts(policy: DataPolicy) -> float | None:
    """For how many seconds a run's task, answer and error may remain; None: for ever."""
    return policy.text.seconds if isinstance(policy.text, KeepFor) else None


def kept_text(policy: DataPolicy, text: str) -> str:
    """A run's task, answer or error as it may remain; "" for `drop`."""
    return _treated(policy.text, text, policy.hash_key)


def shown(policy: DataPolicy, event: events.RunEvent) -> events.RunEvent | None:  # noqa: C901, PLR0911, PLR0912 - a case each
    """*event* as an observer may see it, None for not at all. A policy that keeps everything gives the same object.

    An observer cannot forget, so `KeepFor` means `redact` here. Of what is dropped the structure remains: that a tool
    was called, but not with what. Structured data and progress are shown as they are or not at all. A delta of what is
    hashed or dropped is None.
    """
    if policy.keeps_everything and not (isinstance(event, events.RunEnded) and _waits_below(event.result)):
        return event
    policy = _stricter(policy)
    tool, key = policy.tool(getattr(event, "name", "")), policy.hash_key
    match event:
        case (
            events.StepStarted()
            | events.UsageRecorded()
            | events.Notice()
            | events.ContextEdited()
            | events.CacheMiss()
        ):
            return event
        case events.AttemptFailed():
            return replace(event, error=_treated(policy.text, event.error, key))
        case events.TextDelta() | events.ReasoningDelta():
            how = policy.text if isinstance(event, events.TextDelta) else policy.reasoning
            return replace(event, text=_treated(how, event.text, key)) if how in _IN_PIECES else None
        case events.ToolCallDelta():
            piece = _treated(tool.arguments, event.arguments, key)
            return replace(event, arguments=piece) if tool.arguments in _IN_PIECES else None
        case events.ToolStreamed():
            piece = _treated(tool.results, event.content, key)
            return replace(event, content=piece) if tool.results in _IN_PIECES else None
        case events.RunStarted():
            return replace(event, task=kept_text(policy, event.task))
        case events.Steered():
            return replace(event, text=kept_text(policy, event.text))
        case events.TurnCompleted(message=message):
            left = _filtered(policy, message)
            return replace(event, message=left if isinstance(left, AssistantMessage) else replace(message, parts=()))
        case events.ToolsSelected(calls=calls):
            bare = [ToolCall(c.id, c.name, _arguments(policy.tool(c.name).arguments, c.arguments, key)) for c in calls]
            return replace(event, calls=tuple(bare))
        case events.ToolStarted():
            return replace(event, arguments=_arguments(tool.arguments, event.arguments, key))
        case events.CallWaiting():
            note = _treated(tool.arguments, event.note, key)
            return replace(event, arguments=_arguments(tool.arguments, event.arguments, key), note=note)
        case events.ToolProgress():
            step = {name: event.step[name] for name in _STEP if name in event.step} | {"parts": []}
            return event if tool.results == "keep" else replace(event, step=step)
        case events.ToolDone():
            data = event.data if tool.results == "keep" else None
            return replace(event, content=_treated(tool.results, event.content, key), data=data)
        case events.ToolFailed():
            return replace(event, error=_treated(tool.results, event.error, key))
        case events.RunEnded():
            return replace(event, result=_shown_result(policy, event.result))
        case _:
            assert_never(event)


def _shown_result(policy: DataPolicy, result: events.RunResult) -> events.RunResult:
    return replace(
        result,
        text=kept_text(policy, result.text),
        error=None if result.error is None else kept_text(policy, result.error),
        data={name: data for name, data in result.data.items() if policy.tool(name).results == "keep"},
        messages=tuple(left for message in result.messages if (left := _filtered(policy, message))),
        # A sub-agent's policy may be stricter, and is not known here.
        waiting=tuple(_shown_wait(policy if w.run_id == result.run_id else NOTHING, w) for w in result.waiting),
        context=None,  # it has extracts and summaries in it
    )


def _waits_below(result: events.RunResult) -> bool:
    return any(wait.run_id != result.run_id for wait in result.waiting)


def _shown_wait(policy: DataPolicy, wait: Wait) -> Wait:
    how, key = policy.tool(wait.tool).arguments, policy.hash_key
    if how == "keep":
        return wait
    arguments, note = _arguments(how, wait.arguments, key), _treated(how, wait.note, key)
    return replace(wait, arguments=arguments, arguments_hash="", note=note)  # that hash has no key: it can be guessed


def _filtered(policy: DataPolicy, message: Message) -> Message | None:
    """What remains of *message*: the same object if all of it does, None if nothing does."""
    treatments, key = _applying(policy, message), policy.hash_key
    if all(map(_stays, treatments)):
        return message
    match message:
        case AssistantMessage(parts):
            left = tuple(p for how, part in zip(treatments, parts, strict=False) if (p := _left(how, part, key)))
            return replace(message, parts=left) if left else None
        case _ if "drop" in treatments:
            return None
        case ToolMessage(whole=whole):
            content = _treated(treatments[0], message.content if whole is None else whole, key)
            return replace(message, content=content, whole=None, summary=None, media=())
        case UserMessage():
            return replace(message, text=_treated(treatments[0], message.text, key), media=())
        case SystemMessage():
            return replace(message, text=kept_text(policy, message.text))


def _left(how: Treatment, part: Part, key: bytes) -> Part | None:
    """What remains of a part where not all of its message does: no signature, since that may speak for any part, and
    nothing in a provider's own form."""
    if how == "drop" or part.kind == "opaque" or (part.kind == "reasoning" and not part.text):
        return None
    if part.kind == "tool_call":
        return ToolCall(part.id, part.name, _arguments(how, part.arguments, key))
    return type(part)(_treated(how, part.text, key))


def _applying(policy: DataPolicy, message: Message) -> list[Treatment]:
    """Of each part of an assistant's message, then of what is sealed in it; of any other message, one.

    A signature on a call seals reasoning. A provider's own form may quote anything: what its tools found, were asked,
    or were told.
    """
    match message:
        case AssistantMessage(parts):
            each = [_of_part(policy, part) for part in parts]
            each += [policy.reasoning for call in message.tool_calls if call.signature]
            return each + (list(policy._treatments()) if any(map(_may_quote, parts)) else [])
        case ToolMessage():
            return [policy.tool(message.name).results]
        case UserMessage(tool=str() as tool):
            return [policy.tool(tool).results]
        case UserMessage() | SystemMessage():
            return [policy.text]


def _of_part(policy: DataPolicy, part: Part) -> Treatment:
    if part.kind == "tool_call":
        return policy.tool(part.name).arguments
    return policy.reasoning if part.kind == "reasoning" else policy.text


def _may_quote(part: Part) -> bool:
    return part.kind == "opaque" or (part.kind in ("text", "tool_call") and part.raw is not None)


def _shortest(treatments: Iterable[Treatment]) -> float | None:
    return min((float(how.seconds) for how in treatments if isinstance(how, KeepFor)), default=None)


def _stays(how: Treatment) -> bool:
    return how == "keep" or isinstance(how, KeepFor)


def _treated(how: Treatment, text: str, key: bytes) -> str:
    """*text* after its treatment; an empty text holds nothing and stays empty."""
    if how == "drop":
        return ""
    if _stays(how) or not text:
        return text
    return _REDACTED if how == "redact" else f"[hash:{_hash(text, key)}]"


def _arguments(how: Treatment, text: str, key: bytes) -> str:
    """A call's arguments after their treatment: as they are, or a JSON object, which every provider takes back."""
    if _stays(how):
        return text
    marks: dict[str, Any] = {"redact": {"redacted": True}, "drop": {}}
    return json.dumps(marks[how] if how in marks else {"hash": _hash(text, key)})


def _hash(text: str, key: bytes) -> str:
    from hashlib import blake2b  # noqa: PLC0415 - few policies need it

    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).hexdigest()


def _check_treatments(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, KeepFor) and not (isinstance(value, str) and value in get_args(_Word)):
            wanted = "'keep', 'redact', 'hash', 'drop' or KeepFor(seconds)"
            raise ConfigurationError(f"{type(owner).__name__}({name}={value!r:.80}): it must be {wanted}")


def _check_fields(policy: DataPolicy) -> None:
    for name, kind, wanted in (
        ("tools", Mapping, "ToolData(...) by tool name"),
        ("other_tools", ToolData, "ToolData(...)"),
        ("keep_whole_results", bool, "True or False"),
        ("hash_key", bytes, "bytes"),
    ):
        if not isinstance(value := getattr(policy, name), kind):
            told = f"DataPolicy({name}=...) is a {type(value).__name__}"  # never the key
            raise ConfigurationError(f"{told}: it must be {wanted}")
    for tool, data in policy.tools.items():
        if not isinstance(tool, str) or not isinstance(data, ToolData):
            told = f"DataPolicy(tools=...) has {data!r:.80} for {tool!r:.80}"
            raise ConfigurationError(f"{told}: it must be ToolData(...)")


@lru_cache
def _stricter(policy: DataPolicy) -> DataPolicy:
    """For sinks that cannot forget: *policy* with `redact` for each `KeepFor`."""
    text, reasoning, *rest = ["redact" if isinstance(how, KeepFor) else how for how in policy._treatments()]
    other, *tools = [ToolData(arguments=a, results=r) for a, r in zip(rest[::2], rest[1::2], strict=True)]
    named = dict(zip(policy.tools, tools, strict=True))
    return replace(policy, text=text, reasoning=reasoning, tools=named, other_tools=other)


def policy_form(policy: DataPolicy) -> list[Any]:
    """*policy* as JSON, without its secret: for a journal, so that a run can be ended where its agent is not known."""
    treatments = [how.seconds if isinstance(how, KeepFor) else how for how in policy._treatments()]
    return [treatments, list(policy.tools), policy.keep_whole_results]


def policy_of(form: Sequence[Any]) -> DataPolicy:
    """The policy that was given that *form*; without the secret, what it hashes is redacted."""
    written, names, whole = form
    known: dict[Any, Treatment] = {"keep": "keep", "redact": "redact", "hash": "redact", "drop": "drop"}
    text, reasoning, *rest = [known[how] if how in known else KeepFor(how) for how in written]
    other, *tools = [ToolData(arguments=a, results=r) for a, r in zip(rest[::2], rest[1::2], strict=True)]
    named = dict(zip(names, tools, strict=True))
    return DataPolicy(text=text, reasoning=reasoning, tools=named, other_tools=other, keep_whole_results=whole)


NOTHING = DataPolicy(text="drop", reasoning="drop", other_tools=ToolData(arguments="drop", results="drop"))
"""What holds where no policy is known: nothing may remain."""


KEEP_ALL = DataPolicy()
"""The default: everything is kept."""
