"""The tokens of an image, by the formulas that the providers publish.

Checked in November 2026, at the default detail:

- Anthropic, "Vision" (platform.claude.com/docs/en/build-with-claude/vision): patches of 28 pixels, after scaling to at
  most 1,568 pixels and about 1,600 tokens; from Opus 4.7 on, to 2,576 pixels and 4,784 tokens ("Migrating").
- OpenAI, "Images and vision", "Model sizing behavior" and "Calculating costs"
  (developers.openai.com/api/docs/guides/images-vision, in public copies): tiles of 512 pixels, or patches of 32 pixels
  times a factor, up to a number of patches and of pixels a side. From GPT-5.5 on, the default detail is that of the
  image itself; GPT-5.6 and later refuse more than 30,000 patches. Models that the guide no longer sizes (o4-mini,
  gpt-5-mini and -nano, gpt-4.1-nano) follow its edition of March 2026.
- Google, "Understand and count tokens" (ai.google.dev/gemini-api/docs/tokens): tiles of at most 768 pixels; "Media
  resolution": a fixed number since Gemini 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from math import ceil, floor, sqrt

ImageRule = Callable[[int, int], int]
"""Returns the tokens of an image from its width and height."""


def _claude(edge: int, most: int, width: int, height: int) -> int:
    scale = min(1.0, edge / max(width, height))
    return min(ceil(width * scale / 28) * ceil(height * scale / 28), most)


def _tiles(base: int, tile: int, width: int, height: int) -> int:
    scale = min(1.0, 2_048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
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


def _fixed(tokens: int, _width: int, _height: int) -> int:
    return tokens


_RULES: tuple[tuple[str, ImageRule], ...] = (
    (r"anthropic:claude-(opus-4-[7-9]|[a-z]+-[5-9])", partial(_claude, 2_576, 4_784)),
    (r"anthropic:", partial(_claude, 1_568, 1_600)),
    (r"openai:gpt-4o-mini", partial(_tiles, 2_833, 5_667)),
    (r"openai:gpt-4\.1-nano", partial(_patches, 2.46, 1_536, 2_048)),
    (r"openai:gpt-4\.1-mini", partial(_patches, 1.62, 6_144, 2_048)),
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
    (r"google:gemini-([3-9]|\d\d)", partial(_fixed, 1_120)),
    (r"google:", _gemini),
)
"""By the id of the model; the first pattern that matches counts."""


@lru_cache(maxsize=256)
def image_rule(model: str) -> ImageRule:
    """Return the rule of the model with the id *model*; for an unknown one, that of Claude's highest resolution."""
    return next((rule for pattern, rule in _RULES if re.match(pattern, model)), _RULES[0][1])


def largest(width: int, height: int) -> int:
    """Return an upper bound of the tokens of an image at any provider."""
    return max([rule(width, height) for _, rule in _RULES])
