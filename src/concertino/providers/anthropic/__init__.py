"""Anthropic's Messages API.

The SDK is loaded when a model is created, not when this package is imported.
"""

from .model import AnthropicModel

__all__ = ["AnthropicModel"]
