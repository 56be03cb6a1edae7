"""The classes of faults that `check_agent` looks for, and the error that reports the faults it found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, get_args

from ...records import record

FaultClass = Literal[
    "hook",
    "input",
    "state",
    "shared",
    "unstable",
    "endless",
    "policy",
    "resume",
    "approval",
    "request",
    "message",
    "usage",
    "stop",
    "blocking",
    "answer",
]
"""A property that an agent lacks. docs/testing.md describes each."""

REMEDIES: dict[FaultClass, str] = {
    "hook": "return one of the types that the hook promises for every input, and handle what a model may write",
    "input": "leave arguments and run.state unchanged; return the new value, or keep it in run.agent_state",
    "state": "use a dataclass or a pydantic model with typed fields of plain JSON values, and keep nothing beside them",
    "shared": "keep what belongs to one run in run.agent_state; the config, its class and its module serve all runs",
    "unstable": "decide from the arguments, run.chat and run.agent_state only, not from time, chance or a counter",
    "endless": "count the attempts in run.agent_state and return Finish or Fail after a few",
    "policy": "keep what the policy excludes out of states, messages, events, logs and prints",
    "resume": "keep everything that a later decision needs in run.agent_state, which the journal restores",
    "approval": "decide on the validated arguments, and allow a call that needed a person only after the approval",
    "request": "answer every tool call once, directly after it, and offer the tools that tool_choice names",
    "message": "keep the user's messages in the conversation and in each request",
    "usage": "change only cost and price_version of the record",
    "stop": "raise CancelledError again after cleaning up, and let nothing continue in the background",
    "blocking": "define the hook with `async def` and await an asynchronous library, or use asyncio.to_thread",
    "answer": "return the model's last text from conclude unless you replace it by another valid answer",
}
"""What to do about each class of faults."""
CLASSES: tuple[FaultClass, ...] = get_args(FaultClass)


@record
class Fault:
    """A fault of an agent, with the shortest sequence of events that was found to show it."""

    kind: FaultClass
    problem: str
    """What happened, and which hook or value caused it."""
    events: tuple[str, ...]
    """The events that led to it, in order; empty if every run shows it from its start."""

    @property
    def remedy(self) -> str:
        """The remedy of its class."""
        return REMEDIES[self.kind]

    def __str__(self) -> str:
        counted = [(event, len(list(group))) for event, group in groupby(self.events)]
        events = " -> ".join(event if times == 1 else f"{event} ({times} times)" for event, times in counted)
        return f"{self.kind}: {self.problem}\n  events: {events or 'the run starts'}\n  remedy: {self.remedy}"


class AgentFaultError(AssertionError):
    """An agent has faults; `faults` has one for each class that was found."""

    def __init__(self, agent: str, faults: Sequence[Fault], cases: int, seed: int) -> None:
        names = ", ".join(fault.kind for fault in faults)
        found = "\n".join(map(str, faults))
        super().__init__(f"agent {agent!r}: {names} (after {cases} cases with the seed {seed})\n{found}")
        self.faults = tuple(faults)


@record
class CheckReport:
    """The extent of a check that found no fault."""

    cases: int
    """Number of runs that were played."""
    points: int
    """Number of different moments in a run at which something happened to it."""
