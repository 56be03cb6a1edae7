"""Anthropic's Messages API. The SDK is imported when a model is made, not when this package is."""

from .model import AnthropicModel

__all__ = ["AnthropicModel"]
