"""Streamed answers of the providers, from the samples in the tree or from recorded traffic next to the repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

TRAFFIC = Path(__file__).parents[3] / "shared/data/provider-traffic"
FOLDERS = {
    "anthropic": ["anthropic/messages"],
    "responses": ["openai/responses", "openai_azure/responses", "openai_compat/responses"],
    "chat": ["openai/chat_completions", "openai_azure/chat_completions", "openai_compat/chat_completions"],
    "google": ["google/generateContent", "google/generateContent_vertex"],
}
TROUBLE = {"stream_empty", "stream_without_end", "error_in_stream"}
"""The features of recordings that end in an error."""


def recordings(kind: str, root: Path = TRAFFIC) -> Iterator[tuple[str, set[str], str]]:
    """Yield the streamed answers of *kind* below *root*: name, features, and body."""
    for folder in FOLDERS[kind]:
        for path in sorted((root / folder).glob("*.json")):
            for number, exchange in enumerate(json.loads(path.read_text())["interactions"]):
                response = exchange["response"]
                headers = {name.lower(): value for name, value in (response.get("headers") or {}).items()}
                streamed = "stream" in exchange["features"] or "event-stream" in str(headers.get("content-type"))
                if streamed and response["status"] < 300 and response.get("body") is not None:
                    for body in answers(response["body"]):
                        yield f"{folder}/{path.name}#{number}", set(exchange["features"]), body


def answers(body: str) -> list[str]:
    """Return the answers in *body*; some sources join those of several requests to Anthropic."""
    found = [""]
    for piece in re.split(r"^(?=data: ?{\"type\": ?\"message_start\")", body, flags=re.MULTILINE):
        if "message_stop" in found[-1]:
            found.append("")
        found[-1] += piece
    return found
