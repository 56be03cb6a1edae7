"""Secrets of users, which the product has encrypted."""

from __future__ import annotations

from ...scope import AnyScope, Scope
from .rows import scope_row
from .session import Session
from .statements import scoped

_MICROSECONDS = 1_000_000


def secret(connection: Session, scope: AnyScope, name: str) -> tuple[str, int] | None:
    """Return the encrypted text and the version of a secret, or None."""
    sql, bound = scoped(connection, "secret", scope)
    row = connection.execute(sql, {**bound, "name": name}).fetchone()
    return None if row is None else (row["sealed"], row["version"])


def put_secret(connection: Session, scope: Scope, name: str, sealed: str, version: int | None) -> bool:
    """Replace *version* of a secret, or add it. Return whether this was done."""
    bound: dict[str, object] = {"name": name, "sealed": sealed}
    if version is None:
        # The first version is a time, so that a secret which is erased and added again has other versions.
        first = int(connection.now() * _MICROSECONDS)
        added = {**scope_row(scope), **bound, "version": first}
        return connection.execute(connection.queries["add_secret"], added).rowcount == 1
    sql, reached = scoped(connection, "replace_secret", scope)
    return connection.execute(sql, {**reached, **bound, "version": version}).rowcount == 1


def claim_secret(connection: Session, scope: Scope, name: str, version: int, seconds: float) -> bool:
    """Claim *version* of a secret for *seconds*. Return whether this was done."""
    sql, bound = scoped(connection, "claim_secret", scope)
    now = connection.now()
    bound = {**bound, "name": name, "version": version, "now": now, "until": now + seconds}
    return connection.execute(sql, bound).rowcount == 1


def delete_secret(connection: Session, scope: AnyScope, name: str, version: int | None) -> bool:
    """Erase a secret, if it has *version*. Return whether there was one."""
    sql, bound = scoped(connection, "delete_secret", scope)
    return connection.execute(sql, {**bound, "name": name, "version": version}).rowcount > 0


def forget_secrets(connection: Session, scope: AnyScope) -> None:
    """Erase all secrets that *scope* reaches; inside a transaction."""
    connection.execute(*scoped(connection, "forget_secrets", scope))
