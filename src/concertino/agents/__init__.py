"""Ready-made agents and parts. They are ordinary `AgentConfig` and `Part` subclasses; the engine knows none by name."""

from ..orchestrator.journal.patterns import CARD_NUMBER, EMAIL, IBAN
from .agent_tool import delegate
from .deep_research import DeepResearchSupervisor
from .main_thread import MainThreadAgent
from .parts import (
    Approvals,
    Documents,
    InputGuardrail,
    Judgment,
    OutputGuardrail,
    Refusal,
    Research,
    TextRedaction,
    ToolGuardrail,
    UserMemory,
)
from .researcher import ResearcherAgent

__all__ = [
    "CARD_NUMBER",
    "EMAIL",
    "IBAN",
    "Approvals",
    "DeepResearchSupervisor",
    "Documents",
    "InputGuardrail",
    "Judgment",
    "MainThreadAgent",
    "OutputGuardrail",
    "Refusal",
    "Research",
    "ResearcherAgent",
    "TextRedaction",
    "ToolGuardrail",
    "UserMemory",
    "delegate",
]
