"""A tool name that the model invented is text: no sink keeps it where the data policy forbids text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from concertino import OPERATOR, AgentConfig, Chat, DataPolicy, KeepFor, Resources, SqliteStore, ToolData, tool
from concertino.cli import main
from concertino.messages import AssistantMessage, ToolMessage
from concertino.orchestrator import Treatment
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel, call

from .kit import SECRET, Canaries, Leaks, Sinks, everywhere, look_by_port

INVENTED = "invented name"
UNKNOWN_TOOL = "unknown_tool"
"""The name that is stored instead."""


@tool(effect="read")
async def look(query: str) -> str:
    """Look something up."""
    return "found"


class Agent(AgentConfig[None]):
    """An agent with one tool."""

    name = "agent"
    tools = (look,)

    def __init__(self, policy: DataPolicy) -> None:
        self.policy = policy

    def get_data_policy(self) -> DataPolicy:
        return self.policy


@pytest.fixture
def sinks(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Sinks:
    caplog.set_level("DEBUG", logger="")
    return Sinks(caplog, capfd, tmp_path / "runs.db")


async def run(sinks: Sinks, policy: DataPolicy, canaries: Canaries) -> tuple[SqliteStore, str]:
    """Run an agent whose model calls a known and an invented tool."""
    model = ScriptedModel([call("look", query="x"), call(f"no_such_{canaries[INVENTED]}")], "done")
    store = await SqliteStore.open(sinks.path)
    resources = Resources(store=store, models=lambda _: model)
    async with Runtime([Agent(policy)], resources, observers=[sinks.observe]) as runtime:
        started = await runtime.start(Chat(model=model, message="go"), "agent")
        assert (await started.result()).status == "completed"
    return store, started.id


FORBIDDING = {
    "drop": everywhere("drop"),
    "redact": everywhere("redact"),
    "hash": everywhere("hash"),
    "drop text only": DataPolicy(text="drop"),
    "redact text only": DataPolicy(text="redact"),
    "hash text only": DataPolicy(text="hash", hash_key=SECRET),
}


@pytest.mark.parametrize("how", FORBIDDING)
async def test_no_sink_keeps_an_invented_name(sinks: Sinks, how: str) -> None:
    canaries = Canaries()
    leaks = Leaks(canaries)
    store, _ = await run(sinks, FORBIDDING[how], canaries)
    sinks.look_outside(leaks)
    await look_by_port(store, leaks)
    sinks.look_in_files(leaks, "open")
    await store.close()
    sinks.look_in_files(leaks, "closed")
    leaks.check()


@pytest.mark.parametrize("command", ["show", "export"])
def test_no_command_prints_an_invented_name(sinks: Sinks, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canaries = Canaries()

    async def prepare() -> str:
        store, run_id = await run(sinks, DataPolicy(text="redact"), canaries)
        await store.close()
        return run_id

    run_id = asyncio.run(prepare())
    monkeypatch.setattr("sys.argv", ["concertino", "runs", command, run_id, "--db", str(sinks.path)])
    assert main() == 0
    printed = sinks.capfd.readouterr()
    assert UNKNOWN_TOOL in printed.out
    assert not canaries.found_in((printed.out + printed.err).encode())


@pytest.mark.parametrize("text", ["redact", "drop"])
async def test_the_kept_call_and_its_result_have_the_same_mark(sinks: Sinks, text: Treatment) -> None:
    store, run_id = await run(sinks, DataPolicy(text=text), Canaries())
    messages = [stored.message for stored in await store.messages(OPERATOR, run_id)]
    await store.close()
    (turn,) = [message for message in messages if isinstance(message, AssistantMessage) and message.tool_calls]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [made.name for made in turn.tool_calls] == [result.name for result in results] == ["look", UNKNOWN_TOOL]
    assert [result.content for result in results] == ["found", "[redacted]"]


async def test_usage_never_has_an_invented_name(sinks: Sinks) -> None:
    store, run_id = await run(sinks, DataPolicy(), Canaries())
    usage = await store.usage(OPERATOR, run_id)
    await store.close()
    assert usage[0].tools == ("look", UNKNOWN_TOOL)


@pytest.mark.parametrize("how", ["keep", "keep for a time", "keep all but tools"])
async def test_a_policy_that_allows_text_does_not_keep_the_name_either(sinks: Sinks, how: str) -> None:
    policies = {
        "keep": DataPolicy(),
        "keep for a time": DataPolicy(text=KeepFor(60)),
        "keep all but tools": DataPolicy(other_tools=ToolData(arguments="redact", results="redact")),
    }
    canaries = Canaries()
    leaks = Leaks(canaries)
    store, run_id = await run(sinks, policies[how], canaries)
    stored = await store.messages(OPERATOR, run_id)
    names = [c.name for each in stored for c in getattr(each.message, "tool_calls", ())]
    assert names == ["look", UNKNOWN_TOOL]
    sinks.look_outside(leaks)
    await look_by_port(store, leaks)
    await store.close()
    sinks.look_in_files(leaks, "closed")
    leaks.check()
