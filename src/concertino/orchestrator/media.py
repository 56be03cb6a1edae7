"""Checks of media before they enter a conversation."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from ..messages import Media


def media_problem(media: object, most: int | None = None) -> str:
    """Return what is wrong with *media*, or "".

    It must be a tuple of media with a type and one content each: base64 text, a URL or a provider's file id. With
    *most*, their contents must not exceed that many bytes together.
    """
    if not isinstance(media, tuple):
        return "use a tuple of Media"
    for item in media:
        if not isinstance(item, Media) or not isinstance(item.media_type, str) or "/" not in item.media_type:
            return f"{item!r:.80}: use Media with a type such as 'image/png'"
        given = [value for value in (item.data, item.url, item.file_id) if value]
        if len(given) != 1 or not isinstance(given[0], str):
            return f"{item!r:.80}: give it one of data (base64 text), url and file_id"
    if most is not None and (size := _size(media)) > most:
        return f"{size:,} bytes of media exceed Limits(media_bytes={most:,}): send less, or raise the limit"
    return ""


def content_problem(media: Sequence[Media]) -> str:
    """Return the medium of new *media* whose data is not base64, or ""."""
    for item in media:
        try:
            binascii.a2b_base64(item.data or "", strict_mode=True)
        except (binascii.Error, ValueError) as error:
            return f"{item!r:.80}: its data is not base64 text: {error}"
    return ""


def _size(media: Sequence[Media]) -> int:
    return sum(len(item.data) * 3 // 4 for item in media if item.data)
