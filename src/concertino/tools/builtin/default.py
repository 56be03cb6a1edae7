"""The default registry of a chat, for the modes that the user has switched on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from ...errors import ConfigurationError
from ...records import record
from ..library import Library
from ..registry import ToolRegistry
from ..tables import Tables
from .backend import PerCall
from .craft import craft
from .data_analysis import data_analysis
from .image_generation import ImageBackend, image_generation
from .knowledge import Chatbot, Passages, chatbot, knowledge_of, rag
from .memory import MemoryBackend, retrieve_memory, store_memory
from .recall_tool import Recall
from .research import ResearchTools

Mode = Literal["RAG", "CHATBOT", "DATA_ANALYSIS", "DEEP_RESEARCH"]
MODES: frozenset[str] = frozenset(("RAG", "CHATBOT", "DATA_ANALYSIS", "DEEP_RESEARCH"))


@record(kw_only=True)
class Settings:
    """Backends of the default tools. A tool without a backend is left out, unless a mode requires it.

    Instead of a backend for all calls, a function may return the backend of one call (`PerCall`).
    """

    library: Library | None = None
    """Library for search and fetch."""
    memory: MemoryBackend | None = None
    memory_enabled: bool = True
    """Whether the memory tools are offered; False if the user has switched memory off."""
    image_generation: ImageBackend | PerCall[ImageBackend] | None = None
    rag: Passages | PerCall[Passages] | None = None
    """The files that users attached."""
    chatbot: Chatbot | PerCall[Chatbot] | None = None
    """A chatbot of the product; its knowledge base is searched by `rag`."""
    data_analysis: Tables | PerCall[Tables] | None = None


def default_registry(modes: Collection[Mode] = (), settings: Settings | None = None) -> ToolRegistry:
    """Return the tools of a chat in these *modes*.

    The registry is empty for deep research, whose agents have their own tools. Raises `ConfigurationError` if a mode is
    unknown, or if the tool of a mode has no backend.
    """
    settings = settings or Settings()
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise ConfigurationError(f"unknown mode {unknown[0]!r}: choose from {', '.join(sorted(MODES))}")
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
    libraries = [settings.rag] if settings.rag is not None or "RAG" in modes else []
    if "CHATBOT" in modes:
        registry.register(chatbot(settings.chatbot))
        if (knowledge := knowledge_of(settings.chatbot)) is not None:
            libraries.append(knowledge)
    if libraries and ("RAG" in modes or "CHATBOT" in modes):
        registry.register(rag(*libraries))
    if "DATA_ANALYSIS" in modes:
        registry.register(data_analysis(settings.data_analysis))
    return registry
