"""The named SQL statements, and the rule of who reaches what as one SQL predicate."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from ...errors import ConfigurationError
from ...scope import AnyScope, Scope, TenantScope
from .rows import scope_row
from .session import Session

_SQL = Path(__file__).parent / "queries"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_REACHED = re.compile(r"/\*reached (\w+)\*/")
_FREE = re.compile(r"/\*free ([^*]+)\*/")
_IS_FREE = """(NOT EXISTS (
    SELECT 1 FROM consumers AS x WHERE x.lease > :now AND x.owner <> :consumer AND (
        {agent} IN (SELECT value FROM json_each(x.agents))
        OR substr({agent}, 1, length(x.target) + 6) = 'tool:' || x.target || ':'
    )
) OR EXISTS (
    SELECT 1 FROM consumers AS own WHERE own.lease > :now AND own.owner = :consumer
        AND {agent} IN (SELECT value FROM json_each(own.agents))
))"""
"""Whether no consumer but `:consumer` has the target of an agent, or of a run that calls a tool.

If two consumers name the same agent, as while it moves to another target, both may take its work.
"""
_PREDICATES = {
    # The hash is indexed, and the ids decide: another scope may have the same hash.
    "Scope": "({t}.scope_key = :scope_key AND {t}.tenant = :tenant AND {t}.user_id = :user)",
    "TenantScope": "({t}.tenant = :tenant AND {t}.tenant <> '')",  # the condition of the index of tenants
    "TenantScope of a single tenant": "{t}.tenant = ''",
    "Operator": "true",
}
"""The rule `reaches` of each kind of scope, for the owner of a row of the table *t*."""
_MOST_ROWS = 2**63 - 1


def most(limit: int) -> int:
    """Return *limit* within a database's range; in SQLite a negative number would mean no limit."""
    return max(0, min(limit, _MOST_ROWS))


def read_statements(folder: Path) -> dict[str, str]:
    """Return the statements of the SQL files in *folder* by name.

    A comment such as `/*free r.agent*/` becomes the condition that this process may take the work of an agent.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        _, *pieces = _NAME.split(_FREE.sub(lambda mark: _IS_FREE.format(agent=mark[1]), path.read_text("utf-8")))
        found.update((name, sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True))
    return found


@cache
def shared_queries() -> dict[str, str]:
    """Return the statements of all databases by name. A comment such as `/*conditions*/` is replaced by the caller."""
    return read_statements(_SQL)


def scoped(connection: Session, name: str, scope: AnyScope) -> tuple[str, dict[str, object]]:
    """Return the statement *name*, limited to the rows that *scope* reaches, and the parameters of the limit.

    A statement marks the limit with a comment such as `/*reached r*/`, where `r` is the table with the owner's columns.
    For a `TenantScope`, a database may have a statement of its own, *name* with `_of_tenant`.
    """
    kind = type(scope).__name__ if isinstance(scope, Scope) else kind_of(scope)  # most are: that saves a call
    if kind == "TenantScope" and f"{name}_of_tenant" in connection.queries:
        name = f"{name}_of_tenant"
    return limited(connection.queries[name], kind), scope_row(scope)


def kind_of(scope: AnyScope) -> str:
    """Return the kind of *scope*, by which a statement is limited."""
    if isinstance(scope, TenantScope) and not scope.tenant:
        return "TenantScope of a single tenant"
    return type(scope).__name__


@lru_cache(1024)
def limited(sql: str, kind: str) -> str:
    """Return the statement *sql*, limited for scopes of this kind."""
    if kind not in _PREDICATES:
        raise ConfigurationError(f"invalid scope of type {kind}: use a Scope, a TenantScope or OPERATOR")
    return _REACHED.sub(lambda mark: _PREDICATES[kind].format(t=mark[1]), sql)
