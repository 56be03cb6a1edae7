"""The data policy: which content of a run may be stored or observed, one rule for every sink.

The store receives messages through `stored_messages`, and a run's texts through `stored_start` and `stored_end`;
observers (logs, traces, metrics) receive events through `observed_event`. The run's consumer and the model see
everything. Names, ids, counts, usage and times are structure, and structure is always kept. A tool name that the model
invented is text, not structure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Literal, assert_never, get_args

from ... import events
from ...errors import ConfigurationError
from ...messages import AssistantMessage, Media, Message, Part, SystemMessage, ToolCall, ToolMessage, UserMessage
from ...records import record
from ...storage.types import EntryMessage, RunEnd, RunStart
from ...waits import Wait

UNKNOWN_TOOL = "unknown_tool"
"""Name that replaces a tool name outside the registry wherever the policy forbids text."""
_REDACTED = "[redacted]"
_REDUCED = "[the result of {name} was not kept]"
_STEP = ("id", "name", "icon", "ended")  # the structure of a progress step
_IN_PIECES = ("keep", "redact")  # a hash covers the whole text, so pieces cannot be hashed


@record
class KeepFor:
    """Keep the content for *seconds* after the end of the run. Raises `ConfigurationError` unless they are above 0."""

    seconds: float

    def __post_init__(self) -> None:
        number = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not number or not 0 < self.seconds < math.inf:
            raise ConfigurationError(
                f"KeepFor(seconds={self.seconds!r:.80}): use seconds above 0, 'drop' to keep nothing, or 'keep'"
            )


_Literal = Literal["keep", "redact", "hash", "drop"]
Treatment = _Literal | KeepFor
"""`keep`: store unchanged. `redact`: replace by a mark. `hash`: replace by a keyed hash, equal for equal text. `drop`:
remove without a mark. `KeepFor`: store unchanged for a time."""


@record(kw_only=True)
class ToolData:
    """The treatment of a tool's calls. Raises `ConfigurationError` if a treatment is invalid.

    Providers accept a history only in pairs of call and result: drop both or neither; `redact` hides one of them.
    """

    arguments: Treatment = "keep"
    results: Treatment = "keep"
    """Results in full and shortened, structured data, errors and progress."""

    def __post_init__(self) -> None:
        _check_treatments(self, "arguments", "results")
        if (self.arguments == "drop") != (self.results == "drop"):
            raise ConfigurationError(
                f"ToolData(arguments={self.arguments!r}, results={self.results!r}): drop both or neither, since "
                "providers reject a call without its result; 'redact' hides one of them and keeps the pair"
            )


@record(kw_only=True)
class DataPolicy:
    """The treatment of a run's content. Raises `ConfigurationError`, naming the field, if one is invalid."""

    text: Treatment = "keep"
    """Text of the user, the product and the model: messages, steering, the answer, the run's error."""
    reasoning: Treatment = "keep"
    media: Treatment = "keep"
    """Images, documents and recordings of messages and results. They stay only where the text next to them does."""
    tools: Mapping[str, ToolData] | Callable[[str], ToolData] = field(default_factory=dict, hash=False)
    """Treatments by tool name, or a function that returns the treatment of a tool. When a run starts, it asks the
    function for each of its tools; tools that a hook adds later have the treatment of `other_tools`."""
    other_tools: ToolData = field(default_factory=ToolData)
    """Treatment of every tool that `tools` does not name."""
    keep_whole_results: bool = False
    """Store `once` results in full instead of their summary, as research agents need."""
    hash_key: bytes = field(default=b"", repr=False)
    """Secret of 16 to 64 bytes for `hash`; without one, short texts could be guessed from their hash."""
    known_tools: frozenset[str] | None = field(default=None, repr=False)
    """Names of the run's tools; a name outside them is text. Set by the engine; None: all names are structure."""
    keeps_everything: bool = field(init=False, repr=False, compare=False, default=True)
    """Whether all content is kept unchanged and without a time limit."""

    def __post_init__(self) -> None:
        _check_treatments(self, "text", "reasoning", "media")
        _check_fields(self)
        if isinstance(self.tools, Mapping):
            object.__setattr__(self, "tools", dict(self.tools))
        treatments = list(self._treatments())
        if (self.hash_key or "hash" in treatments) and not 16 <= len(self.hash_key) <= 64:
            raise ConfigurationError(
                "DataPolicy(hash_key=...): 'hash' needs 16 to 64 secret bytes, such as secrets.token_bytes(32)"
            )
        whole = all(how == "keep" for how in treatments) and isinstance(self.tools, Mapping)
        object.__setattr__(self, "keeps_everything", whole)

    def tool(self, name: str) -> ToolData:
        """Return the treatment of the tool *name*."""
        return self.tools.get(name, self.other_tools) if isinstance(self.tools, Mapping) else self.tools(name)

    def for_tools(self, names: Iterable[str]) -> DataPolicy:
        """Return this policy for a run with the tools *names*."""
        names = frozenset(names)
        own = (
            self if isinstance(self.tools, Mapping) else replace(self, tools={name: self.tools(name) for name in names})
        )
        return own if self.text == "keep" else replace(own, known_tools=names)

    def knows(self, name: str) -> bool:
        """Return whether the tool name *name* is structure, not text."""
        return self.known_tools is None or name in self.known_tools

    @property
    def erase_after(self) -> float | None:
        """Seconds after the run's end until its journal must be erased; None: never.

        0 if some content may not be kept at all, else the shortest `KeepFor`.
        """
        treatments = list(self._treatments())
        return _shortest(treatments) if all(map(_stays, treatments)) else 0.0

    def _treatments(self) -> Iterator[Treatment]:
        yield from (self.text, self.reasoning, self.media)  # `_stricter` and `policy_of` depend on this order
        named = self.tools.values() if isinstance(self.tools, Mapping) else ()
        for tool in (self.other_tools, *named):
            yield from (tool.arguments, tool.results)


