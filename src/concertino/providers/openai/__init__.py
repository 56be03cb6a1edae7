"""OpenAI's Responses API, Chat Completions as OpenAI and many other servers implement it, and OpenAI's tokenizers.

The SDK is loaded when a model is created, not when this package is imported.
"""

from .chat.vendors import Vendor
from .compatible import OpenAICompatibleModel
from .images import OpenAIImages
from .model import OpenAIModel
from .tokenizer import TiktokenCounter

__all__ = ["OpenAICompatibleModel", "OpenAIImages", "OpenAIModel", "TiktokenCounter", "Vendor"]
