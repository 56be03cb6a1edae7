"""A model call: attempts at one request, each recorded, budgeted, retried and rate-limited.

The turn, a hook's question and a summary all call a model through `ModelCall`. From the outside in: `ModelCall` repeats
a failed attempt or turns to a fallback (`retry`); its caller's *renew* builds, reserves (`budget`) and records each
further request; `Attempt` waits for the rate limit, reads the stream and books the usage.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

from ...errors import ConfigurationError, ContextTooLongError, LimitError, ProviderError
from ...events import AttemptFailed, Audience, QuestionAnswered, StoppedWork
from ...providers.base import Model, ModelRequest, model_id
from ..hooks import Hooks, reviewed
from ..recorder import Prepared, record_side_request
from ..resources import Limits
from ..run import RunSession
from .attempt import Attempt, OnReady
from .retry import Attempts

Renew = Callable[[Prepared, Model, ProviderError], Awaitable[Prepared | None]]
"""Prepares a failed request once more for a model; None if that is not possible. Raises `ContextFloorError`."""


class ModelCall:
    """Model calls of a run: those of its turns, or those of one *side* call.

    The deltas have this *audience*; without an audience no deltas are sent. `attempt` is the newest attempt, also after
    `answer` raised.
    """

    __slots__ = ("_audience", "_call_id", "_hooks", "_run", "_side", "attempt")

    def __init__(
        self,
        run: RunSession,
        hooks: Hooks,
        *,
        audience: Audience | None = "answer",
        side: bool = False,
        call_id: str | None = None,
    ) -> None:
        self._run = run
        self._hooks = hooks
        self._audience: Audience | None = audience
        self._side = side
        self._call_id = call_id
        self.attempt: Attempt | None = None

    async def answer(
        self,
        prepared: Prepared,
        renew: Renew,
        *,
        on_ready: OnReady | None = None,
        on_retry: Callable[[], Awaitable[None]] | None = None,
    ) -> Attempt:
        """Return the attempt that was answered; *on_retry* is awaited before another attempt.

        Raises `ProviderError` if every model and retry failed. Whatever it raises, every attempt is booked.
        """
        retries: Attempts | None = None
        while True:
            self.attempt = attempt = Attempt(
                self._run, self._hooks, prepared, audience=self._audience, side=self._side, call_id=self._call_id
            )
            try:
                await attempt.answer(on_ready)
            except ProviderError as error:
                attempt.close(error)
                if retries is None:
                    retries = Attempts(self._run.resources.retry, self._run.resources.fallback, self._can_open)
                model = await self._next_model(attempt, error, retries, on_retry)
                if (renewed := await renew(prepared, model, error)) is None:
                    raise
                prepared = renewed
            except BaseException as error:
                self._stop(attempt, error)
                raise
            else:
                return attempt

    async def _next_model(
        self,
        attempt: Attempt,
        error: ProviderError,
        retries: Attempts,
        on_retry: Callable[[], Awaitable[None]] | None,
    ) -> Model:
        """Return the model to call next, once it may be called. Raises *error* if no attempt is left."""
        following = retries.after(error, attempt.model_id, seen=attempt.seen)
        if following is None or not self._run.meter.has_model_call:
            raise error
        name, seconds = following
        reported = f"{type(error).__name__}: {error}"
        self._run.emit(AttemptFailed, attempt.model_id, reported, name, seconds, attempt.usage_id)
        if on_retry is not None:
            await on_retry()
        await asyncio.sleep(seconds)
        return attempt.model if name == attempt.model_id else self._run.find_model(name)

    def _can_open(self, model: str) -> bool:
        """Return whether the fallback *model* can be opened; otherwise emit a notice."""
        try:
            self._run.find_model(model)
        except ConfigurationError as error:
            self._run.notify("not_sent", f"not sent to {model}, which cannot be opened: {error}")
            return False
        return True

    def _stop(self, attempt: Attempt, error: BaseException) -> None:
        run = self._run
        attempt.close(error if isinstance(error, Exception) else None)
        if not attempt.answered and not isinstance(error, Exception):
            run.tree.note_stopped("stopped", StoppedWork(agent_path=run.path, what="model", name=attempt.model_id))


class SideCall:
    """A model call outside the conversation: its requests are recorded aside and reserved like any other."""

    def __init__(
        self, run: RunSession, hooks: Hooks, *, audience: Audience | None, last: bool, call_id: str | None = None
    ) -> None:
        self._run = run
        self._hooks = hooks
        self._last = last
        self._audience = audience
        self._call = ModelCall(run, hooks, audience=audience, side=True, call_id=call_id)

    async def answer(self, model: Model, request: ModelRequest) -> Attempt:
        """Return the attempt that was answered. The agent judges an answer to the user before it is shown.

        Raises `LimitError` if no limit or budget covers it, and `ProviderError` as `ModelCall` does.
        """
        attempt = await self._call.answer(await self._prepare(model, request), self._renew)
        if self._audience == "answer" and self._hooks.review_answer.own:
            attempt.release(await reviewed(self._run, self._hooks, attempt.message))
        if self._audience is not None:
            self._run.emit(QuestionAnswered, attempt.message.text, self._audience, attempt.usage_id)
        return attempt

    async def _prepare(self, model: Model, request: ModelRequest) -> Prepared:
        run = self._run
        if (found := run.meter.limit()) is not None:
            raise LimitError(found[1], found[0])
        prepared = Prepared(model, model_id(model), request, run.next_attempt())
        if run.journal.on:
            reserve = None
            if run.tree.budgeted:
                reserve = run.reserve.reservation(prepared.usage_id, model, request, last=self._last)
            await record_side_request(run, prepared, reserve)
        return prepared

    async def _renew(self, prepared: Prepared, model: Model, error: ProviderError) -> Prepared | None:
        request = prepared.request
        if model is not prepared.model:
            request = for_model(request, model, self._run.limits_of(model))
        elif isinstance(error, ContextTooLongError):
            return None  # the same request would be refused again
        return await self._prepare(model, request)


def for_model(request: ModelRequest, model: Model, limits: Limits) -> ModelRequest:
    """Return *request* for another model, with an answer within its limits."""
    output = request.max_output_tokens and min(request.max_output_tokens, limits.output)
    return dataclasses.replace(request, model=model.name, max_output_tokens=output)
