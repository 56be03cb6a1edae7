"""OpenAI's Responses API, and Chat Completions as OpenAI and many others speak it.

The SDK is imported when a model is made, not when this package is.
"""

from .chat.vendors import Vendor
from .compatible import OpenAICompatibleModel
from .model import OpenAIModel

__all__ = ["OpenAIModel", "OpenAICompatibleModel", "Vendor"]  # noqa: RUF022 - the usual one is the first
