"""Google's Gemini API.

The SDK is loaded when a model is created, not when this package is imported.
"""

from .images import GoogleImages
from .model import GoogleModel

__all__ = ["GoogleImages", "GoogleModel"]
