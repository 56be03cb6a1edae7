"""Workers: decisions, pre-enrichment, approvals, the living document, and requests that a cache can keep."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    Retry,
    RunContext,
    Runtime,
    Scope,
    ToolOrchestrator,
    ToolRegistry,
    delegate,
    tool,
)
from concertino.agents import (
    PreEnrichment,
    UserMemory,
    WorkerAgent,
    WorkerDefinition,
    WorkerState,
    load_worker,
    load_workers,
)
from concertino.errors import ConfigurationError, OverloadedError
from concertino.events import PartialOutput, RunEnded, TextDelta, ToolStarted
from concertino.messages import AssistantMessage, SystemMessage, UserMessage
from concertino.testing import Answer, ScriptedModel, call

from .worker_kit import SMALL, decision, mark, play, respond, search, stats, worker

ANN = Scope("acme", "ann")
BEFORE = PreEnrichment(model=SMALL, default_tools=[("stats", {"year": 2020})])


# -- decisions ---------------------------------------------------------------------------------------------------


async def test_the_calls_of_one_decision_run_and_their_results_are_in_the_next_request() -> None:
    both = decision(("stats", {"year": 2024}), ("search", {"text": "tea"}))
    played = await play(worker(), both, respond())
    texts = [message.text for message in played.requests["main"][1].messages if isinstance(message, UserMessage)]
    assert texts[1:] == ["[result of stats]\n2024: 120 records", "[result of search]\nrec-1, rec-2 contain tea"]


async def test_the_user_gets_the_response_and_no_json() -> None:
    played = await play(worker(), decision("stats"), respond("There are **120**."))
    answers = [event.text for event in played.events if isinstance(event, TextDelta) and event.audience == "answer"]
    assert answers == ["There are **120**."]
    assert any(isinstance(event, PartialOutput) for event in played.events)
    assert isinstance(played.result.messages[-1], AssistantMessage)
    assert played.result.messages[-1].text == "There are **120**."


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"tool_calls": [{"tool": "stats", "params": {"year": 2024}}], "confidence": "low"}\n```',
        "{'tool_calls': [{'tool': 'stats', 'params': {'year': 2024}}], 'confidence': 'LOW',}",
        'Sure! {"tool_calls": [{"name": "stats", "arguments": "{\\"year\\": 2024}"}], "confidence": 3}',
        '[{"tool_calls": {"tool": "stats", "params": {"year": 2024}}}]',
    ],
)
async def test_dirty_json_is_repaired_and_the_repair_is_recorded(text: str) -> None:
    store = MemoryStore()
    played = await play(worker(), text, respond(), store=store)
    assert [event.arguments for event in played.events if isinstance(event, ToolStarted)] == ['{"year": 2024}']
    assert played.custom("decision")[0]["repairs"]


async def test_an_unreadable_decision_is_asked_for_again_and_then_counts_as_a_pass_without_tools() -> None:
    played = await play(worker(), "no idea", decision("stats"), respond())
    assert "could not be read" in played.last(1)
    assert [each["number"] for each in played.custom("pass")] == [1, 2]
    played = await play(worker(), "no idea", "no idea", strong=["no", "no", "no", "no"])
    assert [each["number"] for each in played.custom("pass")] == [1, 2, 3]
    assert played.reason == "no_tools"


async def test_a_decision_that_was_cut_off_runs_nothing() -> None:
    cut = Answer(text='{"tool_calls": [{"tool": "mark", "params": {"record": "rec-1', stop_reason="length")
    played = await play(worker(loop={"auto_approve": True}), cut, respond())
    assert not any(isinstance(event, ToolStarted) for event in played.events)
    assert "limit of its length" in played.last(1)


async def test_calls_run_before_a_response_that_comes_with_them() -> None:
    hasty = decision("stats", response="Probably 120.", confidence="high")
    assert (await play(worker(), hasty, respond("120."))).result.text == "120."


async def test_a_repeated_call_is_left_out_and_the_model_reads_which() -> None:
    again = decision(("stats", {"year": 2024}), ("stats", {"year": 2025}), confidence="high")
    played = await play(worker(), decision(("stats", {"year": 2024})), again, respond())
    started = [event.arguments for event in played.events if isinstance(event, ToolStarted)]
    assert started == ['{"year": 2024}', '{"year": 2025}']
    assert "these calls have run before: stats" in played.last(2)


async def test_native_calls_of_a_model_that_ignores_the_contract_run_as_well() -> None:
    played = await play(worker(), call("stats", year=2024), respond())
    assert [event.name for event in played.events if isinstance(event, ToolStarted)] == ["stats"]


async def test_a_dotted_name_is_the_name_in_decisions_and_events() -> None:
    @tool(name="data.searchRecords", effect="read")
    async def find(region: str) -> str:
        """Find records."""
        return f"two in {region}"

    for name in ("data.searchRecords", "data_searchRecords"):  # the second is the name that providers accept
        played = await play(worker((find,)), decision((name, {"region": "A"})), respond())
        assert "- data.searchRecords(region: string)" in played.requests["main"][0].system
        assert [event.name for event in played.events if isinstance(event, ToolStarted)] == ["data.searchRecords"]
        assert "two in A" in played.requests["main"][1].messages[-2].text  # type: ignore[union-attr]


async def test_an_unknown_tool_is_answered_with_the_names_of_the_others() -> None:
    played = await play(worker(), decision("guess"), respond())
    assert "stats" in played.requests["main"][1].messages[-2].text  # type: ignore[union-attr]
    assert played.result.status == "completed"


# -- pre-enrichment ----------------------------------------------------------------------------------------------


async def test_chosen_tools_run_before_pass_1_and_only_pass_1_reads_them() -> None:
    agent = worker(pre_enrichment=BEFORE)
    chosen = '[{"tool": "stats", "params": {"year": 2024}, "reason": "size"}, {"tool": "mark"}, {"tool": "nothing"}'
    played = await play(agent, decision("stats"), respond(), small=[chosen])
    assert "2024: 120 records" in played.last(0)
    assert "2024: 120 records" not in played.last(1)
    (report,) = played.custom("pre_enrichment")
    assert [each["tool"] for each in report["tools"]] == ["stats"]
    assert not report["fallback"]
    assert [record.model for record in played.result.usage] == ["small", "main", "main"]


@pytest.mark.parametrize("choice", ["no json", "[]", '[{"tool": "mark"}]', OverloadedError("down", provider="x")])
async def test_without_a_valid_choice_the_default_tools_run(choice: Any) -> None:
    played = await play(worker(pre_enrichment=BEFORE), respond(), small=[choice], retry=Retry(attempts=1))
    (report,) = played.custom("pre_enrichment")
    assert report["fallback"]
    assert "2020: 120 records" in played.last(0)


async def test_a_choice_and_a_tool_that_take_too_long_are_cancelled_and_booked() -> None:
    stopped = []

    @tool(effect="read")
    async def slow() -> str:
        """Take for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("slow")
        return ""

    late = Answer(text="[]", midway=asyncio.Event().wait)
    before = PreEnrichment(
        model=SMALL, default_tools=[("slow", {}), ("stats", {})], choice_seconds=0.05, tool_seconds=0.05
    )
    played = await play(worker((slow, stats), pre_enrichment=before), respond(), small=[late])
    assert stopped == ["slow"]
    assert "no result within 0.05 seconds" in played.last(0)
    assert "2025: 120 records" in played.last(0)
    assert [record.model for record in played.result.usage] == ["small", "main"]
    assert played.result.usage[0].source == "estimated"


