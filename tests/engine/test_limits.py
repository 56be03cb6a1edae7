"""Every limit of a run and its tree holds against a hostile model, and its agent decides how the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    AssistantMessage,
    Budget,
    Chat,
    Continue,
    Finish,
    Limits,
    MemoryStore,
    Message,
    ModelRequest,
    NextStep,
    Resources,
    RunContext,
    RunResult,
    Scope,
    SystemMessage,
    Text,
    Tokens,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import MainThreadAgent, delegate
from concertino.errors import ConfigurationError
from concertino.orchestrator import replay, requests
from concertino.providers import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk
from concertino.testing import Answer, ScriptedModel, call
from concertino.tools.builtin import Recall

from ..runtime.kit import state


class Endless:
    """Answers with text that never ends, however few tokens it may have; briefly if it may call no tools."""

    provider, name = "scripted", "endless"

    def __init__(self, *, ends: bool = True) -> None:
        self.sent = 0
        self.requests: list[ModelRequest] = []
        self.ends = ends

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer."""
        self.requests.append(request)
        if self.ends and request.tool_choice == "none" and len(self.requests) > 1:
            yield TextChunk("Briefly: no.")
            yield Reply(AssistantMessage((Text("Briefly: no."),), "end", self.name), Tokens(10, 5))
            return
        while True:
            self.sent += 1
            yield TextChunk("word " * 10)

    async def close(self) -> None:
        """Release nothing."""


ran: list[int] = []


@tool(effect="once")
async def refund() -> str:
    """Pay back."""
    ran.append(1)
    return "paid"


class Reasons(AgentConfig[None]):
    """Notes why its run ends, and ends it as the default does."""

    name = "reasons"
    prompt = "You are the agent."

    def __init__(self, *tools: Any) -> None:
        self.tools = tools
        self.reasons: list[str] = []

    def on_limit(self, run: RunContext[None], reason: Any) -> NextStep:
        self.reasons.append(reason)
        return super().on_limit(run, reason)  # type: ignore[return-value]  # the default does not wait


def limited(**limits: Any) -> Resources:
    return Resources(limits=lambda *_: Limits(**limits))


async def go(agent: AgentConfig[Any], model: Any, resources: Resources | None = None, **chat: Any) -> RunResult:
    return await ToolOrchestrator(Chat("go", model=model, **chat), agent, resources=resources).run()


def calls(*wanted: Any) -> Any:
    """A model that always makes the same calls, until it may call none."""
    return ScriptedModel(*[lambda request: "enough" if request.tool_choice == "none" else Answer(calls=wanted)] * 2_000)


async def test_recall_in_a_loop_ends() -> None:
    agent = Reasons(Recall())
    model = calls(call("recall", handle="zzzzzzz"))
    result = await go(agent, model)
    assert (result.status, result.text, agent.reasons) == ("completed", "enough", ["steps"])
    assert len(model.requests) == 101


@pytest.mark.parametrize("count", [26, 10_000])
async def test_calls_beyond_the_limit_in_one_turn_are_answered_without_running(count: int) -> None:
    ran.clear()
    agent = Reasons(refund)
    model = ScriptedModel([call("refund")] * count, "enough")
    result = await go(agent, model, limited(context=1_000_000, output=100_000))
    answers = [m.content for m in result.messages if isinstance(m, ToolMessage)]
    assert (result.text, agent.reasons, len(ran)) == ("enough", ["tool_calls"], 25)
    assert len(answers) == count
    assert answers.count("not run: the limit of 25 tool calls is reached") == count - 25


