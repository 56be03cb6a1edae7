"""OpenAI's Responses API, and Chat Completions as OpenAI and many other servers implement it.

The SDK is loaded when a model is created, not when this package is imported.
"""

from .chat.vendors import Vendor
from .compatible import OpenAICompatibleModel
from .images import OpenAIImages
from .model import OpenAIModel

__all__ = ["OpenAICompatibleModel", "OpenAIImages", "OpenAIModel", "Vendor"]
