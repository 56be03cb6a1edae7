"""The state of a workflow's run. The journal keeps it with every turn."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from ...records import record
from ..facts import Fact
from ..living_document import LivingDocument
from ..stuck import StuckDetection

VisitStatus = Literal["running", "completed", "continued", "failed"]


@record(frozen=False)
class StepVisit:
    """A visit of a step: in a loop, a step has several."""

    id: str
    kind: str
    number: int
    """The number of the visit in the run, from 1. It is the step token: the engine alone changes it."""
    status: VisitStatus = "running"
    notes: str = ""
    by: str = ""
    """Who let the step pass, if a verifier, a judge or a person decided."""


@record(frozen=False)
class StepWork:
    """The work on the current step."""

    first_message: int = 0
    """The number of messages before the step."""
    call: tuple[str, dict[str, Any]] | None = None
    """The call that the engine makes next, without a model."""
    own: list[str] = field(default_factory=list)
    """The ids of the engine's own calls in the current turn."""
    failed: list[str] = field(default_factory=list)
    """The tools that failed in the current turn."""
    completion: dict[str, Any] | None = None
    """The notes and variables of a completion that is not accepted yet."""
    unreadable: str = ""
    """What was wrong with the last structured answer; empty if it could be read."""
    draft: str = ""
    """The notes of the last structured answer."""
    called: bool = False
    """Whether the model called tools in the current turn."""
    reminders: int = 0
    objections: int = 0
    """How often the verifier has refused."""
    nudges: int = 0
    review: str = ""
    """What a person is asked about: `verify`, `turn`, `stuck`, `script` or `unknown`; empty if none is asked."""
    why: str = ""
    """The reason for the question, or what stands against the current plan."""
    stage: Literal["", "review", "execute", "sum_up"] = ""
    """The stage of a planned step."""
    plan: list[dict[str, Any]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """The results of the plan's items so far."""
    effects: dict[str, str] = field(default_factory=dict)
    """The results of the calls with effects so far: no later plan of the step repeats them."""
    replans: int = 0


@record(frozen=False)
class WorkflowState:
    """The position of a run in its workflow, and its findings."""

    variables: dict[str, Any] = field(default_factory=dict)
    at: int = 0
    """The position in the program."""
    rounds: dict[str, int] = field(default_factory=dict)
    """The rounds begun, by the position of the loop."""
    begun: bool = False
    """Whether the step at the position has begun."""
    visits: list[StepVisit] = field(default_factory=list)
    work: StepWork = field(default_factory=StepWork)
    document: LivingDocument = field(default_factory=LivingDocument)
    """The notes of each step, with the visit as their label."""
    stuck: StuckDetection = field(default_factory=StuckDetection)
    facts: list[Fact] = field(default_factory=list)
    """Facts of earlier runs that are not stale."""
    learned: list[Fact] = field(default_factory=list)
    """Facts of this run."""
    written: int = 0
    """The number of them that the knowledge has."""
    failure: str = ""
    ended: bool = False
