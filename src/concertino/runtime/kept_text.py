"""Texts that are stored apart from a run: titles and feedback."""

from __future__ import annotations

from ..orchestrator.journal.data_policy import DataPolicy, stored_text, text_seconds
from ..orchestrator.journal.patterns import redactor_of


def kept_text(policy: DataPolicy, text: str) -> tuple[str, float | None]:
    """Return *text* as the policy leaves it, and the seconds for which it may be kept; None: without a limit."""
    redactor = redactor_of(tuple(policy.patterns))
    return stored_text(policy, text if redactor is None else redactor.text(text)), text_seconds(policy)