class Whole:
    """Sends its answers whole, without pieces: all its *calls* at once, and then "enough"."""

    provider, name = "scripted", "whole"

    def __init__(self, calls: int, text: str = "") -> None:
        parts = (Text(text),) if text else ()
        self.first = AssistantMessage(
            (*parts, *[ToolCall(f"c{number}", "recall", '{"handle": "zzzzzzz"}') for number in range(calls)]),
            "tool_calls" if calls else "end",
            self.name,
        )
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer."""
        self.requests.append(request)
        yield Reply(AssistantMessage((Text("enough"),)) if self.requests[1:] else self.first, Tokens(10, 5))

    async def close(self) -> None:
        """Release nothing."""


@pytest.mark.parametrize(("context", "count"), [(128_000, 10_000), (16_000, 1_000)])
async def test_calls_whose_results_no_context_holds_are_not_run(context: int, count: int) -> None:
    agent, model = Reasons(Recall()), Whole(count)
    result = await go(agent, model, limited(context=context))
    assert (result.status, result.text, agent.reasons) == ("completed", "enough", ["answer"])
    assert result.tool_call_count == 0
    assert len(result.messages) < 5


async def test_an_answer_that_arrives_whole_is_counted() -> None:
    agent = Reasons(Recall())
    result = await go(agent, Whole(1, "x" * 2_000), limited(received=1_000))
    assert (result.text, agent.reasons) == ("enough", ["received"])


@pytest.mark.parametrize("chunk", [TextChunk(""), ReasoningChunk(""), ToolCallChunk("c", "refund", "")])
async def test_endless_chunks_of_nothing_end(chunk: ModelEvent) -> None:
    class Empty(Endless):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            """Answer."""
            while True:
                self.sent += 1
                yield chunk

    agent, model = Reasons(), Empty()
    result = await go(agent, model, limited(output=200))
    assert (result.status, agent.reasons) == ("limited", ["answer"])
    assert model.sent < 2 * (200 * 12 + 1_024) + 10


async def test_calls_that_do_not_count_reach_the_limit_of_the_tree() -> None:
    agent = Reasons(Recall())
    model = ScriptedModel([call("recall", handle="zzzzzzz")] * 9, "enough")
    result = await go(agent, model, limited(all_tool_calls=5))
    assert (result.text, agent.reasons, result.tool_call_count) == ("enough", ["all_tool_calls"], 5)
    assert sum("of all agents" in m.content for m in result.messages if isinstance(m, ToolMessage)) == 4


async def test_an_agent_that_delegates_to_itself_ends() -> None:
    agent = Reasons()
    agent.tools = (delegate(agent, description="again"),)
    model = calls(call("reasons", query="again"))
    result = await go(agent, model, limited(model_calls=60))
    assert (result.status, result.text) == ("completed", "enough")
    assert len(model.requests) <= 60
    assert max(path.count("/") for path in result.tool_calls) == 5
    assert set(agent.reasons) <= {"model_calls", "tool_calls"}


@pytest.mark.parametrize("most", [1, 2, 3, 7])
async def test_the_limit_of_model_calls_includes_the_last_steps_of_all_agents(most: int) -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "x"

    child = Reasons(look)
    child.name = "child"
    agent = Reasons(look, delegate(child, description="a child"))
    model = calls(call("look"), call("child", query="a"), call("child", query="b"))
    result = await go(agent, model, limited(model_calls=most))
    assert (result.status, result.text) == ("completed", "enough")
    assert len(model.requests) <= most


async def test_the_calls_of_sub_agents_count_against_the_limit_of_the_tree() -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "x"

    class Child(AgentConfig[None]):
        name, prompt, tools = "child", "You are the child.", (look,)

    agent = Reasons(delegate(Child(), description="a child"))
    scripts: dict[str, Any] = {
        "the child": [[call("look")] * 3, "the child's answer"],
        "the agent": [call("child", query="a"), "end"],
    }
    result = await go(agent, ScriptedModel(scripts=scripts), limited(all_tool_calls=4))
    assert (result.text, agent.reasons, result.tool_call_count) == ("end", ["all_tool_calls"], 4)


async def test_calls_outside_turns_count_against_the_limit_of_the_tree() -> None:
    notes: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note."""
        notes.append(text)
        return "noted"

    @tool
    async def work(context: ToolContext) -> str:
        """Work."""
        for number in range(100):
            await context.call("note", {"text": str(number)})
        return "done"

    result = await go(Reasons(note, work), ScriptedModel(call("work"), "enough"), limited(all_tool_calls=5))
    assert (len(notes), result.tool_calls) == (4, {"reasons": 5})
    (outcome,) = (message for message in result.messages if isinstance(message, ToolMessage))
    assert "the limit of 5 tool calls of all agents is reached" in outcome.content


@pytest.mark.parametrize("ends", [True, False])
async def test_an_endless_answer_is_cut_booked_and_ended(ends: bool) -> None:
    agent, model = Reasons(), Endless(ends=ends)
    store = MemoryStore()
    resources = Resources(store=store, limits=lambda *_: Limits(output=200))
    result = await go(agent, model, resources, budget=Budget(tokens=5_000))
    assert agent.reasons == ["answer"]
    assert (result.status, result.messages[-1].text == "Briefly: no.") == (
        ("completed", True) if ends else ("limited", False)
    )
    assert model.sent * 50 < 2 * (200 * 12 + 1_024) + 200
    assert [record.source for record in result.usage] == ["estimated", "measured" if ends else "estimated"]
    (account,) = await store.accounts(Scope(), run_id=result.run_id)
    assert (account.reserved_tokens, account.spent_tokens > 200) == (0, True)


