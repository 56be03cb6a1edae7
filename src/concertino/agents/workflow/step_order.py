"""The program of a workflow: its steps and loops in a line, and the position that only the engine moves."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ConfigurationError
from ...records import record
from .conditions import is_met
from .workflow import Loop, Step
from .workflow_state import WorkflowState


@record
class Instruction:
    """A step, the begin of a loop, or its end."""

    what: Step | Loop
    end: int = 0
    """For the begin of a loop: the position of its end."""
    begin: int = -1
    """For the end of a loop: the position of its begin."""


def program_of(steps: Sequence[Step | Loop]) -> tuple[Instruction, ...]:
    """Return the program of *steps*."""
    made: list[Instruction] = []
    _add(made, steps)
    return tuple(made)


def _add(made: list[Instruction], steps: Sequence[Step | Loop]) -> None:
    for each in steps:
        if not isinstance(each, Loop):
            made.append(Instruction(each))
            continue
        begin = len(made)
        made.append(Instruction(each))
        _add(made, each.steps)
        made[begin] = Instruction(each, end=len(made))
        made.append(Instruction(each, begin=begin))


def next_step(program: Sequence[Instruction], state: WorkflowState) -> Step | None:
    """Move *state* to the next step whose condition is met and return it; None at the end.

    Raises `ConfigurationError` if a condition cannot be evaluated, or a loop is not done after its rounds.
    """
    while state.at < len(program):
        here = program[state.at]
        if isinstance(here.what, Loop):
            state.at = here.begin if here.begin >= 0 else _enter(here, here.what, state)
        elif here.what.when is None or is_met(here.what.when, state.variables):
            return here.what
        else:
            state.at += 1
    return None


def _enter(here: Instruction, loop: Loop, state: WorkflowState) -> int:
    """Begin a round of *loop*, or leave it; return the position that follows."""
    key = str(state.at)
    rounds = state.rounds.get(key, 0)
    if rounds == 0 and loop.when is not None and not is_met(loop.when, state.variables):
        return here.end + 1
    if loop.each:
        items = state.variables.get(loop.each) or []
        if not isinstance(items, list):
            raise ConfigurationError(f"the loop over {loop.each!r} needs a list, not {items!r:.80}")
        done = rounds >= len(items)
    else:
        items = []
        assert loop.until is not None
        done = rounds > 0 and is_met(loop.until, state.variables)
    if not done and rounds >= loop.most:
        if loop.otherwise == "fail":
            over = f" over {loop.each!r}" if loop.each else ""
            raise ConfigurationError(f"the loop{over} is not done after {loop.most} rounds")
        done = True
    if done:
        state.rounds.pop(key, None)
        return here.end + 1
    if loop.each:
        state.variables[loop.item] = items[rounds]
    state.rounds[key] = rounds + 1
    return state.at + 1
