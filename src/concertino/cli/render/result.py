"""The outcome of a run as it is handed out: the answer with its sources, and the object that `--json` prints."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ...agents.deep_research import REPORT, RESEARCHER
from ...events import RunEvent, RunResult, ToolDone
from ...messages import AssistantMessage, ToolMessage
from ...tools.builtin.research import SEARCH_TOOLS
from ...usage import UsageRecord, total
from .format import about


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a question was answered."""

    question: str
    conversation_id: str
    result: RunResult
    report: str
    """Markdown. Each citation in it is the id of one of `sources`."""
    sources: list[dict[str, str]]
    """`id`, `title` and `location`."""

    def as_object(self) -> dict[str, Any]:
        """What `--json` prints."""
        result, totals = self.result, total(self.result.usage)
        return {
            "run_id": result.run_id,
            "conversation_id": self.conversation_id,
            "status": result.status,
            "error": result.error,
            "question": self.question,
            "report": self.report,
            "sources": self.sources,
            "usage": [_record(record) for record in result.usage],
            "totals": {"tokens": dataclasses.asdict(totals.tokens), "cost": _number(totals.cost)},
            "tool_calls": result.tool_calls,
            "waiting": [{"key": wait.key, "kind": wait.kind, "tool": wait.tool} for wait in result.waiting],
        }


def outcome_of(result: RunResult, *, question: str, conversation_id: str, sources: Sources) -> Outcome:
    """The report that was handed in; where there is none, what was said, or what the researchers had found."""
    written = result.data.get(REPORT)
    if isinstance(written, dict):
        report, cited = str(written["report"]), list(written["sources"])
    else:
        said = result.text.strip() if result.status == "completed" else ""
        report, cited = sources.cited(said or _findings(result) or result.text)
        report = listed(report, cited)
    return Outcome(question=question, conversation_id=conversation_id, result=result, report=report, sources=cited)


def _findings(result: RunResult) -> str:
    """The answers of the researchers that were done, each below its task."""
    tasks: dict[str, str] = {}
    found: list[str] = []
    for message in result.messages:
        if isinstance(message, AssistantMessage):
            tasks.update((call.id, about(call.arguments)) for call in message.tool_calls)
        elif isinstance(message, ToolMessage) and message.name == RESEARCHER and not message.is_error:
            found.append(f"## {tasks.get(message.call_id) or RESEARCHER}\n\n{message.whole or message.content}\n")
    return "\n".join(found)


def _record(record: UsageRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "run_id": record.run_id,
        "agent_path": record.agent_path,
        "provider": record.provider,
        "model": record.model,
        "source": record.source,
        "tokens": dataclasses.asdict(record.tokens),
        "cost": _number(record.cost),
        "tools": list(record.tools),
    }


def _number(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)


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
            if event.name in SEARCH_TOOLS:
                self._add_results(event.content)

    def remember(self, message: ToolMessage) -> None:
        """Take in a result that an earlier life of the run had."""
        if message.name in SEARCH_TOOLS and not message.is_error:
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
