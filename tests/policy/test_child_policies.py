"""A child's policy is applied when its root ends, because a resumed parent needs the child's answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, DataPolicy, Resources, RunContext, tool
from concertino.agents import delegate
from concertino.messages import AssistantMessage, ToolMessage
from concertino.orchestrator import Treatment
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call

from .kit import POLICIES, Canaries, FullStore, Leaks, everywhere, files, look_by_port, open_store


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."

    def __init__(self, policy: DataPolicy) -> None:
        self.policy = policy

    def get_data_policy(self) -> DataPolicy:
        return self.policy


class Boss(Child):
    name = "boss"
    prompt = "You are the boss."

    def __init__(self, policy: DataPolicy, child: Child, gate: asyncio.Event, reached: asyncio.Event) -> None:
        super().__init__(policy)

        @tool(effect="read", timeout=None)
        async def slow() -> str:
            """Take long."""
            reached.set()
            await gate.wait()
            return "slow at last"

        self.tools = [delegate(child, description="A child."), slow]


def model_of(c: Canaries, *boss: Any) -> ScriptedModel:
    child = [c["answer of the child"]]
    return ScriptedModel(scripts={"the boss": boss, "the child": child})


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize("how", [name for name in POLICIES if name != "keep for a time"])
async def test_a_resumed_parent_gets_the_answer_of_its_child(tmp_path: Path, how: str, kind: str) -> None:
    c, path = Canaries("unicode"), tmp_path / "runs.db"
    store = await open_store(kind, path)
    gate, reached = asyncio.Event(), asyncio.Event()
    boss = Boss(DataPolicy(), Child(POLICIES[how]), gate, reached)
    model = model_of(c, [call("child", query=c["task of the child"]), call("slow")], "done")
    runtime = Runtime([boss], Resources(store=store, models=lambda _: model))
    run = await runtime.start(Chat(model=model, message="go"), boss)
    await reached.wait()
    while not await store.runs(OPERATOR, state="completed"):  # noqa: ASYNC110 - the child has no event to wait for
        await asyncio.sleep(0.001)
    await runtime.close()
    gate.set()
    held = Leaks(c)
    await look_by_port(store, held)
    assert "answer of the child" in held.entrances, "the boss has not ended"

    second = Runtime([boss], Resources(store=store, models=lambda _: model))
    result = await (await second.resume(OPERATOR, run.id)).result()
    assert result.status == "completed", result.error
    answers = [m.content for m in result.messages if m.role == "tool"]
    assert answers == [c["answer of the child"], "slow at last"], "the child was not run again, and its answer is known"
    assert len(model.requests) == 3

    (child,) = [run for run in await store.runs(OPERATOR, root_id=run.id) if run.start.parent_id]
    leaks = Leaks(c)
    leaks.look("the child's run", repr([child, await store.load(OPERATOR, child.start.run_id)]).encode())
    leaks.check()
    boss_messages = repr(await store.messages(OPERATOR, run.id))
    assert c["answer of the child"] in boss_messages, "what the boss keeps is its own policy's matter"


@pytest.mark.parametrize("how", [name for name in POLICIES if name != "keep for a time"])
async def test_a_child_is_erased_at_the_end_of_its_root(tmp_path: Path, how: str) -> None:
    """Both drop it: the file has nothing of either, also though the child had ended long before."""
    c, path = Canaries("unicode"), tmp_path / "runs.db"
    store = await open_store("sqlite", path)
    gate, reached = asyncio.Event(), asyncio.Event()
    policy = POLICIES[how]
    boss = Boss(policy, Child(policy), gate, reached)
    model = model_of(c, call("child", query=c["task of the child"]), call("slow"), c["answer"])
    runtime = Runtime([boss], Resources(store=store, models=lambda _: model))
    run = await runtime.start(Chat(model=model, message=c["message"]), boss)
    await reached.wait()
    held = Leaks(c)
    for each in files(path):
        held.look(each.name, each.read_bytes())
    assert held.entrances >= {"message", "task of the child", "answer of the child"}
    gate.set()
    assert (await run.result()).status == "completed"
    leaks = Leaks(c)
    for each in files(path):
        leaks.look(each.name, each.read_bytes(), path)
    await store.close()
    leaks.check()


class Broken(Boss):
    """An agent that fails on resume, so that its child is never resumed."""

    def initialize_agent_state(self, run: RunContext[None]) -> None:
        raise ValueError("boom")


async def orphaned(store: FullStore, c: Canaries, above: DataPolicy, below: DataPolicy) -> str:
    """Park a boss while its child is in a tool, let it fail on resume, and return its id."""
    gate, reached = asyncio.Event(), asyncio.Event()
    child = Child(below)
    boss = Boss(above, child, gate, reached)
    child.tools = boss.tools[1:]  # the slow one
    asked = [Answer(text=c["text of the child"], calls=(call("slow"),))]
    model = ScriptedModel(scripts={"the boss": [call("child", query=c["task of the child"])], "the child": asked})
    runtime = Runtime([boss], Resources(store=store, models=lambda _: model))
    run = await runtime.start(Chat(model=model, message="go"), boss)
    await reached.wait()
    await runtime.close()
    second = Runtime([Broken(above, child, gate, reached)], Resources(store=store, models=lambda _: model))
    result = await (await second.resume(OPERATOR, run.id)).result()
    assert (result.status, "boom" in (result.error or "")) == ("failed", True)
    return run.id


@pytest.mark.parametrize("how", [name for name in POLICIES if name != "keep for a time"])
@pytest.mark.parametrize("above", ["keep", "redact"])
async def test_an_abandoned_child_ends_by_its_own_policy(tmp_path: Path, how: str, above: Treatment) -> None:
    """Its root ends without it, so it cannot be resumed, and content that its policy forbids is erased."""
    c, path = Canaries("unicode"), tmp_path / "runs.db"
    store = await open_store("sqlite", path)
    run_id = await orphaned(store, c, everywhere(above), POLICIES[how])
    for stored in await store.runs(OPERATOR, root_id=run_id):
        assert stored.end is not None, f"{stored.start.agent_path} can never end now"
    await store.close()
    leaks = Leaks(c, {"task of the child"} if above == "keep" else set())  # to the boss it is an argument
    for each in files(path):
        leaks.look(each.name, each.read_bytes(), path)
    leaks.check()


async def test_a_child_keeps_its_content_if_its_root_drops_all(tmp_path: Path) -> None:
    c = Canaries("unicode")
    store = await open_store("sqlite", tmp_path / "runs.db")
    run_id = await orphaned(store, c, POLICIES["drop"], DataPolicy())
    (child,) = [run.start.run_id for run in await store.runs(OPERATOR, root_id=run_id) if run.start.parent_id]
    journal = await store.load(OPERATOR, child)
    assert journal is not None
    assert not any(entry.erased for entry in journal.entries)
    await store.close()


@pytest.mark.parametrize("of", ["boss", "child"])
async def test_a_run_that_fails_on_resume_leaves_no_open_call(tmp_path: Path, of: str) -> None:
    store = await open_store("sqlite", tmp_path / "runs.db")
    run_id = await orphaned(store, Canaries(), DataPolicy(), DataPolicy())
    (stored,) = [run for run in await store.runs(OPERATOR, root_id=run_id) if run.start.agent == of]
    messages = [kept.message for kept in await store.messages(OPERATOR, stored.start.run_id)]
    calls = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert calls == [m.call_id for m in messages if isinstance(m, ToolMessage)]
    used = {record.run_id for record in await store.usage(OPERATOR, run_id)}
    assert stored.start.run_id in used
    await store.close()