async def test_pre_enrichment_can_be_switched_off() -> None:
    agent = worker(pre_enrichment=BEFORE, loop={"pre_enrichment": False})
    assert (await play(agent, respond())).custom("pre_enrichment") == []


async def test_a_synthesis_reads_what_was_known_before_pass_1() -> None:
    agent = worker(pre_enrichment=BEFORE, loop={"max_passes": 1})
    played = await play(agent, decision(), small=["[]"], writer=["120."])
    assert played.result.text == "120."
    assert "2020: 120 records" in played.last(0, "writer")


# -- writes ------------------------------------------------------------------------------------------------------


def desk(model: ScriptedModel, store: MemoryStore, agent: WorkerAgent) -> Runtime:
    return Runtime([agent], Resources(model=model, store=store))


async def test_a_call_that_writes_waits_and_is_approved_edited_or_denied() -> None:
    three = decision(*[("mark", {"record": f"rec-{number}"}) for number in (1, 2, 3)])
    model = ScriptedModel(three, respond("Done."))
    async with desk(model, MemoryStore(), worker(approval_label="Mark them")) as runtime:
        first = await (await runtime.start(Chat("Mark", scope=ANN), "clerk")).result()
        assert first.status == "suspended"
        keys = [wait.key for wait in first.waiting]
        assert {wait.note for wait in first.waiting} == {"Mark them"}
        await runtime.approve(ANN, keys[0])
        await runtime.approve(ANN, keys[1], arguments={"record": "rec-9"})
        await runtime.deny(ANN, keys[2], reason="not this one")
        assert (await (await runtime.resume(ANN, first.run_id)).result()).text == "Done."
    texts = [message.text for message in model.requests[1].messages if isinstance(message, UserMessage)][1:]
    assert texts[:2] == ["[result of mark]\nmarked rec-1", "[result of mark]\nmarked rec-9"]
    assert "not this one" in texts[2]


