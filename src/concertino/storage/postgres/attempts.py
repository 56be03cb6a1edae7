"""Work in a session, repeated after lost connections and conflicts between transactions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count, zip_longest
from typing import Any

import psycopg

from ..sql.jobs import Outcome
from ..sql.select import Select
from ..sql.session import Sealer, Write
from .errors import OLD_PLAN, READ_ONLY, explain, is_conflict, may_pass
from .session import LostError, PostgresSession
from .single_trip import UNUSUAL, Call, call_of, calls_of

_CONFLICTS = 5
"""How often work is repeated because another transaction inserted the same key."""


class Attempts:
    """Does work for a store, and tries again for up to *patience* seconds from the first failure on."""

    def __init__(self, name: str, patience: float, read_only: bool, sealer: Sealer | None) -> None:
        """Name the database for messages."""
        self._name, self._patience, self._read_only, self._sealer = name, patience, read_only, sealer

    def outcomes(
        self, session: PostgresSession, works: Sequence[Any], calls: Sequence[Call], failure: psycopg.Error | None
    ) -> Iterator[Outcome]:
        """Return the outcomes of *works*, done in their order.

        The *calls* of the first ones may have been sent before; *failure* is the error of that attempt.
        """
        if not calls and len(works) > 1:
            calls, done = self._together(session, works)
            yield from done
            works, calls = works[len(done) :], calls[len(done) :]
        for work, call in zip_longest(works, calls):
            yield self.outcome(session, work, call, failure)
            failure = None

    def _together(self, session: PostgresSession, works: Sequence[Any]) -> tuple[Sequence[Call], Sequence[Outcome]]:
        """Try to do the first two of *works* in one transaction. Return the calls for them, and their outcomes, if any.

        Whatever goes wrong, the calls can be repeated one by one: each has a token, and is done once.
        """
        calls: Sequence[Call] = ()
        with suppress(Exception):
            calls = calls_of(works, self._sealer)
            if len(calls) > 1 and None not in (values := session.call(calls)):
                return calls, [(call.result(value), None) for call, value in zip(calls, values, strict=True)]
        session.reset()
        return calls, ()

    def outcome(self, session: PostgresSession, work: Any, call: Call | None, failure: psycopg.Error | None) -> Outcome:
        """Return the outcome of *work*, repeated while that may help.

        Its *call* may have been sent before; *failure* is the error of that attempt.
        """
        deadline, usual = None, True
        if isinstance(work, Select) and call is not None and failure is None:
            usual, call = False, None  # the event loop has asked: the answer is long
        for tries in count():
            try:
                call = call or (call_of(work, self._sealer) if usual else None)
                return _done(session, work, call, failure), None
            except LostError:
                pass
            except psycopg.Error as error:
                failure = None
                session.reset()
                if error.sqlstate == UNUSUAL:
                    usual, call = False, None
                    continue
                deadline = deadline or time.monotonic() + self._patience  # from the first failure on
                conflict = is_conflict(error) and tries < _CONFLICTS
                refused = error.sqlstate == READ_ONLY
                if not (conflict or may_pass(error)) or time.monotonic() > deadline or (refused and self._read_only):
                    return None, self._explained(error)
                if refused or error.sqlstate == OLD_PLAN:
                    session.close()  # the server is a standby now, so look for the primary; or prepare anew
            except (UnicodeError, OverflowError) as error:
                return None, self._explained(error)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                return None, error
            time.sleep(min(0.01 * 2**tries, 0.5) * (0.5 + random.random()))  # noqa: S311 - to spread retries
        raise AssertionError("it returns from the loop")

    def _explained(self, error: Exception) -> Exception:
        explained = explain(error, self._name)
        explained.__cause__ = error
        return explained


def _done(session: PostgresSession, work: Any, call: Call | None, failure: psycopg.Error | None) -> Any:
    """Return the result of *work*. Raises *failure*, with which it has failed already.

    A write is done by its *call*, or else in a transaction, under the lock of its tree.
    """
    if failure is not None:
        raise failure
    if call is not None and (found := session.call([call])[0]) is not None:
        return call.result(found)
    if not isinstance(work, Write):
        return work(session)
    with session.transaction():
        if work.tree:
            session.lock(work.lock, {"run_id": work.tree})
        result = work.work(session)
    if work.erased:
        session.checkpoint()
    return result
