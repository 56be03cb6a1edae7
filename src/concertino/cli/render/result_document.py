"""The result of a run as a document: the answer with its sources, and the object that `--json` prints."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any

from ...agents.deep_research import REPORT, RESEARCHER
from ...events import RunEvent, RunResult, ToolDone
from ...messages import AssistantMessage, ToolMessage
from ...records import record
from ...storage.codec import receipt_json
from ...tools.builtin.research import SEARCH_TOOLS
from ...tools.library import SOURCE_ID
from ...usage import UsageRecord, total
from .format import subject

_CITATION = re.compile(rf" ?\[({SOURCE_ID}(?:\s*[,;]\s*{SOURCE_ID})*)\]")
_ID = re.compile(SOURCE_ID)
_FIELDS = ("id", "title", "location")


@record(kw_only=True)
class ResultDocument:
    """The answer to a question with its sources and usage."""

    question: str
    conversation_id: str
    result: RunResult
    report: str
    """Markdown. Every citation is the id of one of `sources`."""
    sources: list[dict[str, str]]
    """`id`, `title` and `location`."""

    def as_object(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        result, totals = self.result, total(self.result.usage)
        return {
            "run_id": result.run_id,
            "conversation_id": self.conversation_id,
            "status": result.status,
            "error": result.error,
            "question": self.question,
            "report": self.report,
            "sources": self.sources,
            "usage": [_usage(record) for record in result.usage],
            "totals": {**dataclasses.asdict(totals), "cost": _number(totals.cost)},
            "tool_calls": result.tool_calls,
            "waiting": [{"key": wait.key, "kind": wait.kind, "tool": wait.tool} for wait in result.waiting],
        }


class CitedSources:
    """Sources collected from a run's events: fetched pages and search results."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, str]] = {}

    def update(self, event: RunEvent) -> None:
        """Collect the sources in *event*."""
        if isinstance(event, ToolDone):
            self._add(event.data)
            if event.name in SEARCH_TOOLS:
                self._add_results(event.content)

    def add_result(self, message: ToolMessage) -> None:
        """Collect the sources in a stored tool result."""
        if message.name in SEARCH_TOOLS and not message.is_error:
            self._add_results(message.content if message.whole is None else message.whole)

    def check(self, text: str) -> tuple[str, list[dict[str, str]]]:
        """Return *text* without citations of unknown sources, and the cited sources in order."""
        sources: dict[str, dict[str, str]] = {}

        def known_only(match: re.Match[str]) -> str:
            known = [id for id in _ID.findall(match[1]) if id in self._found]
            sources.update((id, self._found[id]) for id in known)
            space = " " if match[0].startswith(" ") else ""
            return space + "".join(f"[{id}]" for id in known) if known else ""

        return _CITATION.sub(known_only, text), list(sources.values())

    def _add_results(self, content: str) -> None:
        with suppress(ValueError):  # truncated to fit the model's context window
            found = json.loads(content)
            for result in found.get("results", ()) if isinstance(found, dict) else ():
                self._add(result)

    def _add(self, value: Any) -> None:
        if isinstance(value, dict) and all(isinstance(value.get(field), str) for field in _FIELDS):
            # A line break in a title could forge an entry in the list of sources.
            self._found[value["id"]] = {field: " ".join(value[field].split()) for field in _FIELDS}


def result_document(result: RunResult, *, question: str, conversation_id: str, sources: CitedSources) -> ResultDocument:
    """Build the document of *result*: its report, else its text, else the researchers' findings."""
    written = result.data.get(REPORT)
    if isinstance(written, dict):
        report, cited = str(written["report"]), list(written["sources"])
    else:
        answer = result.text.strip() if result.status == "completed" else ""
        report, cited = sources.check(answer or _findings(result) or result.text)
        report = _with_sources(report, cited)
    return ResultDocument(
        question=question, conversation_id=conversation_id, result=result, report=report, sources=cited
    )


def _findings(result: RunResult) -> str:
    """Return the answers of the completed researchers, each below its task."""
    tasks: dict[str, str] = {}
    found: list[str] = []
    for message in result.messages:
        if isinstance(message, AssistantMessage):
            tasks.update((call.id, subject(call.arguments)) for call in message.tool_calls)
        elif isinstance(message, ToolMessage) and message.name == RESEARCHER and not message.is_error:
            found.append(f"## {tasks.get(message.call_id) or RESEARCHER}\n\n{message.whole or message.content}\n")
    return "\n".join(found)


def _with_sources(text: str, sources: list[dict[str, str]]) -> str:
    if not sources:
        return text
    lines = "\n".join(f"- [{source['id']}] {source['title']} — {source['location']}" for source in sources)
    return f"{text.rstrip()}\n\n## Sources\n\n{lines}\n"


def _usage(record: UsageRecord) -> dict[str, Any]:
    receipt = None if record.receipt is None else receipt_json(record.receipt)
    return {**dataclasses.asdict(record), "cost": _number(record.cost), "receipt": receipt}


def _number(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)
