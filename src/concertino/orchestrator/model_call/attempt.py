"""An attempt at a model: its chunks become events, and its usage is booked however it ends."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...errors import BrokenStreamError, HookError, LimitError, ProviderError, RateLimitError, ToolError
from ...events import (
    Audience,
    Notice,
    PartialOutput,
    ReasoningDelta,
    RunEvent,
    TextDelta,
    ToolCallDelta,
    UsageRecorded,
)
from ...ids import new_call_id
from ...messages import AssistantMessage, MessagePart, Text, ToolCall
from ...operations import OperationState
from ...providers.base import (
    Dropped,
    Logprob,
    ModelEvent,
    ReasoningChunk,
    Reply,
    TextChunk,
    ToolCallChunk,
    ToolCallReady,
)
from ...providers.rate_limit import RateLimit
from ...token_engine.counting.sizes import message_text
from ...usage import Tokens, UsageRecord, UsageSource
from ..hooks import Hooks
from ..journal.patterns import UNKNOWN_TOOL, RedactedPieces
from ..meter import FRAME, TOKEN
from ..recorder import Prepared
from ..run import NEGATIVE, RunSession
from .budget import tokens_of
from .retry import AMBIGUOUS

if TYPE_CHECKING:
    from ..output import PartialReader  # slow to import

ORPHANED = "the run that this sub-agent belongs to has ended"
_NOTHING = AssistantMessage((), "broken")
_CALL = 32
"""Characters that a call counts for in addition to its arguments."""
_RESULT = 64
"""Tokens that a call and the shortest result take. So many calls that these exceed the context are not run."""
OnReady = Callable[[list[ToolCall]], None]
"""Called with the calls whose arguments are complete, in order, while the model is still writing."""


class CallIds:
    """Unique ids for the calls of one answer of *run*, in place of empty ones and of ids that its conversation has.

    Some servers count calls from 0 in each answer, and no provider accepts the same id twice in a conversation.
    """

    __slots__ = ("_renamed", "_run")

    def __init__(self, run: RunSession) -> None:
        self._run = run
        self._renamed: dict[str, str] = {}

    def unique(self, call_id: str) -> str:
        """Return the new id in place of *call_id*: the same for each piece of a call."""
        return self._renamed.setdefault(call_id, new_call_id())

    def call(self, call: ToolCall) -> ToolCall:
        """Return *call* with an id that no earlier call of the conversation has."""
        if call.id and not _is_taken(self._run, call.id):
            return call
        return dataclasses.replace(call, id=self.unique(call.id))

    def message(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message* with unique ids."""
        parts: list[MessagePart] = []
        seen: set[str] = set()
        for part in message.parts:
            own = part
            if own.kind == "tool_call":
                own = self.call(own)
                if own.id in seen:
                    own = dataclasses.replace(own, id=new_call_id())
                seen.add(own.id)
            parts.append(own)
        return dataclasses.replace(message, parts=tuple(parts))


def _is_taken(run: RunSession, call_id: str) -> bool:
    return call_id in run.call_ids or call_id in run.earlier_calls


