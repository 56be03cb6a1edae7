"""All judges over one request, as each provider would receive it."""

from __future__ import annotations

import json
from dataclasses import replace

from concertino.providers import ModelRequest

from ..wire_bodies import wire_bodies
from . import anthropic, chat, google, responses
from .anthropic import Json

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "responses": "gpt-6-luna",
    "chat": "gpt-6-luna",
    "google": "gemini-3.8-flash",
}
"""For each format a model whose vendor asks for much."""


def body_problems(kind: str, body: Json, model: str = "") -> list[str]:
    """Return the problems of a *body* of the format *kind*."""
    match kind:
        case "anthropic":
            return anthropic.problems(body)
        case "responses":
            return responses.problems(body)
        case "chat":
            return chat.problems(body)
        case "google":
            return google.problems(body, model)
        case _:
            raise LookupError(f"no format is called {kind!r}")


def problems(request: ModelRequest) -> dict[str, list[str]]:
    """Return the problems of *request* by format, without formats that accept it."""
    found = {}
    for kind, model in MODELS.items():
        body = json.loads(wire_bodies(replace(request, model=model))[kind])
        if words := body_problems(kind, body, model):
            found[kind] = words
    return found
