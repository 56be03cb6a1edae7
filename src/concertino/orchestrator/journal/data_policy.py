"""The data policy: which content of a run may be stored or observed, one rule for every sink.

The store receives messages through `stored_messages`, and a run's texts through `stored_start` and `stored_end`;
observers (logs, traces, metrics) receive events through `event_policy.observed_event`, and the log of events through
`event_policy.stored_event`. The run's consumer and the model see everything. Names, ids, counts, usage and times are
structure, and structure is always kept. A tool name that the model invented is text, not structure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from ...errors import ConfigurationError
from ...messages import (
    AssistantMessage,
    Media,
    Message,
    MessagePart,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ...records import record
from ...storage.types import EntryMessage, RunEnd, RunStart
from .patterns import UNKNOWN_TOOL, Pattern

_REDACTED = "[redacted]"
_REDUCED = "[the result of {name} was not kept]"


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

    Providers accept a history only in pairs of call and result: drop both or neither, and use `redact` to hide only
    one.
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
    """Images, documents and recordings of messages and results. They are kept only with the text of their message or
    result."""
    tools: Mapping[str, ToolData] | Callable[[str], ToolData] = field(default_factory=dict, hash=False)
    """Treatments by tool name, or a function that returns the treatment of a tool. A run calls the function once for
    each of its tools when it starts; tools that a hook adds later are treated as `other_tools`."""
    other_tools: ToolData = field(default_factory=ToolData)
    """Treatment of every tool that `tools` does not name."""
    keep_whole_results: bool = False
    """Store `once` results in full instead of their summary, as research agents need."""
    hash_key: bytes = field(default=b"", repr=False)
    """Secret of 16 to 64 bytes for `hash`; without one, short texts could be guessed from their hash."""
    patterns: Sequence[Pattern] = ()
    """Patterns of text that must not enter the run at all, such as `EMAIL`: neither the model nor a store nor a
    consumer gets it. They apply to sub-agents too."""
    known_tools: frozenset[str] | None = field(default=None, repr=False)
    """Names of the run's tools; a name outside them is text. Set by the engine; None: all names are structure."""
    keeps_everything: bool = field(init=False, repr=False, compare=False, default=True)
    """Whether all content is kept unchanged and without a time limit."""
    named_tools: Mapping[str, ToolData] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The treatments by tool name; none if a function decides and has not been asked yet (`for_tools`)."""

    def __post_init__(self) -> None:
        _check_treatments(self, "text", "reasoning", "media")
        if isinstance(self.tools, Mapping):
            object.__setattr__(self, "tools", dict(self.tools))
            object.__setattr__(self, "named_tools", self.tools)
        _check_fields(self)
        object.__setattr__(self, "patterns", tuple(self.patterns))
        treatments = self._treatments()
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
        treatments = self._treatments()
        return _shortest(treatments) if all(map(_stays, treatments)) else 0.0

    @property
    def expires(self) -> bool:
        """Return whether some content is erased a time after the run's end."""
        return _shortest(self._treatments()) is not None

    def _treatments(self) -> list[Treatment]:
        found = [self.text, self.reasoning, self.media]  # `policy_of` and `_stricter` depend on this order
        for tool in (self.other_tools, *self.named_tools.values()):
            found += tool.arguments, tool.results
        return found


def policy_form(policy: DataPolicy) -> list[Any]:
    """Return *policy* as JSON without its secret, so that a run can be ended in a process without its agent."""
    treatments = [how.seconds if isinstance(how, KeepFor) else how for how in policy._treatments()]
    known = None if policy.known_tools is None else sorted(policy.known_tools)
    form = [treatments, list(policy.named_tools), policy.keep_whole_results, known]
    if policy.patterns:
        form.append([[each.name, each.pattern, each.characters, each.longest] for each in policy.patterns])
    return form


def policy_of_call(policy: DataPolicy, tool: str) -> DataPolicy:
    """Return *policy* for a run whose texts are the arguments and the result of one call of *tool*."""
    treatments = [policy.tool(tool).arguments, policy.tool(tool).results]
    text = next((how for how in treatments if not _stays(how)), None)
    if text is None:
        seconds = _shortest(treatments)
        text = "keep" if seconds is None else KeepFor(seconds)
    return replace(policy, text=text, known_tools=None)


def patterns_of(written: Sequence[Any]) -> tuple[Pattern, ...]:
    """Restore the patterns of a policy from the part of `policy_form` after the treatments."""
    return tuple([Pattern(*pattern) for each in written for pattern in each])


def policy_of(form: Sequence[Any]) -> DataPolicy:
    """Restore a policy from `policy_form`. It redacts instead of hashing, since the secret is not stored."""
    written, names, whole, tools_of_run, *patterns = form
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
        patterns=patterns_of(patterns),
    )


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
    if policy.keeps_everything and not reduced and message.stored:
        return EntryMessage(message=message, tokens=tokens, progress=progress, keep=message)
    keep = _filtered(policy, message)
    if isinstance(keep, ToolMessage) and reduced and not policy.keep_whole_results:
        content = once_text(policy, keep.name, "", keep.summary)
        keep = replace(keep, content=content, whole=None, summary=None, retain="window")
    steps = all(map(_stays, _applying(policy, message)))
    time = None if keep is None else _shortest(_applying(policy, keep))
    later = None if keep is None or time is None else _filtered(_stricter(policy), keep)
    if keep is not None and not message.stored:  # erased when the run ends, whatever its policy keeps
        time, keep = 0.0, _filtered(_stricter(policy), message)
        later = keep
    return EntryMessage(
        message=message,
        tokens=tokens,
        progress=progress,
        keep=keep,
        keep_progress=steps,
        keep_seconds=time,
        later=later,
    )


