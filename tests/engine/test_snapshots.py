"""Snapshots: a run that is resumed from one is the run that its whole journal records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    Limits,
    MemoryStore,
    Resources,
    Retention,
    RunContext,
    RunResult,
    ToolOrchestrator,
    ToolResult,
    tool,
)
from concertino.agents import delegate
from concertino.orchestrator import Replay, replay
from concertino.storage import Entry, Head
from concertino.testing import ScriptedModel, call
from concertino.waits import Resolution

_FIELDS = (
    *("before", "media", "messages", "added", "replaced", "ready", "cache_key", "bill", "state", "index", "attempts"),
    *("agent_state", "data", "system", "tools", "stage", "request", "turn", "outcome", "background", "side_answers"),
    *("phase", "commands", "seconds", "at", "entries", "error", "receipt", "context", "started"),
)


def state_of(found: Replay) -> dict[str, Any]:
    return {**{name: getattr(found, name) for name in _FIELDS}, "shown": found.view.shown, "edits": found.view.edits}


class Comparing(MemoryStore):
    """Compares, after each append, the replay from the last snapshot with that of the whole journal."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots = 0
        self.most_entries = 0

    async def append(self, entry: Entry) -> Head:
        head = await super().append(entry)
        self.snapshots += "snapshot" in entry.body
        short, whole = [
            await self.load(OPERATOR, entry.run_id, from_snapshot=from_snapshot) for from_snapshot in (True, False)
        ]
        assert short is not None and whole is not None
        self.most_entries = max(self.most_entries, len(short.entries))
        assert state_of(replay(short)) == state_of(replay(whole))
        return head


@dataclass
class Notes:
    """The state of an agent."""

    seen: int = 0


@tool(effect="read")
async def look(n: int) -> ToolResult:
    """Look something up."""
    return ToolResult(f"A line of what was found, number {n}. " * 20, data={"n": n})


@tool(effect="once")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (look,)


class Clerk(AgentConfig[Notes]):
    """Looks up, pays after an approval, delegates, and replaces its conversation when it is asked to."""

    name = "clerk"
    prompt = "You are the clerk."
    tools = (look, pay, delegate(Child(), name="child", description="Ask the child."))
    tool_call_limit = 1_000

    async def initialize_agent_state(self, run: RunContext[Notes]) -> Notes:
        return Notes()

    def authorize_tool_call(self, run: RunContext[Notes], call: Any, arguments: Mapping[str, Any]) -> Any:
        run.agent_state.seen += 1
        return Ask() if call.name == "pay" else super().authorize_tool_call(run, call, dict(arguments))


def within(context: int) -> Any:
    return lambda scope, model, agent: Limits(context=context, output=500, tool_calls=1_000)


async def finished(store: MemoryStore, model: ScriptedModel, context: int) -> RunResult:
    """Run the clerk to its end. Each approval is answered, and resumes the run in another process, so to speak."""
    retention = Retention(frees=400, price=1e9, floor=0)
    resources = Resources(store=store, limits=within(context), retention=retention)
    result = await ToolOrchestrator(Chat("Go.", model=model), Clerk(), resources=resources).run()
    while result.status == "suspended":
        for wait in result.waiting:
            await store.resolve(OPERATOR, wait.key, Resolution(verdict="approved", by="ann"))
        chat = Chat("", model=model)
        again = ToolOrchestrator(chat, Clerk(), resources=resources, resume=True, run_id=result.run_id)
        result = await again.run()
    return result


actions = st.lists(st.sampled_from(["look", "look", "look", "two", "pay", "delegate"]), min_size=6, max_size=14)


def script(wanted: list[str]) -> ScriptedModel:
    one: dict[str, Any] = {"look": call("look", n=1), "pay": call("pay", euros=3)}
    one |= {"two": [call("look", n=2), call("look", n=3)], "delegate": call("child", task="look")}
    parent = [one[name] for name in wanted]
    child = [each for _ in range(wanted.count("delegate")) for each in (call("look", n=4), call("look", n=5), "seen")]
    scripts: dict[str, list[Any]] = {"the clerk": [*parent, "done"], "the child": child}
    return ScriptedModel(scripts=scripts, summaries=["in short"] * 100)


@pytest.mark.slow
@settings(max_examples=25)
@given(actions, st.sampled_from([3_000, 100_000]), st.sampled_from([1, 3, 7]))
def test_a_replay_from_a_snapshot_is_that_of_the_whole_journal(wanted: list[str], context: int, interval: int) -> None:
    async def go() -> None:
        store = Comparing()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("concertino.orchestrator.journal.writer.INTERVAL", interval)
            patch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
            result = await finished(store, script(wanted), context)
        assert result.text == "done"
        assert store.snapshots

    asyncio.run(go())
