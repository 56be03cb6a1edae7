"""The timeline of `runs show` and the bill of `usage --run`: retries, compactions, approvals and prices."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from decimal import Decimal
from pathlib import Path

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Operator,
    Resources,
    RunContext,
    ToolCall,
    ToolOrchestrator,
    limits_within,
    tool,
)
from concertino.errors import RateLimitError
from concertino.runtime import Runtime
from concertino.storage.sqlite import SqliteStore
from concertino.testing import ScriptedModel, call
from concertino.testing.scripted import Answer
from concertino.usage import Tokens
from tests.cli.conftest import Cli, run_object


@tool(effect="read")
async def lookup(topic: str) -> str:
    """Look up."""
    return f"{topic}: " + "a sentence about it. " * 400


@tool(effect="once")
async def refund(order: str) -> str:
    """Pay back."""
    return "paid"


class Desk(AgentConfig[None]):
    """Requires an approval for each refund."""

    name = "desk"
    prompt = "You are a desk."
    tools = (lookup, refund)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, object]) -> Allow | Ask:
        return Ask(who=("ann",)) if call.name == "refund" else Allow()


def price(provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal, str]:
    return Decimal("0.0015"), "list 7"


async def start(database: Path) -> str:
    """Run the desk with a retry, long results and an approval."""
    lookups = [Answer(calls=tuple(call("lookup", topic=f"{step}.{n}") for n in range(4))) for step in range(3)]
    limited = RateLimitError("429 too many requests", provider="scripted", retry_after=0.001)
    model = ScriptedModel(lookups[0], limited, *lookups[1:], call("refund", order="A7"), "All is done.")
    async with await SqliteStore.open(database) as store:
        resources = Resources(model=model, store=store, limits=limits_within(12_000), price=price)
        runtime = Runtime([Desk()], resources)
        run = await runtime.start(Chat("Refund order A7."), "desk")
        result = await run.result()
        assert result.status == "suspended", result.error
        await runtime.approve(Operator("ann"), result.waiting[0].key)
        assert (await (await runtime.resume(OPERATOR, run.id)).result()).status == "completed"
        await runtime.close()
    return run.id


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> str:
    return asyncio.run(start(tmp_path / "runs.db"))


def test_the_timeline_labels_each_event(runs: Cli, run: str) -> None:
    lines = [line.split(maxsplit=1) for line in runs("show", run).stdout.splitlines() if line.startswith("      ")]
    labelled = {label: rest for label, rest in lines if label not in ("done", "task")}
    assert labelled["retry"].startswith("attempt 1 with scripted:script failed: RateLimitError: 429 too many requests;")
    assert labelled["approval"].startswith("approved by ann after ")
    before, _, after = labelled["compaction"].partition(" tokens")[0].partition(" to ")
    assert int(before.replace(",", "")) > int(after.replace(",", ""))
    assert labelled.keys() >= {"suspended", "resumed"}


def test_the_timeline_is_complete_as_json(runs: Cli, run: str) -> None:
    found = run_object(runs, run)
    steps = found["timeline"]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    failed, answered = steps[1]["attempts"]
    assert failed["error"] == "RateLimitError: 429 too many requests"
    assert (answered["error"], answered["price"]) == (None, "list 7")
    assert {one["event"] for step in steps for one in step["notes"]} == {"compaction", "suspended", "resumed"}
    (paid,) = steps[3]["calls"]
    assert (paid["name"], paid["state"]) == ("refund", "done")
    assert [(wait["verdict"], wait["by"]) for wait in paid["waits"]] == [("approved", "ann")]
    assert found["problem"] is None


def test_the_timeline_names_the_processes(runs: Cli, run: str) -> None:
    here = f"{socket.gethostname()}:{os.getpid()}"
    found = run_object(runs, run)
    assert found["process"] == here
    assert {one["process"] for step in found["timeline"] for one in step["attempts"] + step["notes"]} == {here}
    (resumed,) = [one for step in found["timeline"] for one in step["notes"] if one["event"] == "resumed"]
    assert resumed["text"] == f"from the journal by {here}"


@pytest.mark.parametrize(
    "text",
    ["interrupted: the run was stopped", "OUTCOME_UNKNOWN: the process ended", "not run: so it says", "[result of"],
)
def test_a_result_that_reads_like_a_failure_is_none(runs: Cli, tmp_path: Path, text: str) -> None:
    @tool(effect="once")
    async def quote() -> str:
        """Quote."""
        return text

    class Reader(AgentConfig[None]):
        tools = (quote,)

    async def read() -> str:
        async with await SqliteStore.open(tmp_path / "runs.db") as store:
            model = ScriptedModel(call("quote"), "done")
            return (
                await ToolOrchestrator(Chat("go", model=model), Reader(), resources=Resources(store=store)).run()
            ).run_id

    ((quoted,), _) = (step["calls"] for step in run_object(runs, asyncio.run(read()))["timeline"])
    assert (quoted["name"], quoted["state"], quoted["error"]) == ("quote", "done", None)


def test_the_bill_of_a_run_has_a_row_for_each_attempt(runs: Cli, cli: Cli, run: str) -> None:
    done = cli("usage", "--run", run, "--by", "model,attempt", "--db", "runs.db", "--json")
    *rows, total = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["by"]["attempt"] for row in rows] == ["1:1", "2:2", "2:3", "3:4", "4:5", "5:6"]
    assert sum(Decimal(row["cost"]) for row in rows) == Decimal(total["cost"])
    text = cli("usage", "--run", run, "--by", "step", "--db", "runs.db").stdout
    assert text.splitlines()[0].split() == ["STEP", "ATTEMPTS", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert text.splitlines()[2].split()[:2] == ["2", "2"]  # the step with a retry
    assert text.splitlines()[-1] == "prices: list 7"
    for options, part in (
        (("--by", "day"), "choose from run, agent, model, step, attempt"),
        (("--since", "2026-01-01"), "--run"),
    ):
        refused = cli("usage", "--run", run, *options, "--db", "runs.db")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert part in refused.stderr