async def test_auto_approve_runs_writes_at_once() -> None:
    agent = worker(loop={"auto_approve": True})
    played = await play(agent, decision(("mark", {"record": "rec-1"})), respond())
    assert played.result.status == "completed"


async def test_a_worker_that_is_coming_soon_refuses_without_asking_a_model() -> None:
    played = await play(worker(status="coming_soon", pre_enrichment=BEFORE))
    assert played.result.status == "failed"
    assert "coming soon" in (played.result.error or "")
    assert played.result.usage == ()


# -- document, memory, history -----------------------------------------------------------------------------------


class Kept(WorkerAgent):
    """Keeps the state of its last run for the test."""

    async def conclude(self, run: RunContext[WorkerState], text: str) -> str:
        self.state = run.agent_state
        return await super().conclude(run, text)


async def test_the_document_has_the_updates_of_each_pass_with_their_sources() -> None:
    definition = WorkerDefinition(id="kept", name="Kept", system_prompt="x", sections={"findings": "", "plan": "none"})
    agent = Kept(definition, ToolRegistry([stats]))
    first = decision(("stats", {"year": 2024}), document_updates={"plan": "look up"})
    second = decision(("stats", {"year": 2025}), document_updates={"findings": "120"}, confidence="high")
    await play(agent, first, second, respond())
    assert agent.state.document.history().splitlines() == [
        "plan v1 [start]: none",
        "plan v2 [pass 1]: look up",
        "confidence v1 [pass 1]: medium",
        "findings v1 [pass 2] (from stats (pass 1)): 120",
        "confidence v2 [pass 2]: high",
        "confidence v3 [pass 3]: high",
    ]


async def test_parts_and_the_users_sections_are_part_of_the_prompt() -> None:
    store = MemoryStore()
    await store.remember(ANN, "prefers short lists")
    chat = {"scope": ANN, "memories": ["is a pilot"]}
    played = await play(worker(parts=[UserMemory(store)]), respond(), goal="short lists of what?", chat=chat)
    request = played.requests["main"][0]
    assert "is a pilot" in request.system
    assert any("prefers short" in message.text for message in request.messages if isinstance(message, SystemMessage))


async def test_each_request_begins_with_the_bytes_of_the_one_before_across_passes_and_turns() -> None:
    script = [decision("stats"), decision(("search", {"text": "x"}), confidence="low"), respond("A.")]
    model = ScriptedModel(*script, decision(("stats", {"year": 2020})), respond("B."))
    async with desk(model, MemoryStore(), worker()) as runtime:
        conversation = await runtime.conversation(ANN, agent="clerk")
        assert (await (await conversation.send("First?")).result()).text == "A."
        assert (await (await conversation.send("Second?")).result()).text == "B."
    assert len({(request.system, json.dumps(_schema(request))) for request in model.requests}) == 1
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        stable = list(before.messages)[:-1]
        assert list(after.messages)[: len(stable)] == stable


def _schema(request: Any) -> Any:
    return request.output_schema.schema


async def test_a_message_after_the_answer_begins_a_new_loop() -> None:
    agent = worker(loop={"max_passes": 2})
    store = MemoryStore()
    runtime: Runtime

    async def steer() -> None:
        (run,) = await store.runs(ANN)
        await runtime.steer(ANN, run.start.run_id, "And 2024?")

    model = ScriptedModel(
        decision("stats"),
        Answer(text=respond("A."), midway=steer),
        decision(("stats", {"year": 2024}), confidence="high"),
        respond("B."),
    )
    runtime = desk(model, store, agent)
    async with runtime:
        assert (await (await runtime.start(Chat("First?", scope=ANN), "clerk")).result()).text == "B."


