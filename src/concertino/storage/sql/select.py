"""Reading with one statement, which a connection may send in its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ...scope import AnyScope, Scope
from .rows import scope_row
from .session import Row, Session
from .statements import kind_of, limited

T = TypeVar("T")


class Select(Generic[T]):
    """A named statement, limited to what a scope reaches, and the meaning of its rows, whose values have names."""

    def __init__(
        self,
        name: str,
        scope: AnyScope,
        bound: Mapping[str, object],
        meaning: Callable[[Sequence[Row]], T],
        *,
        conditions: str = "",
    ) -> None:
        self._name, self._scope, self._bound, self._conditions = name, scope, bound, conditions
        self.meaning = meaning

    def statement(self, queries: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """Return the statement in the dialect of *queries*, with its parameters."""
        sql = queries[self._name]
        if self._conditions:
            sql = sql.replace("/*conditions*/", self._conditions)
        scope = self._scope
        kind = "Scope" if isinstance(scope, Scope) else kind_of(scope)  # most are: that saves a call
        return limited(sql, kind), {**scope_row(scope), **self._bound}

    def __call__(self, connection: Session) -> T:
        """Return what the rows mean."""
        return self.meaning(connection.execute(*self.statement(connection.queries)).fetchall())
