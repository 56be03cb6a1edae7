"""Images scaled down to the pixels that a model uses, with the extra `images` (Pillow)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

from ...messages import Media

if TYPE_CHECKING:
    from PIL import Image

_FORMATS = ("JPEG", "PNG", "WEBP")
_MODES = ("L", "LA", "RGB", "RGBA")
_MOST_PIXELS = 64_000_000
"""Larger images would take too long here. Providers refuse them."""
_QUALITY = 95


def scaled(media: Media, edge: int) -> Media:
    """Return *media* with at most *edge* pixels on each side: itself if it has no more, or Pillow is not installed.

    The same image gives the same bytes with the same version of Pillow. What Pillow cannot read and animations stay as
    they are.
    """
    try:
        from PIL.Image import open as open_image  # noqa: PLC0415 - an optional extra
    except ImportError:
        return media
    try:
        with open_image(BytesIO(b64decode(media.data or "")), formats=_FORMATS) as image:
            small = max(image.size) <= edge or image.width * image.height > _MOST_PIXELS
            return media if small or getattr(image, "is_animated", False) else replace(media, data=_data(image, edge))
    except Exception:  # noqa: BLE001 - a damaged image is for the provider to judge
        return media


def _data(image: Image.Image, edge: int) -> str:
    from PIL import ImageOps  # noqa: PLC0415
    from PIL.Image import Resampling  # noqa: PLC0415

    upright = ImageOps.exif_transpose(image)  # the copy has no EXIF data
    if upright.mode not in _MODES:
        upright = upright.convert("RGBA" if "transparency" in image.info else "RGB")
    upright.thumbnail((edge, edge), Resampling.LANCZOS)
    found = BytesIO()
    upright.save(found, image.format, quality=_QUALITY, exif=b"")
    return b64encode(found.getvalue()).decode()