async def test_received_characters() -> None:
    agent = Reasons(refund)
    model = ScriptedModel(*[Answer(text="x" * 600, calls=(call("refund"),))] * 2, "enough")
    result = await go(agent, model, limited(received=1_000))
    assert (result.text, agent.reasons) == ("enough", ["received"])


class Hangs(Reasons):
    """One of its hooks never returns."""

    def __init__(self, hook: str) -> None:
        super().__init__(refund)

        async def hang(*_: Any) -> Any:
            await asyncio.Event().wait()

        setattr(self, hook, hang)


@pytest.mark.parametrize("hook", ["prepare", "should_continue_loop", "get_model_id", "after_step", "conclude"])
async def test_a_hook_that_never_returns(hook: str) -> None:
    agent = Hangs(hook)
    model = ScriptedModel(*[lambda request: "enough" if request.tool_choice == "none" else call("refund")] * 30)
    result = await go(agent, model, limited(hook_seconds=0.01, tool_calls=3))
    if hook in ("prepare", "conclude"):
        assert (result.status, result.text) == ("completed", "enough")
    else:
        assert result.status in ("limited", "completed")  # the hook hangs in the last step too
    assert agent.reasons == (["tool_calls"] if hook == "conclude" else ["hook_seconds"])


async def test_a_hook_of_a_call_that_never_returns_fails_the_call() -> None:
    ran.clear()
    result = await go(Hangs("authorize_tool_call"), ScriptedModel(call("refund"), "enough"), limited(hook_seconds=0.01))
    assert (result.status, result.text, ran) == ("completed", "enough", [])
    assert "hook authorize_tool_call" in next(m.content for m in result.messages if isinstance(m, ToolMessage))


@pytest.mark.parametrize("what", ["tool", "model", "sub-agent", "hook"])
async def test_the_time_of_a_run(what: str) -> None:
    never = asyncio.Event()

    @tool(timeout=None)
    async def hang() -> str:
        """Hang."""
        await never.wait()
        return ""

    child = Reasons(hang)
    child.name = "child"
    agent: Reasons = Reasons(hang, delegate(child, description="a child"))
    if what == "hook":
        agent = Hangs("prepare")

    def step(request: ModelRequest) -> Any:
        if request.tool_choice == "none":
            return "enough"
        if what == "model":
            return Answer(text="half", midway=never.wait)
        root = any(spec.name == "child" for spec in request.tools)
        return call("child", query="x") if what == "sub-agent" and root else call("hang")

    result = await go(agent, ScriptedModel(*[step] * 5), limited(seconds=0.05))
    assert (result.status, result.text, agent.reasons) == ("completed", "enough", ["seconds"])


async def test_tokens_and_money_without_a_store() -> None:
    used = Answer(calls=(call("refund"),), tokens=Tokens(prompt=90, completion=20))
    for limits in ({"tokens": 200}, {"cost": Decimal(2)}):
        agent = Reasons(refund)
        resources = Resources(limits=lambda *_, given=limits: Limits(**given), price=lambda *_: (Decimal(1), "test"))
        result = await go(agent, ScriptedModel(used, used, "enough"), resources)
        assert (result.text, agent.reasons) == ("enough", list(limits))


class Twice(Reasons):
    """Reaches another limit in its last step, and wants to go on for ever."""

    def on_limit(self, run: RunContext[None], reason: Any) -> NextStep:
        super().on_limit(run, reason)
        return Continue()


async def test_there_is_one_last_step() -> None:
    agent = Twice(Recall())
    model = ScriptedModel(*[call("recall", handle="zzzzzzz")] * 50)
    result = await go(agent, model, limited(steps=3))
    assert (result.status, result.steps, agent.reasons) == ("limited", 4, ["steps"])
    assert result.error


async def test_the_prompt_at_a_limit_is_part_of_one_request_only() -> None:
    store = MemoryStore()
    model = ScriptedModel(call("refund"), "end")
    agent = Reasons(refund)
    chat = Chat("go", model=model)
    run = ToolOrchestrator(chat, agent, tool_call_limit=2, resources=Resources(store=store))
    result = await run.run()
    last = model.requests[-1].messages[-1]
    assert isinstance(last, SystemMessage)
    assert "tool calls" in last.text
    assert last not in result.messages
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    journal = await store.load(Scope(), run.run_id)
    assert journal is not None
    assert [list(request.messages) for _, _, request in requests(journal)] == [list(r.messages) for r in model.requests]
    assert last not in replay(journal).messages
    fork = replay(journal, before_step=2)
    assert fork.request is not None
    assert fork.request.request.messages[-1] == last


