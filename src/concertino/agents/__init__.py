"""The ready agents: ordinary `AgentConfig`s. Nothing in the engine knows their names."""

from .deep_research import DeepResearchSupervisor
from .delegate import delegate
from .main_thread import MainThreadAgent
from .researcher import ResearcherAgent

__all__ = ["DeepResearchSupervisor", "MainThreadAgent", "ResearcherAgent", "delegate"]