def stored_messages(
    policy: DataPolicy,
    messages: Iterable[Message],
    tokens_of: Callable[[Message], int | None],
    progress: Mapping[str, Sequence[dict[str, Any]]],
) -> list[EntryMessage]:
    """Return *messages* as `stored_message` does; *progress* has the progress steps of tools by call id."""
    return [
        stored_message(
            policy, message, tokens_of(message), progress.get(message.call_id, ()) if message.role == "tool" else ()
        )
        for message in messages
    ]


def stored_message(
    policy: DataPolicy,
    message: Message,
    tokens: int | None,
    progress: Sequence[dict[str, Any]],
) -> EntryMessage:
    """Return *message* in full for the running run, with its replacement after the end and their time limits.

    A `once` result is replaced by its summary, unless the policy keeps whole results.
    """
    reduced = isinstance(message, ToolMessage) and message.retain == "once"
    if policy.keeps_everything and not reduced and is_stored(message):
        return EntryMessage(message=message, tokens=tokens, progress=progress, keep=message)
    keep = _filtered(policy, message)
    if isinstance(keep, ToolMessage) and reduced and not policy.keep_whole_results:
        content = keep.summary or _REDUCED.format(name=keep.name)
        keep = replace(keep, content=content, whole=None, summary=None, retain="window")
    steps = all(map(_stays, _applying(policy, message)))
    time = None if keep is None else _shortest(_applying(policy, keep))
    later = None if keep is None or time is None else _filtered(_stricter(policy), keep)
    if keep is not None and not is_stored(message):
        time, later = 0.0, keep  # erased when the run ends, also if its policy keeps everything
    return EntryMessage(
        message=message,
        tokens=tokens,
        progress=progress,
        keep=keep,
        keep_progress=steps,
        keep_seconds=time,
        later=later,
    )


def stored_start(policy: DataPolicy, start: RunStart) -> RunStart:
    """Return a run's *start* after the policy."""
    if policy.keeps_everything:
        return start
    return replace(start, task=stored_text(policy, start.task), erase_after=policy.erase_after)


def stored_end(policy: DataPolicy, end: RunEnd) -> RunEnd:
    """Return a run's *end* after the policy, with the time for which its task, answer and error may be kept."""
    if policy.keeps_everything:
        return end
    return replace(
        end,
        answer=stored_text(policy, end.answer),
        error=None if end.error is None else stored_text(policy, end.error),
        keep_seconds=policy.text.seconds if isinstance(policy.text, KeepFor) else None,
        erase_after=policy.erase_after,
    )


def stored_text(policy: DataPolicy, text: str) -> str:
    """Return a run's task, answer or error after the policy; "" for `drop`."""
    return _treated(policy.text, text, policy.hash_key)


