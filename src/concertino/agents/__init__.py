"""Ready-made agents and parts. They are ordinary `AgentConfig` and `Part` subclasses; the engine knows none by name."""

from ..orchestrator.journal.patterns import CARD_NUMBER, EMAIL, IBAN
from ..waits import ASK_PERSON
from .agent_tool import delegate
from .deep_research import DeepResearchSupervisor
from .facts import Fact, FileKnowledge, Knowledge
from .goal import GoalAgent, GoalState
from .living_document import DocumentEntry, LivingDocument
from .main_thread import MainThreadAgent
from .notifications import Notification, Notifier, notification_of, notify_about
from .parts import (
    Approvals,
    Documents,
    InputGuardrail,
    Judgment,
    McpTools,
    Notes,
    OutputGuardrail,
    Refusal,
    Research,
    Skills,
    TextRedaction,
    ToolGuardrail,
    ToolSearch,
    UserMemory,
)
from .person import ask_person
from .researcher import ResearcherAgent
from .stuck import Stuck, StuckDetection
from .worker import (
    EXIT_CONDITIONS,
    LoopConfig,
    PreEnrichment,
    WorkerAgent,
    WorkerContext,
    WorkerDefinition,
    WorkerState,
    load_worker,
    load_workers,
)
from .workflow import (
    AgentStep,
    HumanStep,
    Loop,
    PlannedStep,
    Routing,
    ScriptedStep,
    Step,
    StepVisit,
    Verifier,
    Workflow,
    WorkflowAgent,
    WorkflowState,
    load_workflow,
    workflow_tools,
)

__all__ = [
    "ASK_PERSON",
    "CARD_NUMBER",
    "EMAIL",
    "EXIT_CONDITIONS",
    "IBAN",
    "AgentStep",
    "Approvals",
    "DeepResearchSupervisor",
    "DocumentEntry",
    "Documents",
    "Fact",
    "FileKnowledge",
    "GoalAgent",
    "GoalState",
    "HumanStep",
    "InputGuardrail",
    "Judgment",
    "Knowledge",
    "LivingDocument",
    "Loop",
    "LoopConfig",
    "MainThreadAgent",
    "McpTools",
    "Notes",
    "Notification",
    "Notifier",
    "OutputGuardrail",
    "PlannedStep",
    "PreEnrichment",
    "Refusal",
    "Research",
    "ResearcherAgent",
    "Routing",
    "ScriptedStep",
    "Skills",
    "Step",
    "StepVisit",
    "Stuck",
    "StuckDetection",
    "TextRedaction",
    "ToolGuardrail",
    "ToolSearch",
    "UserMemory",
    "Verifier",
    "WorkerAgent",
    "WorkerContext",
    "WorkerDefinition",
    "WorkerState",
    "Workflow",
    "WorkflowAgent",
    "WorkflowState",
    "ask_person",
    "delegate",
    "load_worker",
    "load_workers",
    "load_workflow",
    "notification_of",
    "notify_about",
    "workflow_tools",
]
