"""The transition function of operations."""

from __future__ import annotations

from itertools import product
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from concertino.operations import ENDED, OperationEvent, OperationState, accepts, transition

STATES: tuple[OperationState, ...] = get_args(OperationState)
EVENTS: tuple[OperationEvent, ...] = get_args(OperationEvent)


def test_every_event_has_a_result_in_every_state() -> None:
    for state, event in product(STATES, EVENTS):
        assert transition(state, event) in STATES


def test_an_ended_operation_changes_only_when_it_is_settled() -> None:
    changed = {(s, e) for s, e in product(ENDED, EVENTS) if transition(s, e) != s}
    assert changed == {("unknown", "settle")}


def test_accepts_lists_the_states_that_an_event_leaves() -> None:
    for event in EVENTS:
        assert set(accepts(event)) == {state for state in STATES if transition(state, event) != state}


def test_every_state_but_the_first_can_be_reached() -> None:
    reached: set[OperationState] = {"planned"}
    while new := {transition(s, e) for s, e in product(reached, EVENTS)} - reached:
        reached |= new
    assert reached == set(STATES)


@given(st.lists(st.sampled_from(EVENTS)))
def test_a_walk_ends_once(events: list[OperationEvent]) -> None:
    """However events arrive, an operation ends at most once, and an approval never skips the tool's own run."""
    state: OperationState = "planned"
    ended: OperationState | None = None
    for event in events:
        before, state = state, transition(state, event)
        if event == "approve" and state != before:
            assert (before, state) == ("waiting", "planned")
        if event in ("deny", "expire", "resolve") and state != before:
            assert before in ("waiting", "running")
        if ended is not None and event != "settle":
            assert state == ended
        ended = state if state in ENDED else None


@given(st.lists(st.sampled_from(EVENTS)), st.sampled_from(EVENTS))
def test_a_repeated_event_changes_nothing_more(events: list[OperationEvent], last: OperationEvent) -> None:
    state: OperationState = "planned"
    for event in events:
        state = transition(state, event)
    once = transition(state, last)
    if last != "approve":
        assert transition(once, last) == once