def observed_event(  # noqa: C901, PLR0911, PLR0912 - one case per event
    policy: DataPolicy, event: events.RunEvent
) -> events.RunEvent | None:
    """Return *event* for observers, or None to hide it. A policy that keeps everything returns the same object.

    Observers cannot forget, so `KeepFor` counts as `redact`. The structure of dropped content is still shown: that a
    tool was called, but not with which arguments. Structured data and progress are shown unchanged or not at all.
    Deltas of hashed or dropped content are hidden.
    """
    if policy.keeps_everything and not _needs_treatment(event):
        return event
    policy = _stricter(policy)
    name, key = getattr(event, "name", ""), policy.hash_key
    tool = _tool(policy, name)
    if name and (mark := tool_name(policy, name)) != name:
        event = replace(event, name=mark)  # type: ignore[arg-type]  # every event with a name has a tool's
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
        case events.PartialOutput():
            return event if policy.text == "keep" else None
        case events.ToolCallDelta():
            piece = _treated(tool.arguments, event.arguments, key)
            return replace(event, arguments=piece) if tool.arguments in _IN_PIECES else None
        case events.ToolStreamed():
            piece = _treated(tool.results, event.content, key)
            return replace(event, content=piece) if tool.results in _IN_PIECES else None
        case events.RunStarted():
            return replace(event, task=stored_text(policy, event.task))
        case events.Steered():
            return replace(event, text=stored_text(policy, event.text))
        case events.TurnCompleted(message=message):
            left = _filtered(policy, message)
            return replace(event, message=left if isinstance(left, AssistantMessage) else replace(message, parts=()))
        case events.ToolsSelected(calls=calls):
            return replace(event, calls=tuple([_bare(policy, call) for call in calls]))
        case events.ToolStarted():
            return replace(event, arguments=_arguments(tool.arguments, event.arguments, key))
        case events.CallWaiting():
            note = _treated(tool.arguments, event.note, key)
            return replace(event, arguments=_arguments(tool.arguments, event.arguments, key), note=note)
        case events.ToolProgress():
            step = {name: event.step[name] for name in _STEP if name in event.step} | {"parts": []}
            return event if tool.results == "keep" else replace(event, step=step)
        case events.ToolDone():
            how = _results(policy, event.name, event.stored)
            data = event.data if how == "keep" else None
            return replace(event, content=_treated(how, event.content, key), data=data)
        case events.ToolFailed():
            return replace(event, error=_treated(tool.results, event.error, key))
        case events.RunEnded():
            return replace(event, result=_shown_result(policy, event.result))
        case _:
            assert_never(event)


def _shown_result(policy: DataPolicy, result: events.RunResult) -> events.RunResult:
    return replace(
        result,
        text=stored_text(policy, result.text),
        output=result.output if policy.text == "keep" else None,
        error=None if result.error is None else stored_text(policy, result.error),
        data={name: data for name, data in result.data.items() if policy.tool(name).results == "keep"},
        messages=tuple(left for message in result.messages if (left := _filtered(policy, message))),
        # A sub-agent's policy is unknown here and may be stricter.
        waiting=tuple(_shown_wait(policy if w.run_id == result.run_id else NOTHING, w) for w in result.waiting),
        receipt=None if result.receipt is None else _shown_receipt(policy, result),
        context=None,  # it contains extracts and summaries
    )


def _shown_receipt(policy: DataPolicy, result: events.RunResult) -> events.StopReceipt:
    assert result.receipt is not None
    receipt, path = result.receipt, result.agent_path

    def shown_work(works: Iterable[events.StoppedWork]) -> tuple[events.StoppedWork, ...]:
        return tuple(
            [
                replace(work, name=tool_name(policy, work.name))
                if (work.what, work.agent_path) == ("tool", path)
                else work
                for work in works
            ]
        )

    return events.StopReceipt(
        stopped=shown_work(receipt.stopped),
        not_stopped=shown_work(receipt.not_stopped),
        unknown=shown_work(receipt.unknown),
    )


def _needs_treatment(event: events.RunEvent) -> bool:
    """Return whether a part of *event* is not under the run's own policy: a sub-agent's wait, or an unstored result."""
    if isinstance(event, events.RunEnded):
        return _waits_below(event.result) or not all(map(is_stored, event.result.messages))
    return isinstance(event, events.ToolDone) and not event.stored


def _waits_below(result: events.RunResult) -> bool:
    return any(wait.run_id != result.run_id for wait in result.waiting)


def _shown_wait(policy: DataPolicy, wait: Wait) -> Wait:
    how, key = policy.tool(wait.tool).arguments, policy.hash_key
    if how == "keep":
        return wait
    arguments, note = _arguments(how, wait.arguments, key), _treated(how, wait.note, key)
    # Remove the hash: it has no key, so short arguments could be guessed from it.
    return replace(wait, tool=tool_name(policy, wait.tool), arguments=arguments, arguments_hash="", note=note)


def tool_name(policy: DataPolicy, name: str) -> str:
    """Return *name*, or `UNKNOWN_TOOL` if it is text that the policy forbids."""
    return name if policy.knows(name) or _stays(policy.text) else UNKNOWN_TOOL


