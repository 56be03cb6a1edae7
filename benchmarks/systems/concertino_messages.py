"""concertino over HTTP: Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.systems.over_http import OverHttp
from concertino.providers.base import Model

DISTRIBUTIONS = ("concertino", "anthropic")


def _open(url: str) -> Model:
    from concertino.providers.anthropic import AnthropicModel

    return AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=url)


def build(function: Callable[..., Any]) -> OverHttp:
    """Return an agent with one tool."""
    return OverHttp(function, _open)
