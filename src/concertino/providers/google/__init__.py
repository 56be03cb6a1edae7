"""Google's Gemini API. The SDK is imported when a model is made, not when this package is."""

from .model import GoogleModel

__all__ = ["GoogleModel"]