def _tool(policy: DataPolicy, name: str) -> ToolData:
    """Return the treatment of the tool *name*. Results of an unknown tool are text too: the error quotes the name."""
    data = policy.tool(name)
    if policy.knows(name) or not _stays(data.results):
        return data
    results: Treatment = "redact" if policy.text == "drop" else policy.text  # dropping it would leave a lone call
    if isinstance(data.results, KeepFor) and isinstance(results, KeepFor):
        results = KeepFor(min(data.results.seconds, results.seconds))
    return replace(data, results=results)


def _results(policy: DataPolicy, name: str, stored: bool) -> Treatment:
    """Return the treatment of a result, which may refuse to be kept."""
    how = _tool(policy, name).results
    return how if stored or how == "drop" else "redact"


def is_stored(message: Message) -> bool:
    """Return whether a result allows that it is kept; True for every other message."""
    return not isinstance(message, ToolMessage | UserMessage) or message.stored


def shared_message(message: Message) -> Message:
    """Return a message of an earlier run as the store may have it: without a result that must not be kept."""
    return message if is_stored(message) else _filtered(KEEP_ALL, message) or message


def _bare(policy: DataPolicy, call: ToolCall) -> ToolCall:
    arguments = _arguments(policy.tool(call.name).arguments, call.arguments, policy.hash_key)
    return ToolCall(call.id, tool_name(policy, call.name), arguments)


def _filtered(policy: DataPolicy, message: Message) -> Message | None:  # noqa: PLR0911 - one per kind
    """Return *message* after the policy: the same object if all of it is kept, None if all of it is dropped."""
    treatments, key = _applying(policy, message), policy.hash_key
    if all(map(_stays, treatments)):
        return message
    match message:
        case AssistantMessage(parts):
            left = [_left(policy, how, part) for how, part in zip(treatments, parts, strict=False)]
            kept = tuple([part for part in left if part is not None])
            return replace(message, parts=kept) if kept else None
        case _ if treatments[0] == "drop":
            return None
        case ToolMessage(content=content, whole=whole):
            how, whole = treatments[0], content if whole is None else whole
            if _stays(how):
                return replace(message, content=content + _notes(policy, message.media), media=())
            name, content = tool_name(policy, message.name), _treated(how, whole, key)
            return replace(message, name=name, content=content, whole=None, summary=None, media=())
        case UserMessage(text=text):
            text = text + _notes(policy, message.media) if _stays(treatments[0]) else _treated(treatments[0], text, key)
            return replace(message, text=text, tool=message.tool and tool_name(policy, message.tool), media=())
        case SystemMessage():
            return replace(message, text=stored_text(policy, message.text))


def _notes(policy: DataPolicy, media: Iterable[Media]) -> str:
    """Return a note for each of *media* that is not kept, unless the policy drops them."""
    return "" if policy.media == "drop" else "".join([f"\n[{m.name or m.media_type} was not kept]" for m in media])


def _left(policy: DataPolicy, how: Treatment, part: Part) -> Part | None:
    """Return a part of a message that is not kept in full, or None to drop the part.

    Signatures and the provider's own JSON are dropped, because they may encode any part of the message.
    """
    if how == "drop" or part.kind == "opaque" or part.kind == "media":  # noqa: PLR1714 - narrows the type
        return None
    if part.kind == "tool_call":
        return _bare(policy, part)
    return type(part)(_treated(how, part.text, policy.hash_key)) if part.text or part.kind == "text" else None


def _applying(policy: DataPolicy, message: Message) -> list[Treatment]:
    """Return the treatments of *message*.

    An assistant message has one per part, then those of signed and quoted content and of unknown tool names; any other
    message has one. A signature on a call contains reasoning. A provider's own JSON may quote any content.
    """
    match message:
        case AssistantMessage(parts):
            each = [_of_part(policy, part) for part in parts]
            each += [policy.reasoning for call in message.tool_calls if call.signature]
            each += [policy.text for call in message.tool_calls if not policy.knows(call.name)]
            return each + (list(policy._treatments()) if any(map(_may_quote, parts)) else [])
        case ToolMessage(media=media):
            return [_results(policy, message.name, message.stored), *([policy.media] if media else [])]
        case UserMessage(tool=str() as tool, media=media):
            return [_results(policy, tool, message.stored), *([policy.media] if media else [])]
        case UserMessage(media=media):
            return [policy.text, *([policy.media] if media else [])]
        case SystemMessage():
            return [policy.text]


def _of_part(policy: DataPolicy, part: Part) -> Treatment:
    if part.kind == "tool_call":
        return policy.tool(part.name).arguments
    return policy.reasoning if part.kind == "reasoning" else policy.text


