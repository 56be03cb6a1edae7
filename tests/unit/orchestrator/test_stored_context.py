"""The stored form of a conversation's context, in this version and the previous one."""

from __future__ import annotations

import dataclasses
import json

import pytest

from concertino.context_state import ContextState
from concertino.orchestrator.journal.entries import pack_context, unpack_context

MODEL = "anthropic:claude-sonnet-4-5"


@pytest.mark.parametrize("failures", [0, 1, 2, 7])
def test_a_stored_context_keeps_its_failures(failures: int) -> None:
    context = ContextState(sent_at=1.0, model=MODEL, bill=9.0, anchor=[1, 2, 3], counted=True, failures=failures)
    packed = json.loads(json.dumps(pack_context(context, lambda texts: [*texts])))
    assert unpack_context(packed, {}) == context
    assert len(packed) == 9, "the previous version reads nine fields"


@pytest.mark.parametrize("counted", [True, False])
def test_a_context_of_the_previous_version_has_no_failures(*, counted: bool) -> None:
    found = unpack_context([[], [], 1.0, MODEL, 9.0, 0, [1, 2, 3], counted, []], {})
    assert found == ContextState(sent_at=1.0, model=MODEL, bill=9.0, anchor=[1, 2, 3], counted=counted)
    written = dataclasses.asdict(found)
    del written["failures"]
    assert ContextState(**written) == found
