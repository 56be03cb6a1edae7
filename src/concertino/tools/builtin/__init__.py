"""Ready-made tools, each with a port for its backend, and the default registry of a chat."""

from ...images import GeneratedImages, ImageShape
from .backend import PerCall
from .craft import craft
from .data_analysis import data_analysis
from .default import MODES, Mode, Settings, default_registry
from .feedback import feedback_questions
from .image_generation import ImageBackend, image_generation
from .knowledge import Chatbot, Passages, chatbot, rag
from .memory import MemoryBackend, retrieve_memory, store_memory
from .recall_tool import Recall
from .research import ResearchTools

__all__ = [
    "MODES",
    "Chatbot",
    "GeneratedImages",
    "ImageBackend",
    "ImageShape",
    "MemoryBackend",
    "Mode",
    "Passages",
    "PerCall",
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