def once_text(policy: DataPolicy, tool: str, content: str, summary: str | None) -> str:
    """Return what stays of the *content* of a `once` result."""
    return content if policy.keep_whole_results else summary or _REDUCED.format(name=tool)


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
        keep_seconds=text_seconds(policy),
        erase_after=policy.erase_after,
    )


def stored_text(policy: DataPolicy, text: str) -> str:
    """Return a run's task, answer or error after the policy; "" for `drop`."""
    return _treated(policy.text, text, policy.hash_key)


def text_seconds(policy: DataPolicy) -> float | None:
    """Return the time for which texts may be kept; None: without a limit, or not at all."""
    return policy.text.seconds if isinstance(policy.text, KeepFor) else None


def keeps_text(policy: DataPolicy) -> bool:
    """Return whether texts are kept unchanged, also if for a time only."""
    return _stays(policy.text)


def keeps_for_good(policy: DataPolicy, message: Message) -> bool:
    """Return whether *message* is kept unchanged and without a limit of time."""
    return message.stored and (policy.keeps_everything or all(how == "keep" for how in _applying(policy, message)))


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


def _refusing(how: Treatment, stored: bool) -> Treatment:
    """Return the treatment of content that the policy treats as *how*, and that may refuse to be kept."""
    return how if stored or how == "drop" else "redact"


def shared_message(message: Message) -> Message:
    """Return a message of an earlier run as the store may have it: without a result that must not be kept."""
    return message if message.stored else _filtered(KEEP_ALL, message) or message


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
            return replace(message, name=name, content=content, whole=None, summary=None, media=(), handle="")
        case UserMessage(text=text):
            text = text + _notes(policy, message.media) if _stays(treatments[0]) else _treated(treatments[0], text, key)
            return replace(message, text=text, tool=message.tool and tool_name(policy, message.tool), media=())
        case SystemMessage():
            return replace(message, text=stored_text(policy, message.text))


def _notes(policy: DataPolicy, media: Iterable[Media]) -> str:
    """Return a note for each of *media* that is not kept, unless the policy drops them."""
    return "" if policy.media == "drop" else "".join([f"\n[{m.name or m.media_type} was not kept]" for m in media])


def _left(policy: DataPolicy, how: Treatment, part: MessagePart) -> MessagePart | None:
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
            return each + (policy._treatments() if any(map(_may_quote, parts)) else [])
        case ToolMessage(media=media):
            how = _tool(policy, message.name).results
            return [_refusing(how, message.stored), *([policy.media] if media else [])]
        case UserMessage(tool=str() as tool, media=media):
            how = _tool(policy, tool).results
            return [_refusing(how, message.stored), *([policy.media] if media else [])]
        case UserMessage(media=media):
            return [_refusing(policy.text, message.stored), *([policy.media] if media else [])]
        case SystemMessage():
            return [policy.text]


def _of_part(policy: DataPolicy, part: MessagePart) -> Treatment:
    if part.kind == "tool_call":
        return policy.tool(part.name).arguments
    return policy.reasoning if part.kind == "reasoning" else policy.text


def _may_quote(part: MessagePart) -> bool:
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
        ("patterns", Sequence, "a tuple of Pattern objects"),
        ("hash_key", bytes, "bytes"),
    ):
        if not isinstance(value := getattr(policy, name), kind):
            # Show the type only: the value may be the secret key.
            raise ConfigurationError(f"DataPolicy({name}=...): invalid {type(value).__name__}: use {wanted}")
    for pattern in policy.patterns:
        if not isinstance(pattern, Pattern):
            raise ConfigurationError(f"DataPolicy(patterns=...): invalid {pattern!r:.80}: use Pattern objects")
    for tool, data in policy.named_tools.items():
        if not isinstance(tool, str) or not isinstance(data, ToolData):
            raise ConfigurationError(f"DataPolicy(tools=...): invalid {data!r:.80} for {tool!r:.80}: use ToolData(...)")


@lru_cache
def _stricter(policy: DataPolicy) -> DataPolicy:
    """Return *policy* with `redact` for each `KeepFor`, for sinks that cannot forget."""
    text, reasoning, media, *rest = ["redact" if isinstance(how, KeepFor) else how for how in policy._treatments()]
    other, *tools = [ToolData(arguments=a, results=r) for a, r in zip(rest[::2], rest[1::2], strict=True)]
    named = dict(zip(policy.named_tools, tools, strict=True))
    return replace(policy, text=text, reasoning=reasoning, media=media, tools=named, other_tools=other)


NOTHING = DataPolicy(text="drop", reasoning="drop", other_tools=ToolData(arguments="drop", results="drop"))
"""Policy for runs whose policy is unknown: nothing is kept."""


KEEP_ALL = DataPolicy()
"""The default: everything is kept."""
