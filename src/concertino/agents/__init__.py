"""Ready-made agents and parts. They are ordinary `AgentConfig` and `Part` subclasses; the engine knows none by name."""

from ..orchestrator.journal.patterns import CARD_NUMBER, EMAIL, IBAN
from .agent_tool import delegate
from .deep_research import DeepResearchSupervisor
from .living_document import DocumentEntry, LivingDocument
from .main_thread import MainThreadAgent
from .parts import (
    Approvals,
    Documents,
    InputGuardrail,
    Judgment,
    Notes,
    OutputGuardrail,
    Refusal,
    Research,
    TextRedaction,
    ToolGuardrail,
    UserMemory,
)
from .researcher import ResearcherAgent
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

__all__ = [
    "CARD_NUMBER",
    "EMAIL",
    "EXIT_CONDITIONS",
    "IBAN",
    "Approvals",
    "DeepResearchSupervisor",
    "DocumentEntry",
    "Documents",
    "InputGuardrail",
    "Judgment",
    "LivingDocument",
    "LoopConfig",
    "MainThreadAgent",
    "Notes",
    "OutputGuardrail",
    "PreEnrichment",
    "Refusal",
    "Research",
    "ResearcherAgent",
    "TextRedaction",
    "ToolGuardrail",
    "UserMemory",
    "WorkerAgent",
    "WorkerContext",
    "WorkerDefinition",
    "WorkerState",
    "delegate",
    "load_worker",
    "load_workers",
]
