"""Read one answer: the frame that all formats share, and the state in which an answer ends.

A format's reader turns its events into chunks, keeps the parts, and names what showed that the answer is complete. The
frame decides everything else once: which end is enough, whether events are missing, which usage can be trusted.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal

from ...errors import BrokenStreamError, ContentFilteredError
from ...messages import AssistantMessage, MessagePart, StopReason
from ...records import record
from ...usage import Receipt, Tokens, UsageSource
from ..base import Logprob, ModelEvent, Reply
from .encoding import dumps
from .sse import SseEvent

End = Literal["reason", "marker", "body"]
"""What showed that an answer is complete: its finish reason or final event, the stream's done marker, or the end of a
body that was not streamed."""

DONE = "[DONE]"
UNEXPECTED_SHAPE = (LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""Exceptions of a reader that meets values of unexpected types."""

_MOST_TOKENS = 1_000_000_000
"""No answer has more tokens, or calls of tools."""
_MAX_USAGE = 8_192
"""Bytes of the longest usage report that a receipt keeps."""
_MAX_TEXT = 64
"""Characters of the longest text in a usage report; all reported ones are names, such as those of tiers and models."""


@record
class Counted:
    """The usage of an answer, and how far it can be trusted."""

    tokens: Tokens | None
    source: UsageSource = "unknown"
    how: str = ""


