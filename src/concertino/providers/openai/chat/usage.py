"""Read the usage report of a chat completion.

`prompt_tokens` includes the `cached_tokens` and `cache_write_tokens` of its details, and `completion_tokens` includes
`reasoning_tokens`. Servers deviate in two ways, which are data of the vendor: xAI counts reasoning outside the
completion and Mistral audio outside the prompt (`Vendor.outside`), and Gemini counts reasoning in the total alone,
without any details (`Vendor.unnamed_reasoning`). What the total has beyond prompt and completion reveals it. A rest
that none of this explains is not booked; the reader then marks the counts as estimated, because they do not add up.

Databricks names Claude's cache counts as Anthropic does, inside `prompt_tokens`. Azure's Grok counts a hidden prompt
among `cached_tokens` that `prompt_tokens` excludes, so cached tokens are capped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ids import in_family
from ....usage import Tokens
from ...http.reader import count_in, details_in
from .vendors import Vendor


def tokens(usage: Mapping[str, Any], vendor: Vendor, model: str) -> Tokens | None:
    """Return the counts that *vendor* reported for *model* as `Tokens`, or None without a report."""
    if not usage:
        return None
    details = details_in(usage, "prompt_tokens_details")
    prompt = count_in(usage, "prompt_tokens")
    completion = count_in(usage, "completion_tokens")
    reasoning = count_in(details_in(usage, "completion_tokens_details"), "reasoning_tokens")
    media = sum(count_in(details, f"{kind}_tokens") for kind in ("audio", "image", "video"))
    rest = count_in(usage, "total_tokens") - prompt - completion
    outside = {"media": media, "reasoning": reasoning}
    if rest > 0 and not reasoning and (vendor.unnamed_reasoning or in_family("gemini", model)) and rest != media:
        completion, reasoning = completion + rest, rest
    elif rest > 0:
        apart = next((kinds for kinds in vendor.outside if sum(outside[kind] for kind in kinds) == rest), ())
        prompt += media if "media" in apart else 0
        completion += reasoning if "reasoning" in apart else 0
    cached = count_in(details, "cached_tokens") or count_in(
        usage, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens"
    )
    written = count_in(details, "cache_write_tokens") or count_in(usage, "cache_creation_input_tokens")
    return Tokens(
        prompt=prompt,
        completion=completion,
        cached=min(prompt, cached),
        cache_write=written,
        reasoning=reasoning,
    )
