"""Approval rules: tools that a user has approved for a conversation, or for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ...errors import RunStateError
from ...scope import Scope
from ...waits import Remember
from ..types import ApprovalRule
from .rows import hash_key, scope_key
from .statements import queries


def remember_approval(connection: sqlite3.Connection, key: str, remember: Remember) -> None:
    """Keep the approval of the call *key* as a rule. Raises `RunStateError` if its run has no user or conversation."""
    bound = {"key": key, "always": remember == "always"}
    row = connection.execute(queries()["may_remember"], bound).fetchone()
    if row is not None and not row[0]:
        raise RunStateError(
            f"{key} cannot be approved with remember={remember!r}: its run belongs to no user, or to no conversation; "
            "approve it once"
        )
    connection.execute(queries()["add_approval_rule"], bound)


def is_allowed(connection: sqlite3.Connection, scope: Scope, agent: str, tool: str, conversation_id: str) -> bool:
    """Return whether a rule of *scope* allows *tool* to *agent* in this conversation."""
    conversation = hash_key(conversation_id) if conversation_id else b""
    bound = {"scope_key": scope_key(scope.key), "agent": agent, "tool": tool, "conversation_key": conversation}
    return bool(connection.execute(queries()["has_approval_rule"], bound).fetchone()[0])


def rules_of(connection: sqlite3.Connection, scope: Scope) -> Sequence[ApprovalRule]:
    """Return the rules of *scope*."""
    rows = connection.execute(queries()["approval_rules"], {"scope_key": scope_key(scope.key)}).fetchall()
    return tuple(ApprovalRule(agent=agent, tool=tool, always=not conversation) for agent, tool, conversation in rows)


def revoke(connection: sqlite3.Connection, scope: Scope, tool: str) -> int:
    """Delete all rules of *scope* about *tool*, and return their number."""
    bound = {"scope_key": scope_key(scope.key), "tool": tool}
    return connection.execute(queries()["revoke_approval_rules"], bound).rowcount
