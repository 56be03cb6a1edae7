"""Images, documents and recordings: what they are for an API, and the words where it cannot take them."""

from __future__ import annotations

import base64
import binascii

from ..messages import Media

_KINDS = {"image": "image", "audio": "audio", "video": "video", "text": "document", "application": "document"}


def kind_of(media: Media) -> str:
    """`image`, `audio`, `video` or `document`."""
    return _KINDS.get(media.media_type.partition("/")[0], "document")


def data_url(media: Media) -> str:
    """The content as a URL, or the URL that was given."""
    return media.url or f"data:{media.media_type};base64,{media.data}"


def text_of(media: Media) -> str:
    """The text of a text file; "" if it is none."""
    try:
        return base64.b64decode(media.data or "", validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def placeholder(media: Media) -> str:
    """What stands in a message for what this provider cannot take."""
    named = f" {media.name!r}" if media.name else ""
    return f"({_WORDS[kind_of(media)]}{named} that cannot be shown here)"


def refusal(media: Media, api: str, remedy: str) -> str:
    """Why *api* cannot take *media*. Without its name, which is the user's word: this is read in logs."""
    where = "data" if media.data is not None else "url" if media.url is not None else "file_id"
    return f"{api} does not take {_WORDS[kind_of(media)]} ({media.media_type}) by {where}; {remedy}"


_WORDS = {"image": "an image", "audio": "a recording", "video": "a video", "document": "a document"}
