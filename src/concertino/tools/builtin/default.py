"""The default registry of a chat, by the modes that the user has switched on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ...errors import ConfigurationError
from ..library import Library
from ..registry import ToolRegistry
from .craft import craft
from .interfaces import Backend, chatbot, data_analysis, image_generation, rag
from .memory import MemoryBackend, retrieve_memory, store_memory
from .recall import Recall
from .research import ResearchTools

Mode = Literal["RAG", "CHATBOT", "DATA_ANALYSIS", "DEEP_RESEARCH"]
MODES: frozenset[str] = frozenset(("RAG", "CHATBOT", "DATA_ANALYSIS", "DEEP_RESEARCH"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the default tools work with. A tool without its backend is left out, unless a mode asks for it."""

    library: Library | None = None
    """For web search and page fetch."""
    memory: MemoryBackend | None = None
    memory_enabled: bool = True
    """The user's own switch."""
    image_generation: Backend | None = None
    rag: Backend | None = None
    chatbot: Backend | None = None
    data_analysis: Backend | None = None


def default_registry(modes: Collection[Mode] = (), settings: Settings | None = None) -> ToolRegistry:
    """The tools of a chat in these *modes*.

    Deep research has none of them: its agents bring their own. Raises `ConfigurationError` for an unknown mode, or
    for one whose tool has no backend, naming the setting.
    """
    settings = settings or Settings()
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise ConfigurationError(f"unknown mode {unknown[0]!r}; there are {', '.join(sorted(MODES))}")
    registry = ToolRegistry()
    if "DEEP_RESEARCH" in modes:
        return registry
    if settings.memory is not None and settings.memory_enabled:
        registry.register(retrieve_memory(settings.memory))
        registry.register(store_memory(settings.memory))
    registry.register(craft())
    registry.register(Recall())
    if settings.library is not None:
        research = ResearchTools(settings.library)
        registry.register(research.search())
        registry.register(research.fetch())
    if settings.image_generation is not None:
        registry.register(image_generation(settings.image_generation))
    if "RAG" in modes or "CHATBOT" in modes:
        registry.register(rag(settings.rag))
    if "CHATBOT" in modes:
        registry.register(chatbot(settings.chatbot))
    if "DATA_ANALYSIS" in modes:
        registry.register(data_analysis(settings.data_analysis))
    return registry
