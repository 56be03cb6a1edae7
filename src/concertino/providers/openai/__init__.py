"""OpenAI's Responses API, and Chat Completions as OpenAI and many others speak it.

The SDK is imported when a model is made, not when this package is.
"""

from .model import OpenAIModel

__all__ = ["OpenAIModel"]
