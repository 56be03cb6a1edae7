"""The owner of what the parts store and read."""

from __future__ import annotations

from typing import Any

from ...orchestrator.run import RunContext
from ...scope import Scope


def owner_of(run: RunContext[Any]) -> Scope:
    """Return the scope of the run."""
    session = run.chat.session
    return Scope(session.organization_id, session.user_id)
