"""The outcome of a run as it is handed out: the answer with its sources, and the object that `--json` prints."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..agents.deep_research import REPORT, RESEARCHER
from ..events import RunResult
from ..messages import AssistantMessage, ToolMessage
from ..usage import UsageRecord, total
from .sources import Sources, listed
from .wording import about


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
