"""Approval rules: tools that a user has approved for a conversation, or for good."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import RunStateError
from ...scope import Scope
from ...waits import Remember
from ..types import ApprovalRule
from .rows import hash_key, scope_key
from .session import Session

_EVERYWHERE = b""
"""The conversation of a rule for all conversations."""


def remember_approval(connection: Session, key: str, remember: Remember) -> None:
    """Keep the approval of the call *key* as a rule. Raises `RunStateError` if its run has no user or conversation."""
    bound = {"key": key, "always": remember == "always", "everywhere": _EVERYWHERE}
    row = connection.execute(connection.queries["may_remember"], bound).fetchone()
    if row is not None and not row[0]:
        raise RunStateError(
            f"{key} cannot be approved with remember={remember!r}: its run belongs to no user, or to no conversation; "
            "approve it once"
        )
    connection.execute(connection.queries["add_approval_rule"], bound)


def is_allowed(connection: Session, scope: Scope, agent: str, tool: str, conversation_id: str) -> bool:
    """Return whether a rule of *scope* allows *tool* to *agent* in this conversation."""
    conversation = hash_key(conversation_id) if conversation_id else _EVERYWHERE
    bound = {
        "scope_key": scope_key(scope.key),
        "agent": agent,
        "tool": tool,
        "conversation_key": conversation,
        "everywhere": _EVERYWHERE,
    }
    return bool(connection.execute(connection.queries["has_approval_rule"], bound).fetchone()[0])


def rules_of(connection: Session, scope: Scope) -> Sequence[ApprovalRule]:
    """Return the rules of *scope*."""
    rows = connection.execute(connection.queries["approval_rules"], {"scope_key": scope_key(scope.key)}).fetchall()
    return tuple(ApprovalRule(agent=agent, tool=tool, always=not conversation) for agent, tool, conversation in rows)


def revoke(connection: Session, scope: Scope, tool: str) -> int:
    """Delete all rules of *scope* about *tool*, and return their number."""
    bound = {"scope_key": scope_key(scope.key), "tool": tool}
    return connection.execute(connection.queries["revoke_approval_rules"], bound).rowcount