class Attempt:
    """An attempt. Afterwards `message` is the answer, or the part of it that arrived before the stream broke.

    An attempt without an *audience* sends no deltas to the consumer. An attempt at the *side* is not part of a turn;
    *call_id* names the tool call that makes it.
    """

    __slots__ = (
        "_arguments",
        "_audience",
        "_call_id",
        "_held",
        "_hooks",
        "_ids",
        "_left",
        "_limit",
        "_most",
        "_pieces",
        "_put",
        "_reasoning",
        "_reply",
        "_run",
        "_sent",
        "_settled",
        "_side",
        "_since",
        "_stream",
        "_text",
        "calls",
        "logprobs",
        "message",
        "model",
        "model_id",
        "ready",
        "record",
        "request",
        "tokens",
        "usage_id",
    )

    def __init__(
        self,
        run: RunSession,
        hooks: Hooks,
        prepared: Prepared,
        *,
        audience: Audience | None,
        side: bool = False,
        call_id: str | None = None,
    ) -> None:
        self.model, self.model_id = prepared.model, prepared.model_id
        self.request, self.usage_id = prepared.request, prepared.usage_id
        self.tokens: Tokens | None = None
        """The tokens that the provider measured; None if it reported none."""
        self.ready: list[ToolCall] = []
        """The calls whose arguments are complete, in order."""
        self.message = _NOTHING
        self.calls: tuple[ToolCall, ...] = ()
        """The calls of `message`."""
        self.record: UsageRecord
        """The booked usage."""
        self._run = run
        self._hooks = hooks
        self._audience = audience
        self._side = side
        self._call_id = call_id
        self._stream = None if audience is None else run.stream
        self._held: list[RunEvent] | None = (
            [] if hooks.review_answer.own and audience is not None and (not side or audience == "answer") else None
        )
        """The pieces of an answer that must be judged before anyone sees it."""
        self._put: Callable[[RunEvent], None] | None = None
        if self._stream is not None:
            self._put = self._stream.put if self._held is None else self._held.append
            if run.turn_output is not None and not side:
                self._put = _with_partial(run, self._put, run.turn_output.reader(run.redactor))
        self._pieces: RedactedPieces | None = None
        if self._put is not None and run.redactor is not None:
            self._pieces = RedactedPieces(run.redactor, self._put)
            self._put = self._pieces.put
        self._limit = run.resources.rate_limits.get(prepared.model.provider) if run.resources.rate_limits else None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._arguments: list[str] = []
        self._ids: CallIds | None = None
        self._reply: Reply | None = None
        self.logprobs: tuple[Logprob, ...] = ()
        self._left = self._most = 0
        """The characters that may still arrive, and those that may arrive in all."""
        self._sent = False
        self._settled = False
        self._since = 0.0
        """When the attempt began, if someone sees its events."""

    async def answer(self, on_ready: OnReady | None = None) -> None:
        """Send the request and read the answer to its end. The usage is booked unless this raises; then call `close`.

        Raises `ProviderError`; `BrokenStreamError` if the stream ends without the final message; `LimitError` if the
        answer exceeds its token limit by far.
        """
        run, meter, parent, stream = self._run, self._run.meter, self._run.parent, self._stream
        if run.stream is not None:
            self._since = time.monotonic()
        most = (self.request.max_output_tokens or run.limits.output) * TOKEN + FRAME
        if meter.most_received - meter.received < most and not run.state.last_step:
            most = max(meter.most_received - meter.received, 0)
        self._left = self._most = most
        chunks = self.model.stream(self.request) if self._limit is None else self._admitted(self._limit)
        self._sent = self._limit is None
        try:
            async for chunk in chunks:
                self._take(chunk)
                if on_ready is not None and self.ready:
                    on_ready(self.ready)
                if self._left < 0:
                    raise self._too_long()
                if parent is not None and run.orphaned:
                    raise ToolError(ORPHANED)
                if stream is not None and stream.behind:
                    await stream.drained()
        finally:
            meter.received += most - self._left
            if (aclose := getattr(chunks, "aclose", None)) is not None:
                await aclose()
        await self._settle()

    def _too_long(self) -> LimitError:
        tokens = self.request.max_output_tokens or self._run.limits.output
        if self._most < tokens * TOKEN + FRAME:
            total = self._run.meter.most_received
            return LimitError(f"the limit of {total:,} received characters is reached", "received")
        return LimitError(f"the answer of {self.model_id} exceeded its limit of {tokens:,} tokens by far", "answer")

    async def _admitted(self, limit: RateLimit) -> AsyncIterator[ModelEvent]:
        """Stream the answer once the key's rate limit admits the request. A 429 pauses every run that uses the key."""
        run, longest = self._run, self._run.resources.retry.longest
        tokens = run.reserve.prompt(self.request) + (self.request.max_output_tokens or run.limits.output)
        tenant, user = run.scope.tenant, run.scope.user
        slot = limit.admit(user, tokens, tenant=tenant, model=self.model_id, longest=longest)
        async with slot as admission, aclosing(self.model.stream(self.request)) as chunks:  # type: ignore[type-var]  # all streams are generators
            self._sent = True
            try:
                async for chunk in chunks:
                    if isinstance(chunk, Reply) and chunk.tokens is not None and not chunk.tokens.negative:
                        admission.used = chunk.tokens.total
                    yield chunk
            except RateLimitError as error:
                delay = error.retry_after or min(1.0, longest)
                limit.pause(delay, self.model_id if delay > longest else "")
                raise

    @property
    def answered(self) -> bool:
        """True once the whole answer has arrived."""
        return self._reply is not None

    @property
    def seen(self) -> bool:
        """True once the consumer may have seen a part of the answer."""
        return self._held is None and self._audience is not None and self._begun

    @property
    def _begun(self) -> bool:
        return bool(self._text or self._reasoning or self._arguments or self.ready)

    def release(self, reviewed: AssistantMessage) -> None:
        """Send the consumer the pieces that were held back, or *reviewed* as a whole if it differs from the answer."""
        run, held, self._held = self._run, self._held or (), None
        if reviewed != self.message:
            fields = (reviewed.text, self._audience or run.audience, self._call_id, self.usage_id)
            held = [TextDelta(run.id, run.path, run.tree.content_index, *fields)] if reviewed.text else []
            self.message, self.calls = reviewed, reviewed.tool_calls
        if self._stream is not None:
            for event in held:
                self._stream.put(event)

    # -- chunks --------------------------------------------------------------------------------------------------

    def _take(self, chunk: ModelEvent) -> None:  # noqa: C901 - one branch per kind of chunk
        kind, run, put = type(chunk), self._run, self._put
        self._left -= 1  # empty chunks must end, too
        if kind is TextChunk:
            self._text.append(text := chunk.text)  # type: ignore[union-attr]
            self._left -= len(text)
            if put is not None:
                # Unpacking a tuple would double the time of a piece.
                audience: Any = self._audience
                put(TextDelta(run.id, run.path, run.tree.content_index, text, audience, self._call_id, self.usage_id))
        elif kind is ReasoningChunk:
            self._reasoning.append(text := chunk.text)  # type: ignore[union-attr]
            self._left -= len(text)
            if put is not None:
                shown: Any = (self._audience, self._call_id, self.usage_id)
                put(ReasoningDelta(run.id, run.path, run.tree.content_index, text, *shown))
        elif isinstance(chunk, Reply):
            self._end(chunk)
        elif isinstance(chunk, ToolCallChunk):
            self._arguments.append(chunk.arguments)
            self._left -= len(chunk.arguments)
            if put is not None:
                call_id = chunk.id
                if not call_id or _is_taken(run, call_id):
                    call_id = self._call_ids().unique(call_id)
                name = run.registry.sent_names.get(chunk.name, chunk.name)
                name = name if name in run.registry.by_name or not name else UNKNOWN_TOOL
                delta = (run.id, run.path, run.tree.content_index, call_id, name, chunk.arguments)
                put(ToolCallDelta(*delta, self.usage_id))
        elif isinstance(chunk, ToolCallReady):
            call = chunk.call if run.redactor is None else run.redactor.call(chunk.call)
            if call.name in run.registry.sent_names:
                call = dataclasses.replace(call, name=run.registry.sent_names[call.name])
            if not call.id or _is_taken(run, call.id):
                call = self._call_ids().call(call)
            self.ready.append(call)
            self._left -= _CALL if self._arguments else _CALL + len(chunk.call.arguments)
        elif isinstance(chunk, Dropped):
            run.emit(Notice, "not_sent", f"not sent to {self.model_id}: {'; '.join(chunk.what)}")

    def _end(self, reply: Reply) -> None:
        own = self._own(reply.message)
        if not (self._text or self._reasoning or self._arguments or self.ready):  # the model sent its answer whole
            for part in own.parts:
                if part.kind in ("text", "reasoning"):
                    self._run.meter.received += len(part.text)
                elif part.kind == "tool_call":
                    self._run.meter.received += _CALL + len(part.arguments)
        if len(self.calls) * _RESULT > self._run.limits.context:
            self._left, self.calls = min(self._left, -1), ()
            own = AssistantMessage((Text(text),) if (text := own.text[: self._most]) else (), "broken", own.model)
        self.logprobs = reply.logprobs
        self._reply = reply if own is reply.message else dataclasses.replace(reply, message=own)

    def _own(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message* redacted and with unique call ids, and set `calls`."""
        if (redactor := self._run.redactor) is not None:
            if self._pieces is not None:
                self._pieces.flush()
            message = redactor.message(message)
            if self._run.turn_output is not None and not self._side:
                message = self._run.turn_output.redacted(message, redactor)
        if self._run.registry.sent_names:
            message = _with_own_names(message, self._run.registry.sent_names)
        self.calls = calls = message.tool_calls
        if calls:
            run, ids = self._run, {call.id for call in calls}
            known = not ids.isdisjoint(run.call_ids) or (
                run.earlier_calls and any(call_id in run.earlier_calls for call_id in ids)
            )
            if known or len(ids) < len(calls) or "" in ids:
                message = self._call_ids().message(message)
                self.calls = message.tool_calls
        return message

    def _call_ids(self) -> CallIds:
        self._ids = self._ids or CallIds(self._run)
        return self._ids

    # -- usage ---------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        run, reply = self._run, self._reply
        if reply is None:
            raise BrokenStreamError("the stream ended before the final message", provider=self.model.provider)
        self.message = reply.message
        record = reported = self._record(reply)
        self.tokens = record.tokens if record.source == "measured" else None
        if self._hooks.calculate_usage.own:
            try:
                changed = await self._hooks.calculate_usage(run.context, record)
            except BaseException:
                self._book(record, "done")  # as reported: an attempt is never lost
                raise
            record = dataclasses.replace(changed, id=record.id)
            if record.tokens.negative or (record.cost is not None and record.cost < 0):
                self._book(reported, "done")
                raise HookError(run.agent.name, "calculate_usage", "returned a negative count or cost")
        self._book(record, "done")
        if run.stream is not None:
            run.emit(UsageRecorded, record, time.monotonic() - self._since, not self._side)

    def close(self, error: BaseException | None = None) -> None:
        """Book an attempt that *error* has ended, unless it is booked.

        The text that arrived is kept in `message` and an estimate is booked: a provider bills an answer that was not
        read to its end, but no request that it refused or never received. A whole answer counts as it is.
        """
        if self._settled:
            return
        self.message = self._broken(error) if self._reply is None else self._reply.message
        refused = isinstance(error, ProviderError) and not error.billable and error.tokens is None
        free = (not self._sent or refused) and not self._begun and self._reply is None
        state: OperationState = "failed" if isinstance(error, Exception) else "cancelled"
        self._book(self._free(error) if free else self._record(self._reply, error), state)

    def _broken(self, error: BaseException | None) -> AssistantMessage:
        """Return the part of the answer that arrived, with its reasoning and complete calls where the adapter knows."""
        if isinstance(error, ProviderError) and error.partial is not None:
            return self._own(error.partial)
        text = self._run.clean("".join(self._text))
        return AssistantMessage((Text(text),) if text else (), "broken", self.model.name)

    def _book(self, record: UsageRecord, state: OperationState) -> None:
        self._settled, self.record = True, record
        self._run.book(record, state)

    def _record(self, reply: Reply | None, error: BaseException | None = None) -> UsageRecord:
        """Return what the provider measured, also for an answer that *error* has ended, and an estimate of the rest.

        A failure after which the provider may have billed anything, such as a lost connection, a gateway's error or an
        answer that broke off, leaves unknown usage, unless the provider reported some.
        """
        model = self.model
        tools = tuple([self._run.tool_name(call.name) for call in self.calls])
        if reply is not None and reply.source == "measured" and reply.tokens is not None and not reply.tokens.negative:
            names = (self.usage_id, model.provider, reply.message.model or model.name)
            return self._run.record(*names, reply.tokens, tools, how=reply.how, receipt=reply.receipt)
        receipt = getattr(reply or error, "receipt", None)
        served = (self.message if reply is None else reply.message).model or model.name
        source: UsageSource
        failure = error if reply is None and isinstance(error, ProviderError) else None
        reported, problem = failure.tokens if failure else None, ""
        if reply is not None:
            reported, problem = reply.tokens, reply.how
        if reported is not None and reported.negative:
            reported, problem = None, NEGATIVE
        if reported is not None and reply is not None:
            tokens, source, how = reported, reply.source, reply.how
            if source == "estimated":
                tokens = _filled(reported, self._estimate(reply))
        elif reported is not None and failure is not None:
            tokens, source, how = reported, "measured", ""
            if not failure.final:
                how = f"output {_how(self._run)}, input as reported" if tokens.prompt else _how(self._run)
                tokens, source = self._at_least(tokens), "estimated"
        else:
            tokens, source, how = self._estimate(reply), "estimated", _how(self._run)
            if problem:
                how = f"{how}; {problem}"
            if isinstance(error, AMBIGUOUS) and (reply is None or not problem):
                source, how = "unknown", f"not reported after {type(error).__name__}; {how}, at least"
        names = (self.usage_id, model.provider, served)
        return self._run.record(*names, tokens, tools, source=source, how=how, receipt=receipt)

    def _at_least(self, reported: Tokens) -> Tokens:
        """Return what the provider *reported* before the stream broke, or the estimate where that is more."""
        seen = self._estimate(None)
        return dataclasses.replace(
            _filled(reported, seen),
            completion=max(reported.completion, seen.completion),
            reasoning=max(reported.reasoning, seen.reasoning),
        )

    def _free(self, error: BaseException | None) -> UsageRecord:
        how = f"not {'answered' if self._sent else 'sent'}, so not billed"
        how = how if error is None else f"{how}: {type(error).__name__}"
        model = self.model
        return self._run.record(self.usage_id, model.provider, model.name, Tokens(), (), how=how)

    def _estimate(self, reply: Reply | None) -> Tokens:
        counter = self._run.resources.counter
        prompt = tokens_of(self.request, counter)
        written = "".join(self._text + self._arguments) if reply is None else message_text(reply.message)
        reasoning = counter.count("".join(self._reasoning))
        completion = counter.count(written) + (reasoning if reply is None else 0)
        return Tokens(prompt=prompt, completion=completion, reasoning=reasoning)


def _filled(reported: Tokens, seen: Tokens) -> Tokens:
    """Return the *reported* counts with the estimate for each zero."""
    completion = reported.completion or seen.completion
    return dataclasses.replace(reported, prompt=reported.prompt or seen.prompt, completion=completion)


def _how(run: RunSession) -> str:
    """Return how usage is estimated."""
    return f"counted with {run.resources.counter.name}"


def _with_partial(
    run: RunSession, put: Callable[[RunEvent], None], partial: PartialReader
) -> Callable[[RunEvent], None]:
    """Return *put* followed by the value of the text so far, as the consumer sees the text."""

    def put_text(event: RunEvent) -> None:
        put(event)
        if type(event) is TextDelta and (value := partial.read(event.text)) is not None:
            put(PartialOutput(run.id, run.path, run.tree.content_index, value))

    return put_text


def _with_own_names(message: AssistantMessage, sent: Mapping[str, str]) -> AssistantMessage:
    """Return *message* with the tools' own names in place of the *sent* ones."""
    if not any(call.name in sent for call in message.tool_calls):
        return message
    parts = [
        dataclasses.replace(part, name=sent.get(part.name, part.name)) if part.kind == "tool_call" else part
        for part in message.parts
    ]
    return dataclasses.replace(message, parts=tuple(parts))
