"""concertino over HTTP: Google's Gemini API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.systems.over_http import OverHttp
from concertino.providers.base import Model

DISTRIBUTIONS = ("concertino", "google-genai")


def _open(url: str) -> Model:
    from concertino.providers.google import GoogleModel

    return GoogleModel("gemini-3-flash", api_key="k", base_url=url)


def build(function: Callable[..., Any]) -> OverHttp:
    """Return an agent with one tool."""
    return OverHttp(function, _open)
