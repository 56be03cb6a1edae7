"""Generated images: the value that an image backend returns, in no provider's format."""

from __future__ import annotations

from typing import Literal

from .messages import Media
from .records import record
from .usage import Tokens

ImageShape = Literal["square", "landscape", "portrait"]
"""The shape of an image; each backend has its own sizes for it."""


@record(kw_only=True)
class GeneratedImages:
    """The images that a provider made for one prompt."""

    images: tuple[Media, ...]
    provider: str
    model: str
    """The model as the backend names it, for the price of the tokens."""
    tokens: Tokens | None = None
    """The provider's usage report; None if it reported nothing."""
    note: str = ""
    """The provider's words about the images, such as the prompt that it used instead."""
