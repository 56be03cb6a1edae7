"""Ready-made agents and parts. They are ordinary `AgentConfig` and `Part` subclasses; the engine knows none by name."""

from .agent_tool import delegate
from .deep_research import DeepResearchSupervisor
from .main_thread import MainThreadAgent
from .parts import (
    Approvals,
    Block,
    Documents,
    InputGuardrail,
    Judgment,
    OutputGuardrail,
    Redaction,
    Research,
    ToolGuardrail,
    UserMemory,
)
from .researcher import ResearcherAgent

__all__ = [
    "Approvals",
    "Block",
    "DeepResearchSupervisor",
    "Documents",
    "InputGuardrail",
    "Judgment",
    "MainThreadAgent",
    "OutputGuardrail",
    "Redaction",
    "Research",
    "ResearcherAgent",
    "ToolGuardrail",
    "UserMemory",
    "delegate",
]
