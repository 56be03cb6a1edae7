"""The document of a run's result: the figures of its object, and checked citations."""

from __future__ import annotations

import dataclasses
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from concertino.cli.render.result_document import CitedSources, ResultDocument, result_document
from concertino.events import RunResult, RunStatus, ToolDone
from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage
from concertino.usage import Tokens, UsageRecord

APPLES = {"id": "s0000000001", "title": "Apples", "location": "apples.md"}
PEARS = {"id": "s0000000002", "title": "Pears", "location": "pears.md"}


def record(id: str, cost: Decimal | None) -> UsageRecord:
    return UsageRecord(
        id=id,
        run_id="run_1",
        agent_path="boss",
        provider="p",
        model="m",
        tokens=Tokens(3, 2, 1, 1, 1),
        cost=cost,
    )


def result(
    text: str = "",
    *,
    status: RunStatus = "completed",
    usage: tuple[UsageRecord, ...] = (),
    data: dict[str, Any] | None = None,
    messages: tuple[Message, ...] = (),
) -> RunResult:
    return RunResult(
        run_id="run_1",
        agent_path="boss",
        status=status,
        text=text,
        content_index=0,
        steps=1,
        tool_calls={"boss": 1},
        usage=usage,
        data=data or {},
        messages=messages,
    )


def sources() -> CitedSources:
    found = CitedSources()
    searched = json.dumps({"query": "q", "results": [{**PEARS, "snippet": "..."}, "no source"]})
    found.update(ToolDone("run_1", "boss", 0, "c1", "fetch_page", "text", APPLES))
    found.update(ToolDone("run_1", "boss", 0, "c2", "web_search", searched))
    found.update(ToolDone("run_1", "boss", 0, "c3", "web_search", searched[:40]))  # cut
    found.update(ToolDone("run_1", "boss", 0, "c4", "web_search", "[1]"))
    return found


def document(result: RunResult) -> ResultDocument:
    return result_document(result, question="q", conversation_id="conv_1", sources=sources())


def test_one_unknown_price_makes_the_total_unknown() -> None:
    usage = (record("a", Decimal("0.1")), record("b", Decimal("0.2")))
    assert document(result(usage=usage)).as_object()["totals"] == {
        "tokens": dataclasses.asdict(Tokens(6, 4, 2, 2, 2)),
        "unknown_tokens": dataclasses.asdict(Tokens()),
        "cost": 0.3,
    }
    found = document(result(usage=(*usage, record("c", None)))).as_object()
    assert [one["cost"] for one in found["usage"]] == [0.1, 0.2, None]
    assert found["totals"]["cost"] is None


def test_the_page_lists_every_field_of_the_object() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "research.md"
    rows = re.findall(r"^\| (`.*?) \|", page.read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(document(result()).as_object())


def test_a_report_keeps_its_own_sources() -> None:
    report = {"report": "Red [S1].", "sources": [{**APPLES, "id": "S1"}]}
    made = document(result("Red [S1].", data={"report_generation": report}))
    assert (made.report, made.sources) == ("Red [S1].", report["sources"])


def test_citations_of_an_answer_are_checked_and_listed() -> None:
    made = document(result("Red [s0000000001; s0000000009] and green [s0000000002], so what [s0000000009]."))
    assert made.sources == [APPLES, PEARS]
    assert made.report == (
        "Red [s0000000001] and green [s0000000002], so what.\n\n## Sources\n\n"
        "- [s0000000001] Apples — apples.md\n- [s0000000002] Pears — pears.md\n"
    )


def test_the_report_of_a_stopped_run_has_its_findings() -> None:
    asked = AssistantMessage((Text("I ask."), ToolCall("c1", "researcher", '{"query": "about apples"}')))
    messages = (
        asked,
        ToolMessage("c1", "researcher", "Red [s0000000001]."),
        ToolMessage("c2", "researcher", "cancelled", is_error=True),
    )
    made = document(result("I ask.", status="cancelled", messages=messages))
    assert made.report.startswith("## about apples\n\nRed [s0000000001].\n\n## Sources")
    assert document(result("I ask.", status="cancelled", messages=(asked,))).report == "I ask."