class AnswerReader(ABC):
    """Turns the events of one answer into chunks and, at the end, a reply.

    An answer that was not streamed is read as the events that would have produced it, so both forms mean the same.
    """

    total: ClassVar[str] = ""
    """The field of the usage report with the sum of all tokens, in formats that have one."""

    __slots__ = ("end", "model", "provider", "response_id", "stop", "usage")

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.end: End | None = None
        """None until the provider has marked the answer as complete."""
        self.stop = ""
        """The provider's own finish reason."""
        self.model = ""
        self.response_id = ""
        self.usage: dict[str, Any] = {}
        """The provider's usage report so far."""

    # -- the frame -------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True if the answer is complete."""
        return self.end is not None

    def read(self, event: SseEvent) -> Sequence[ModelEvent]:
        """Return the chunks in *event*. Raises a `ProviderError` if the event reports one."""
        text = event.data
        if len(text) < 16 and (text := text.strip()) in ("", DONE):  # some servers send empty data in between
            return self._at_marker() if text else ()
        return self._read(payload(event, self.provider), event.name)

    def whole(self, answer: Any) -> Sequence[ModelEvent]:
        """Return the chunks of an unstreamed *answer*. Raises a `ProviderError` if it reports one."""
        items = self._read_body(answer)
        if self.end is None and self._is_whole():
            self.end = "body"
        return items

    def reply(self) -> Reply:
        """Return the reply.

        Raises `BrokenStreamError` if the answer is incomplete, `ContentFilteredError` if a filter left it empty.
        """
        if self.end is None:
            how = f"with the finish reason {self.stop!r}" if self.stop else "without a finish reason"
            raise BrokenStreamError(f"the answer of {self.provider} ended {how}", provider=self.provider)
        parts, stop, counted = self._parts(), self._stop_reason(), self.counted()
        calls = any(part.kind == "tool_call" for part in parts)
        if stop == "filter" and not calls and not any(part.kind == "text" and part.text for part in parts):
            raise self._filtered(counted)
        if calls and stop == "end":  # forced calls end with "stop" at some providers
            stop = "tool_calls"
        message = AssistantMessage(tuple(parts), stop, served_model(self))
        if counted.tokens is not None and parts and not counted.tokens.completion:
            counted = _doubted(counted.tokens, self.provider)
        return Reply(message, counted.tokens, counted.source, counted.how, self.receipt(), self._logprobs())

    def counted(self) -> Counted:
        """Return the usage that the provider has reported so far."""
        try:
            tokens, total = self._tokens(), self.usage.get(self.total)
            if tokens is None:
                return Counted(None)
            if tokens.negative or tokens.prompt + tokens.completion > _MOST_TOKENS:
                return Counted(None, "unknown", f"{self.provider} reported counts that cannot be")
        except UNEXPECTED_SHAPE:
            return Counted(None, "unknown", f"{self.provider} reported counts that are not numbers")
        if tokens.cached + tokens.cache_write > tokens.prompt or tokens.reasoning > tokens.completion:
            return _doubted(tokens, self.provider)
        if total is not None and total != tokens.total:
            how = f"as reported by {self.provider}: {tokens.prompt} and {tokens.completion}, but {total} in total"
            return Counted(tokens, "estimated", how)
        return Counted(tokens, "measured") if tokens.prompt else _doubted(tokens, self.provider)

    def receipt(self) -> Receipt | None:
        """Return what the provider has reported so far besides tokens; None if nothing."""
        try:
            found, cost = self._reported(), own_cost(self.usage)
        except UNEXPECTED_SHAPE:
            found, cost = Receipt(), None
        receipt = Receipt(
            response_id=_name(self.response_id),
            service_tier=_name(found.service_tier),
            server_tools={name: count for name, count in found.server_tools.items() if 0 < count < _MOST_TOKENS},
            modalities={name: count for name, count in found.modalities.items() if 0 < count < _MOST_TOKENS},
            cost=cost,
            usage=usage_json(self.usage),
        )
        return None if receipt == Receipt() else receipt

    def _at_marker(self) -> Sequence[ModelEvent]:
        """End an answer by its done marker alone, as some hosts of OpenRouter do, unless something is missing."""
        if self.end is not None or self.stop or not self._is_whole():
            return ()
        self.end = "marker"
        return self._at_end()

    def _filtered(self, counted: Counted) -> ContentFilteredError:
        reason = self._explanation()
        message = f"a filter of {self.provider} held back the answer" + (f": {reason}" if reason else "")
        filtered = ContentFilteredError(message, provider=self.provider)
        filtered.tokens, filtered.final = counted.tokens, counted.source == "measured"
        return filtered

    # -- the format ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, data: dict[str, Any], name: str) -> Sequence[ModelEvent]:
        """Return the chunks in the object of an event called *name*, and set `end` if it completes the answer."""

    @abstractmethod
    def _read_body(self, answer: Any) -> Sequence[ModelEvent]:
        """Return the chunks of an unstreamed answer, and set `end` if it has a finish reason."""

    @abstractmethod
    def _is_whole(self) -> bool:
        """Return whether what has arrived can be an answer: it has content, and no call is cut off.

        Asked at the end of a body and at a done marker, for answers without a finish reason.
        """

    @abstractmethod
    def partial(self) -> list[MessagePart]:
        """Return the parts received so far. Text and reasoning may be unfinished; calls are complete."""

    @abstractmethod
    def _parts(self) -> list[MessagePart]:
        """Return the parts of the complete answer. Raises `BrokenStreamError` if it has failed."""

    @abstractmethod
    def _stop_reason(self) -> StopReason:
        """Translate the finish reason."""

    @abstractmethod
    def _tokens(self) -> Tokens | None:
        """Convert `usage` to the meaning of `Tokens`; None without a report."""

    def _at_end(self) -> Sequence[ModelEvent]:
        """Return the chunks that only the end of the answer completes."""
        return ()

    def _explanation(self) -> str:
        """Return the provider's explanation of its finish reason."""
        return ""

    def _reported(self) -> Receipt:
        """Return the service tier, the calls of the provider's own tools, and the tokens by modality."""
        return Receipt(service_tier=self.usage.get("service_tier") or "")

    def _logprobs(self) -> tuple[Logprob, ...]:
        return ()


def served_model(reader: AnswerReader) -> str:
    """Return the model's name as the provider reported it; "" for anything but a text."""
    return reader.model if isinstance(reader.model, str) else ""


# -- usage -------------------------------------------------------------------------------------------------------------


def count_in(usage: Mapping[str, Any], *names: str) -> int:
    """Return the first of the counts called *names* that is reported and not 0; else 0.

    Raises `TypeError` for anything but a whole number.
    """
    for name in names:
        if value := usage.get(name):
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}")
            return value
    return 0


