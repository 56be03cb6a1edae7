"""The part of `Runtime` that answers what runs wait for."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ..errors import ConfigurationError, NotAllowedError, RunStateError
from ..ids import run_of, token
from ..orchestrator.tool_calls.approval import arguments_text
from ..scope import AnyScope
from ..storage.base import Store
from ..waits import ASK_PERSON, Remember, Resolution, Verdict, Wait, arguments_hash
from .answers import AnswerOutcome, approval_of, check_arguments
from .checks import check_number, check_text
from .counts import RuntimeCounts
from .question import check_answer

log = logging.getLogger("concertino")

_PAGE = 200
"""Open waits that are read at once, to find the questions among them."""


class Answering:
    """Reads and answers waits."""

    store: Store
    counts: RuntimeCounts

    async def _clean(self, scope: AnyScope, run_id: str, text: str) -> str:
        """Return *text*, from outside, as it may enter a run."""
        raise NotImplementedError

    async def _answered(self, wait: Wait) -> None:
        """Continue the tree of *wait*, which may have all answers now."""
        raise NotImplementedError

    async def approvals(self, scope: AnyScope, limit: int = 50, after: Wait | None = None) -> Sequence[Wait]:
        """Return the open approvals that *scope* may answer, the oldest first; for the next page, *after* the last one.

        Without names on a call, its owner may answer it; otherwise the people of the tenant that it names.
        """
        check_number(limit=limit)
        return await self.store.approvals(scope, limit=limit, after=after)

    async def questions(self, scope: AnyScope, limit: int = 50, after: Wait | None = None) -> Sequence[Wait]:
        """Return the open questions of `ask_person` in *scope*, the oldest first; for the next page, *after* the last.

        `resolve` answers them. `question_of` reads their form.
        """
        check_number(limit=limit)
        found: list[Wait] = []
        while len(found) < limit:
            page = await self.store.waits(scope, open=True, limit=_PAGE, after=after)
            found += [wait for wait in page if wait.kind == "result" and wait.tool == ASK_PERSON]
            if len(page) < _PAGE:
                break
            after = page[-1]
        return found[:limit]

    async def approve(
        self,
        scope: AnyScope,
        key: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        remember: Remember = "once",
    ) -> AnswerOutcome:
        """Approve a waiting call, with other *arguments* if given. Raises `NotAllowedError`, `UnknownWaitError`.

        Raises `ConfigurationError` if the schema of the call's tool rejects the arguments.

        If the call names people, only they may answer, each with their own scope of the same tenant. Otherwise, any
        scope that reaches the run may answer.

        *remember* adds an approval rule in the same transaction: the part `Approvals` no longer asks about calls of the
        tool by this agent for the run's user, in this conversation or always. Raises `RunStateError` without a user or
        a conversation.
        """
        if remember not in get_args(Remember):
            raise ConfigurationError(f"approve(remember={remember!r:.80}): use 'once', 'conversation' or 'always'")
        scope, wait = await approval_of(self.store, scope, key)
        if wait.arguments and arguments_hash(wait.arguments) != wait.arguments_hash:
            raise NotAllowedError(f"{key} cannot be approved: its arguments were changed after they were shown")
        if arguments is not None:
            await check_arguments(self.store, wait, arguments)
        edited = None if arguments is None else arguments_text(dict(arguments))
        return await self._answer(scope, key, "approved", "", edited, remember)

    async def deny(self, scope: AnyScope, key: str, reason: str = "") -> AnswerOutcome:
        """Deny a waiting call; the model reads the *reason*. Raises as `approve`."""
        check_text(reason=reason)
        scope, _ = await approval_of(self.store, scope, key)
        return await self._answer(scope, key, "denied", reason)

    async def resolve(self, scope: AnyScope, key: str, content: Any, *, failed: bool = False) -> AnswerOutcome:
        """Deliver the result, or with *failed* the error, of a waiting call. The first answer wins.

        A call of a remote tool accepts its result as soon as it runs. Raises `UnknownWaitError`, `RunStateError` if the
        call waits for an approval, and `ConfigurationError` if *content* does not answer the question of `ask_person`
        that waits: the question stays open.
        """
        wait = await self.store.wait(scope, key)
        if wait is not None and wait.kind == "approval" and wait.resolution is None:
            raise RunStateError(f"{key} waits for an approval: use approve or deny")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        if wait is not None and wait.resolution is None and not failed:
            await check_answer(wait, text)
        return await self._answer(scope, key, "failed" if failed else "result", text)

    async def _answer(
        self,
        scope: AnyScope,
        key: str,
        verdict: Verdict,
        content: str,
        edited: str | None = None,
        remember: Remember = "once",
    ) -> AnswerOutcome:
        run_id = run_of(key)
        content = await self._clean(scope, run_id, content) if content else ""
        edited = edited and await self._clean(scope, run_id, edited)
        mine = Resolution(
            id=token(), verdict=verdict, content=content, arguments=edited, by=scope.by, remember=remember
        )
        wait = await self.store.resolve(scope, key, mine, run_id=run_id if verdict in ("result", "failed") else None)
        won = wait.resolution is not None and wait.resolution.id == mine.id
        if won:
            await self._answered(wait)
        else:
            self.counts.late_answers += 1
            first = "nothing" if wait.resolution is None else wait.resolution.verdict
            log.info("an answer to %s changed nothing: %r, and %r counts", key, verdict, first)
        return AnswerOutcome(won, wait)