async def test_a_prompt_of_a_hook_survives_a_crash_before_its_request() -> None:
    class Nudges(Reasons):
        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            return Finish() if run.state.step > 1 else Continue(prompt="Look again.")

    store, never = MemoryStore(), asyncio.Event()
    agent = Nudges()
    model = ScriptedModel("first", Answer(text="lost", before=never.wait))
    first = ToolOrchestrator(Chat("go", model=model), agent, resources=Resources(store=store))
    task = asyncio.create_task(first.run())
    await state(lambda: len(model.requests) == 2)
    first.park()
    await asyncio.wait([task])
    second = ScriptedModel("second")
    resumed = ToolOrchestrator(
        Chat(model=second), agent, run_id=first.run_id, resume=True, resources=Resources(store=store)
    )
    assert (await resumed.run()).text == "second"
    assert list(second.requests[0].messages) == list(model.requests[1].messages)
    assert second.requests[0].messages[-1] == SystemMessage("Look again.")


async def test_the_meter_survives_a_resumption() -> None:
    store, never = MemoryStore(), asyncio.Event()
    agent = Reasons(Recall())
    steps = [call("recall", handle="zzzzzzz")] * 3
    model = ScriptedModel(*steps, Answer(text="lost", before=never.wait))
    given = Resources(store=store, limits=lambda *_: Limits(model_calls=6, all_tool_calls=100))
    first = ToolOrchestrator(Chat("go", model=model), agent, resources=given)
    task = asyncio.create_task(first.run())
    await state(lambda: len(model.requests) == 4)
    first.park()
    await asyncio.wait([task])
    second = calls(call("recall", handle="zzzzzzz"))
    resumed = ToolOrchestrator(Chat(model=second), agent, run_id=first.run_id, resume=True, resources=given)
    result = await resumed.run()
    assert (result.status, result.text, agent.reasons) == ("completed", "enough", ["model_calls"])
    assert len(model.requests) + len(second.requests) <= 6


@pytest.mark.parametrize("tokens", [400, 6_000, 9_000])
async def test_a_small_budget_shortens_the_answer_before_it_removes_tools(tokens: int) -> None:
    @tool
    async def pay(x: str) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel(lambda q: "no tools" if q.tool_choice == "none" else call("pay", x="a"), "answer")
    chat = Chat("hi", model=model, budget=Budget(tokens=tokens))
    run = ToolOrchestrator(chat, AgentConfig(), ToolRegistry([pay]), resources=Resources(store=MemoryStore()))
    result = await run.run()
    assert (result.status, result.text, result.tool_call_count) == ("completed", "answer", 1)


async def test_the_prompt_at_a_budget_speaks_of_the_budget() -> None:
    model = ScriptedModel(lambda request: "That is all." if request.tool_choice == "none" else call("refund"))
    result = await go(Reasons(refund), model, Resources(store=MemoryStore()), budget=Budget(tokens=150))
    assert (result.status, result.text) == ("completed", "That is all.")
    assert "budget" in model.requests[0].messages[-1].text
    assert "tool calls" not in model.requests[0].messages[-1].text


async def test_a_chat_without_tools() -> None:
    model = ScriptedModel("hello")
    await go(Reasons(refund), model, send_tools=False)
    assert (model.requests[0].tools, model.requests[0].tool_choice) == ((), "none")
    with pytest.raises(ConfigurationError, match="send_tools"):
        ToolOrchestrator(Chat("go", model=model, send_tools="no"), AgentConfig())  # type: ignore[arg-type]


@pytest.mark.parametrize(("results", "prompted"), [(2, False), (3, True)])
async def test_the_main_thread_asks_for_a_summary_after_more_than_two_results(results: int, prompted: bool) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "x"

    model = ScriptedModel([call("look")] * results, call("look"), "end")
    orchestrator = ToolOrchestrator(Chat("go", model=model), MainThreadAgent(), ToolRegistry([look]))
    result = await orchestrator.run()
    asked: list[Message] = [request.messages[-1] for request in model.requests]
    assert [isinstance(message, SystemMessage) for message in asked] == [False, prompted, False]
    assert not any(isinstance(message, SystemMessage) for message in result.messages)


@pytest.mark.parametrize("limits", [{"depth": 0}, {"seconds": 0}, {"cost": Decimal(0)}, {"steps": -1}, {"tokens": 1.5}])
def test_a_limit_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(limits))):
        Limits(**limits)
