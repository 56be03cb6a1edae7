"""Sources: what the tools of a run have found, for the citations of an answer that no report tool has numbered."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from ..events import RunEvent, ToolDone
from ..messages import ToolMessage

_CITATION = re.compile(r" ?\[(s[0-9a-f]{10}(?:\s*[,;]\s*s[0-9a-f]{10})*)\]")
_ID = re.compile(r"s[0-9a-f]{10}")
_FIELDS = ("id", "title", "location")


class Sources:
    """Collects sources from events: the pages that were read, and the results of searches."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, str]] = {}

    def see(self, event: RunEvent) -> None:
        """Take in what *event* tells of sources."""
        if isinstance(event, ToolDone):
            self._add(event.data)
            if event.name == "web_search":
                self._add_results(event.content)

    def remember(self, message: ToolMessage) -> None:
        """Take in a result that an earlier life of the run had."""
        if message.name == "web_search" and not message.is_error:
            self._add_results(message.content if message.whole is None else message.whole)

    def cited(self, text: str) -> tuple[str, list[dict[str, str]]]:
        """*text* without citations of what nobody found, and the sources of those that are left, in their order."""
        sources: dict[str, dict[str, str]] = {}

        def check(match: re.Match[str]) -> str:
            known = [id for id in _ID.findall(match[1]) if id in self._found]
            sources.update((id, self._found[id]) for id in known)
            space = " " if match[0].startswith(" ") else ""
            return space + "".join(f"[{id}]" for id in known) if known else ""

        return _CITATION.sub(check, text), list(sources.values())

    def _add_results(self, content: str) -> None:
        with suppress(ValueError):  # cut to fit the model's window
            found = json.loads(content)
            for result in found.get("results", ()) if isinstance(found, dict) else ():
                self._add(result)

    def _add(self, value: Any) -> None:
        if isinstance(value, dict) and all(isinstance(value.get(field), str) for field in _FIELDS):
            self._found[value["id"]] = {field: value[field] for field in _FIELDS}


def listed(text: str, sources: list[dict[str, str]]) -> str:
    """*text* with the list of its sources below."""
    if not sources:
        return text
    lines = "\n".join(f"- [{source['id']}] {source['title']} — {source['location']}" for source in sources)
    return f"{text.rstrip()}\n\n## Sources\n\n{lines}\n"
