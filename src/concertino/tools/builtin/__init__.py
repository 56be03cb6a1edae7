"""Ready-made tools, each with a port for its backend, and the default registry of a chat."""

from .craft import craft
from .default import MODES, Mode, Settings, default_registry
from .feedback import feedback_questions
from .memory import MemoryBackend, retrieve_memory, store_memory
from .product import Backend, chatbot, data_analysis, image_generation, rag
from .recall_tool import Recall
from .research import ResearchTools

__all__ = [
    "MODES",
    "Backend",
    "MemoryBackend",
    "Mode",
    "Recall",
    "ResearchTools",
    "Settings",
    "chatbot",
    "craft",
    "data_analysis",
    "default_registry",
    "feedback_questions",
    "image_generation",
    "rag",
    "retrieve_memory",
    "store_memory",
]
