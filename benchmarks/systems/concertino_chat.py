"""concertino over HTTP: OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.systems.over_http import OverHttp
from concertino.providers.base import Model

DISTRIBUTIONS = ("concertino", "openai")


def _open(url: str) -> Model:
    from concertino.providers.openai import OpenAIModel

    return OpenAIModel("gpt-5", api_key="k", base_url=f"{url}/v1")


def build(function: Callable[..., Any]) -> OverHttp:
    """Return an agent with one tool."""
    return OverHttp(function, _open)