# -- definitions -------------------------------------------------------------------------------------------------

TOML = """
id = "clerk"
name = "Clerk"
title = "Records"
description = "Marks records."
long_description = "Marks records that need a look."
icon = "pen"
starter_prompts = ["Which records are odd?"]
empty_state_description = "Ask about one."
approval_label = "Mark it"
system_prompt = "You are $name for $tenant.\\n$tools"
tools = ["stats"]
[loop]
max_passes = 2
[pre_enrichment]
default_tools = ["stats", { tool = "search", params = { text = "tea" } }]
prompt = "$goal"
"""
YAML = """
id: reader
name: Reader
system_prompt: |
  You read.
loop: {cost_budget: 0.25}
"""


def test_a_definition_is_read_from_toml_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TOML)
    clerk = load_worker(tmp_path / "a.toml")
    assert clerk.pre_enrichment is not None
    assert list(clerk.pre_enrichment.default_tools) == [("stats", {}), ("search", {"text": "tea"})]
    shown = (clerk.title, clerk.description, clerk.long_description, clerk.icon, clerk.empty_state_description)
    assert shown == ("Records", "Marks records.", "Marks records that need a look.", "pen", "Ask about one.")
    assert (list(clerk.starter_prompts), clerk.approval_label) == (["Which records are odd?"], "Mark it")
    agent = WorkerAgent(clerk, {"": ToolRegistry([stats, search, mark])})
    assert [each.name for each in agent.tools] == ["stats"]
    assert agent.loop.max_passes == 2
    assert agent.loop.tool_calls == 50  # the default
    pytest.importorskip("yaml")
    (tmp_path / "b.yaml").write_text(YAML)
    assert [each.id for each in load_workers(tmp_path)] == ["clerk", "reader"]
    reader = WorkerAgent(load_workers(tmp_path)[1], ToolRegistry([stats, search]))
    assert str(reader.loop.cost_budget) == "0.25"
    assert [each.name for each in reader.tools] == ["stats", "search"]  # none named: all of the registry


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id = 1", "system_prompt"),
        ("id = ", "not valid TOML"),
        (TOML.replace("clerk", "A Clerk"), "invalid id 'A Clerk'"),
        (TOML.replace("$tenant", "$goal"), "unknown $goal"),
        (TOML.replace("$tenant", "$ 5"), "'$$'"),
        (TOML.replace("max_passes", "passes"), "unknown field 'passes'"),
        (TOML.replace("max_passes = 2", "max_passes = 0"), "LoopConfig(max_passes=0)"),
        (TOML.replace("default_tools", "defaults"), "unknown field 'defaults'"),
        (TOML.replace('"stats", {', "5, {"), "invalid default_tools entry 5"),
        ("color = 1\n" + TOML, "unknown field 'color'"),
        ('status = "later"\n' + TOML, "invalid status 'later'"),
    ],
)
def test_an_invalid_definition_is_refused_with_the_file_and_the_value(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "worker.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load_worker(path)
    assert "worker.toml" in str(raised.value)
    assert problem in str(raised.value)


def test_tools_and_registries_that_do_not_exist_are_named() -> None:
    definition = WorkerDefinition(id="a", name="A", system_prompt="x", tools=["nothing"], registry="records")
    with pytest.raises(ConfigurationError, match="unknown registry 'records': choose from 'web'"):
        WorkerAgent(definition, {"web": ToolRegistry()})
    with pytest.raises(ConfigurationError, match="unknown tool 'nothing': choose from stats"):
        WorkerAgent(definition, {"records": ToolRegistry([stats])})


async def test_a_worker_is_a_tool_of_another_agent() -> None:
    above = AgentConfig[None]()
    above.tools = (delegate(worker(), description="Knows records."),)
    model = ScriptedModel(call("clerk", query="How many?"), decision("stats"), respond("120."), "It says 120.")
    orchestrator = ToolOrchestrator(Chat("?", model=model), above)
    events = [event async for event in orchestrator.stream()]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].result.text == "It says 120."
    answers = "".join(event.text for event in events if isinstance(event, TextDelta) and event.audience == "answer")
    assert answers == "It says 120."
