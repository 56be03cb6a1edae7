"""The tokens of an image: its size, which its first bytes name, in the formulas that the providers publish.

Checked in November 2026, at the default detail: "Vision" and "Migrating" (platform.claude.com/docs), "Images and
vision" (developers.openai.com/api/docs/guides/images-vision, in public copies, for old small models that of March),
"Understand and count tokens" and "Media resolution" (ai.google.dev/gemini-api/docs).
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable
from functools import partial
from math import ceil, floor, sqrt

_HEADER = 120_000
"""Characters of base64 in which an image names its size; a JPEG may begin with 64 kB of other data."""
_EDGE = 16_384
"""Most pixels of a side that count: the header of a hostile file may name any number."""
ImageRule = Callable[[int, int], int]
"""Returns the tokens of an image from its width and height."""


# Claude: patches of 28 pixels, after scaling. OpenAI: tiles of 512 pixels, or patches of 32 pixels times a factor, up
# to a number of patches and of pixels a side. Gemini: tiles of at most 768 pixels; since Gemini 3 a fixed number.


def _claude(edge: int, most: int, width: int, height: int) -> int:
    scale = min(1.0, edge / max(width, height))
    return min(ceil(width * scale / 28) * ceil(height * scale / 28), most)


def _tiles(base: int, tile: int, width: int, height: int) -> int:
    scale = min(1.0, 2_048 / max(width, height), 768 / min(width, height))
    return base + tile * ceil(width * scale / 512) * ceil(height * scale / 512)


def _patches(factor: float, most: int, edge: int, width: int, height: int) -> int:
    scale = min(1.0, edge / max(width, height))
    columns, rows = width * scale / 32, height * scale / 32
    if ceil(columns) * ceil(rows) > most:
        scale = sqrt(most / (columns * rows))
        columns, rows = columns * scale, rows * scale
        scale = min(floor(columns) / columns, floor(rows) / rows)
        columns, rows = columns * scale, rows * scale
    return ceil(factor * ceil(round(columns, 9)) * ceil(round(rows, 9)))


def _gemini(width: int, height: int) -> int:
    if max(width, height) <= 384:
        return 258
    unit = min(max(min(width, height) // 1.5, 256), 768)
    return 258 * ceil(width / unit) * ceil(height / unit)


_RULES: tuple[tuple[str, ImageRule], ...] = (
    (r"anthropic:claude-(opus-4-[7-9]|[a-z]+-[5-9])", partial(_claude, 2_576, 4_784)),
    (r"anthropic:", partial(_claude, 1_568, 1_600)),
    (r"openai:gpt-4o-mini", partial(_tiles, 2_833, 5_667)),
    (r"openai:gpt-4\.1-mini", partial(_patches, 1.62, 6_144, 2_048)),
    (r"openai:gpt-4\.1-nano", partial(_patches, 2.46, 1_536, 2_048)),
    (r"openai:o4-mini", partial(_patches, 1.72, 1_536, 2_048)),
    (r"openai:gpt-5-nano", partial(_patches, 1.5, 1_536, 2_048)),
    (r"openai:gpt-5(\.1-codex|-codex)?-mini", partial(_patches, 1.2, 1_536, 2_048)),
    (r"openai:gpt-5\.[23]", partial(_patches, 1.2, 6_144, 2_048)),
    (r"openai:gpt-5\.4", partial(_patches, 1.2, 2_500, 2_048)),
    (r"openai:gpt-5\.5", partial(_patches, 1.2, 10_000, 6_000)),
    (r"openai:gpt-(5\.[6-9]|[6-9])", partial(_patches, 1.2, 30_000, 65_535)),
    (r"openai:gpt-5", partial(_tiles, 70, 140)),
    (r"openai:o\d", partial(_tiles, 75, 150)),
    (r"openai:gpt", partial(_tiles, 85, 170)),
    (r"google:gemini-([3-9]|\d\d)", lambda _width, _height: 1_120),
    (r"google:", _gemini),
)
"""By the id of the model; the first pattern that matches counts."""


def image_tokens(data: str, model: str | None) -> int:
    """Return the tokens that the model with the id *model* bills for the image *data* in base64; None: the most of any.

    An unknown model counts as Claude's highest resolution. Return 0 if *data* names no size.
    """
    width, height = (min(side, _EDGE) for side in _dimensions(data[:_HEADER]))
    if not width or not height:
        return 0
    rules = [rule for pattern, rule in _RULES if model is None or re.match(pattern, model)] or [_RULES[0][1]]
    return max([rule(width, height) for rule in (rules if model is None else rules[:1])])


def _dimensions(data: str) -> tuple[int, int]:
    """Return width and height of the PNG, GIF, JPEG or WebP that begins with *data* in base64; zeros if unknown."""
    try:
        head = a2b_base64(data[: len(data) // 4 * 4])
    except Error:
        return 0, 0
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp(head)
    at = 2 if head.startswith(b"\xff\xd8") else len(head)
    while at + 9 <= len(head) and head[at] == 0xFF:  # a JPEG's segments: marker, length, content
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9], "big"), int.from_bytes(head[at + 5 : at + 7], "big")
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    """Return width and height from the first chunk of a WebP (RFC 9649)."""
    if head[12:16] == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    lossless = head[12:16] == b"VP8L"
    bits = int.from_bytes(head[21:25], "little") if lossless else int.from_bytes(head[26:30], "little")
    return lossless + (bits & 0x3FFF), lossless + (bits >> (14 if lossless else 16) & 0x3FFF)
