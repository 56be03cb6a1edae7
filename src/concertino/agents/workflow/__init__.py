"""Workflows: typed steps that the engine advances. Models and people do the steps; none of them moves the position."""

from .outside_tools import workflow_tools
from .workflow import (
    AgentStep,
    HumanStep,
    Loop,
    PlannedStep,
    Routing,
    ScriptedStep,
    Step,
    Verifier,
    Workflow,
)
from .workflow_agent import WorkflowAgent
from .workflow_file import load_workflow
from .workflow_state import StepVisit, WorkflowState

__all__ = [
    "AgentStep",
    "HumanStep",
    "Loop",
    "PlannedStep",
    "Routing",
    "ScriptedStep",
    "Step",
    "StepVisit",
    "Verifier",
    "Workflow",
    "WorkflowAgent",
    "WorkflowState",
    "load_workflow",
    "workflow_tools",
]