def _may_quote(part: Part) -> bool:
    return part.kind in ("opaque", "media") or (part.kind in ("text", "tool_call") and part.raw is not None)


def _shortest(treatments: Iterable[Treatment]) -> float | None:
    return min((float(how.seconds) for how in treatments if isinstance(how, KeepFor)), default=None)


def _stays(how: Treatment) -> bool:
    return how == "keep" or isinstance(how, KeepFor)


def _treated(how: Treatment, text: str, key: bytes) -> str:
    """Return *text* after its treatment; empty text stays empty."""
    if how == "drop":
        return ""
    if _stays(how) or not text:
        return text
    return _REDACTED if how == "redact" else f"[hash:{_hash(text, key)}]"


def _arguments(how: Treatment, text: str, key: bytes) -> str:
    """Return a call's arguments after their treatment: unchanged, or a JSON object, which every provider accepts."""
    if _stays(how):
        return text
    marks: dict[str, Any] = {"redact": {"redacted": True}, "drop": {}}
    return json.dumps(marks[how] if how in marks else {"hash": _hash(text, key)})


def _hash(text: str, key: bytes) -> str:
    from hashlib import blake2b  # noqa: PLC0415 - few policies hash

    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).hexdigest()


def _check_treatments(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, KeepFor) and not (isinstance(value, str) and value in get_args(_Literal)):
            wanted = "'keep', 'redact', 'hash', 'drop' or KeepFor(seconds)"
            raise ConfigurationError(f"{type(owner).__name__}({name}={value!r:.80}): use {wanted}")


def _check_fields(policy: DataPolicy) -> None:
    for name, kind, wanted in (
        ("tools", Mapping | Callable, "ToolData(...) by tool name, or a function of a tool's name"),
        ("other_tools", ToolData, "ToolData(...)"),
        ("keep_whole_results", bool, "True or False"),
        ("hash_key", bytes, "bytes"),
    ):
        if not isinstance(value := getattr(policy, name), kind):
            # Show the type only: the value may be the secret key.
            raise ConfigurationError(f"DataPolicy({name}=...): invalid {type(value).__name__}: use {wanted}")
    for tool, data in policy.tools.items() if isinstance(policy.tools, Mapping) else ():
        if not isinstance(tool, str) or not isinstance(data, ToolData):
            raise ConfigurationError(f"DataPolicy(tools=...): invalid {data!r:.80} for {tool!r:.80}: use ToolData(...)")


@lru_cache
def _stricter(policy: DataPolicy) -> DataPolicy:
    """Return *policy* with `redact` for each `KeepFor`, for sinks that cannot forget."""
    text, reasoning, media, *rest = ["redact" if isinstance(how, KeepFor) else how for how in policy._treatments()]
    other, *tools = [ToolData(arguments=a, results=r) for a, r in zip(rest[::2], rest[1::2], strict=True)]
    named = dict(zip(policy.tools, tools, strict=True))
    return replace(policy, text=text, reasoning=reasoning, media=media, tools=named, other_tools=other)


def policy_form(policy: DataPolicy) -> list[Any]:
    """Return *policy* as JSON without its secret, so that a run can be ended in a process without its agent."""
    treatments = [how.seconds if isinstance(how, KeepFor) else how for how in policy._treatments()]
    known = None if policy.known_tools is None else sorted(policy.known_tools)
    return [treatments, list(policy.tools), policy.keep_whole_results, known]


def policy_of(form: Sequence[Any]) -> DataPolicy:
    """Restore a policy from `policy_form`. It redacts instead of hashing, since the secret is not stored."""
    written, names, whole, tools_of_run = form
    known: dict[Any, Treatment] = {"keep": "keep", "redact": "redact", "hash": "redact", "drop": "drop"}
    text, reasoning, media, *rest = [known[how] if how in known else KeepFor(how) for how in written]
    other, *tools = [ToolData(arguments=a, results=r) for a, r in zip(rest[::2], rest[1::2], strict=True)]
    named = dict(zip(names, tools, strict=True))
    return DataPolicy(
        text=text,
        reasoning=reasoning,
        media=media,
        tools=named,
        other_tools=other,
        keep_whole_results=whole,
        known_tools=None if tools_of_run is None else frozenset(tools_of_run),
    )


NOTHING = DataPolicy(text="drop", reasoning="drop", other_tools=ToolData(arguments="drop", results="drop"))
"""Policy for runs whose policy is unknown: nothing is kept."""


KEEP_ALL = DataPolicy()
"""The default: everything is kept."""