def _doubted(tokens: Tokens, provider: str) -> Counted:
    """Return counts that cannot be the whole usage of an answer, or whose parts exceed their sums.

    A part that is larger than its sum would give the rest of the sum a negative price.
    """
    how = f"{provider} reported {tokens.prompt} tokens of input and {tokens.completion} of output"
    cached, reasoning = min(tokens.cached, tokens.prompt), min(tokens.reasoning, tokens.completion)
    written = min(tokens.cache_write, tokens.prompt - cached)
    within = Tokens(tokens.prompt, tokens.completion, cached, written, reasoning, min(tokens.cache_write_1h, written))
    return Counted(within, "estimated", how)


def details_in(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object called *name*; else an empty one."""
    return usage.get(name) or {}


_MODALITIES = ("text", "audio", "image", "video")


def modalities_in(details: Mapping[str, Any], direction: str) -> dict[str, int]:
    """Return the counts of *details* by modality, as OpenAI names them (`audio_tokens`)."""
    return {f"{direction}_{kind}": count_in(details, f"{kind}_tokens") for kind in _MODALITIES}


_TICKS = Decimal(10) ** -10


def own_cost(usage: Mapping[str, Any]) -> Decimal | None:
    """Return the bill in US dollars that the report states itself; else None.

    OpenRouter: `cost`, next to which a customer with an own key pays `upstream_inference_cost` ("Usage accounting").
    Perplexity: `cost.total_cost`. xAI: `cost_in_usd_ticks`, of which a dollar has 10^10 ("Cost tracking").
    """
    cost = usage.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    elif cost is not None and usage.get("is_byok"):
        return _sum(cost, details_in(usage, "cost_details").get("upstream_inference_cost") or 0)
    if cost is None and usage.get("cost_in_usd_ticks") is not None:
        ticks = _money(usage["cost_in_usd_ticks"])
        return None if ticks is None else ticks * _TICKS
    return None if cost is None else _money(cost)


def _sum(*values: Any) -> Decimal | None:
    amounts = [_money(value) for value in values]
    return None if None in amounts else sum([amount for amount in amounts if amount is not None], Decimal(0))


def _money(value: Any) -> Decimal | None:
    """Return *value* as an amount; None for anything else, also for a negative one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


def usage_json(usage: Mapping[str, Any]) -> str:
    """Return a usage report as JSON without long texts; "" for an empty or a very long one."""
    if not usage:
        return ""
    try:
        text = dumps(_without_texts(usage))
    except (ValueError, RecursionError):
        return ""
    return text if len(text.encode("utf-8", "replace")) <= _MAX_USAGE else ""


def _without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_texts(item) for name, item in value.items() if len(name) <= _MAX_TEXT}
    if isinstance(value, list):
        return [_without_texts(item) for item in value]
    return None if isinstance(value, str) and len(value) > _MAX_TEXT else value


def _name(value: Any) -> str:
    """Return a provider's name or id; "" for anything else."""
    return value if isinstance(value, str) and len(value) <= 2 * _MAX_TEXT else ""


# -- events ------------------------------------------------------------------------------------------------------------


def payload(event: SseEvent, provider: str) -> dict[str, Any]:
    """Return the JSON object in an event's data. Raises `BrokenStreamError` if it is anything else."""
    data = json_of(event, provider)
    if not isinstance(data, dict):
        raise BrokenStreamError(f"{provider} sent no JSON object: {event.data[:80]!r}", provider=provider)
    return data


def json_of(event: SseEvent, provider: str) -> Any:
    """Return the JSON value in an event's data. Raises `BrokenStreamError` unless it is JSON."""
    try:
        return json.loads(event.data)
    except (ValueError, RecursionError) as error:
        raise BrokenStreamError(f"{provider} sent no JSON: {event.data[:80]!r}", provider=provider) from error


def first_choice(choices: Iterable[dict[str, Any]] | None) -> dict[str, Any] | None:
    """Return the choice or candidate with the index 0; others must not mix with it."""
    return next((choice for choice in choices or () if not choice.get("index")), None)
