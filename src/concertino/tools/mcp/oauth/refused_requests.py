"""Why the requests of a call were refused: the SDK does not tell its caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ....errors import ConcertinoError
from ....records import record
from .login_values import Challenge, LoginRequiredError


@record(frozen=False)
class RefusedRequests:
    """Why the requests of one call were refused."""

    server: str
    challenge: Challenge | None = None
    problem: ConcertinoError | None = None

    def check(self) -> None:
        """Raise why a request was refused, if one was: `LoginRequiredError`, or why the tokens cannot be used."""
        if self.problem is not None:
            raise self.problem from None
        if self.challenge is not None:
            raise LoginRequiredError(self.server, self.challenge) from None


_current: ContextVar[RefusedRequests | None] = ContextVar("concertino_mcp_refusal", default=None)
"""Of the call in whose context a request is sent; the SDK sends each request in the context of its call."""


@contextmanager
def refusals(server: str) -> Iterator[None]:
    """Replace an error of the block by the reason why one of its requests was refused, if there is one."""
    found = RefusedRequests(server)
    token = _current.set(found)
    try:
        yield
    except Exception:
        found.check()
        raise
    finally:
        _current.reset(token)


def current_refusal(server: str) -> RefusedRequests:
    """Return the object that describes the refusal of a request in this context."""
    return _current.get() or RefusedRequests(server)
