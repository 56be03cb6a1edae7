"""Ready-made agents. They are ordinary `AgentConfig` subclasses; the engine does not know their names."""

from .agent_tool import delegate
from .deep_research import DeepResearchSupervisor
from .main_thread import MainThreadAgent
from .researcher import ResearcherAgent

__all__ = ["DeepResearchSupervisor", "MainThreadAgent", "ResearcherAgent", "delegate"]
