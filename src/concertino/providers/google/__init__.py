"""Google's Gemini API.

The SDK is loaded when a model is created, not when this package is imported.
"""

from .model import GoogleModel

__all__ = ["GoogleModel"]
