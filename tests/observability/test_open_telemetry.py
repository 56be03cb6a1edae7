"""Spans and metrics of runs: their tree, their attributes, and what they must not contain or delay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode, get_current_span, get_tracer

from concertino import (
    AgentConfig,
    Ask,
    Chat,
    DataPolicy,
    MemoryStore,
    Resources,
    Retry,
    RunContext,
    RunResult,
    Runtime,
    Scope,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    ToolResult,
    tool,
)
from concertino.agents import EMAIL, ScriptedStep, Workflow, WorkflowAgent, delegate
from concertino.errors import ConfigurationError, RateLimitError
from concertino.events import TextDelta
from concertino.testing import ScriptedModel, call

from .kit import Collected, attributes


@tool(effect="read")
def price(item: str) -> float:
    """The price of an item."""
    with get_tracer("shop").start_as_current_span("query"):
        if item == "gold":
            raise ValueError("not for sale")
        return 3.5


class Clerk(AgentConfig[None]):
    name = "clerk"
    prompt = "You know all prices."
    tools: Sequence[Tool] = (price,)


async def run(agent: AgentConfig[Any], *script: Any, into: Collected, **settings: Any) -> RunResult:
    """Run *agent* without a runtime, and return its result."""
    with ScriptedModel(*script, **settings) as model:
        resources = Resources(retry=Retry(first=0.0), price=lambda *_: (Decimal("0.25"), "test"))
        chat = Chat("What does tea cost?", model=model, conversation_id="conv")
        observers = [into.telemetry]
        return await ToolOrchestrator(chat, agent, resources=resources, observers=observers).run()


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Collected:
    found = Collected()
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", found.provider)
    return found


async def test_a_tools_own_spans_nest_below_its_agents(collected: Collected) -> None:
    class Chief(AgentConfig[None]):
        name = "chief"
        tools = (delegate(Clerk(), description="Knows the prices."),)

    scripts = {"You know all prices": [[call("price", item="tea"), call("price", item="cake")], "3.50 euros"]}
    result = await run(Chief(), call("clerk", query="tea?"), "It is 3.50.", into=collected, scripts=scripts)
    assert result.status == "completed"
    chat, tool_span = "chat script", ["execute_tool price", "query"]
    below = ["invoke_agent clerk", chat, tool_span, tool_span, chat]
    assert collected.tree() == [["invoke_agent chief", chat, ["execute_tool clerk", below], chat]]
    assert get_current_span().get_span_context().is_valid is False, "nothing is left of the run's context"
    assert len({span.context.trace_id for span in collected.spans}) == 1


async def test_attributes_and_metrics(collected: Collected) -> None:
    await run(Clerk(), call("price", item="tea"), "3.50 euros", into=collected)
    first, second = map(attributes, collected.named("chat"))
    ids = {"concertino.run.id", "gen_ai.agent.name", "gen_ai.conversation.id"}
    assert ids <= first.keys()
    assert (first["concertino.step"], second["concertino.step"]) == (1, 2)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "script",
        "gen_ai.response.model": "script",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "concertino.usage.cost": 0.25,
        "concertino.usage.cache_share": 0.0,
    }
    assert expected.items() <= second.items()
    assert second["gen_ai.response.time_to_first_chunk"] > 0
    (agent,) = map(attributes, collected.named("invoke_agent"))
    assert (agent["concertino.run.status"], agent["concertino.usage.cost"]) == ("completed", 0.5)
    (called,) = map(attributes, collected.named("execute_tool"))
    assert (called["gen_ai.tool.name"], called["gen_ai.tool.call.id"]) == ("price", "call_1")
    assert collected.metric("gen_ai.client.inference.usage.input_tokens", "gen_ai.provider.name") == {"scripted": 20}
    assert collected.metric("concertino.usage.cost") == {"": 0.5}
    for name in ("gen_ai.client.inference.duration", "gen_ai.client.inference.time_to_first_chunk"):
        assert collected.metric(name, "gen_ai.request.model") == {"script": 2}
    assert collected.metric("gen_ai.execute_tool.duration", "gen_ai.tool.name") == {"price": 1}
    assert collected.metric("gen_ai.invoke_agent.duration", "gen_ai.agent.name") == {"clerk": 1}


async def test_a_retry_is_an_event_of_one_span_and_its_usage_counts(collected: Collected) -> None:
    await run(Clerk(), RateLimitError("slow down", provider="scripted"), "3.50 euros", into=collected)
    (chat,) = collected.named("chat")
    (failed,) = chat.events
    assert failed.name == "concertino.attempt.failed"
    assert (failed.attributes or {})["error.type"] == "RateLimitError"
    assert chat.status.status_code is StatusCode.UNSET
    assert collected.metric("concertino.attempts.failed", "error.type") == {"RateLimitError": 1}


async def test_a_run_that_fails(collected: Collected) -> None:
    with pytest.raises(Exception, match="no funds"):
        await run(Clerk(), RateLimitError("no funds", provider="scripted", retry_after=99.0), into=collected)
    for span in collected.spans:
        assert (span.status.status_code, attributes(span)["error.type"]) == (StatusCode.ERROR, "RateLimitError")
    assert [span.name for span in collected.spans] == ["invoke_agent clerk", "chat script"]
    assert collected.metric("gen_ai.client.inference.duration", "error.type") == {"RateLimitError": 1}


async def test_a_failed_tool_does_not_fail_its_run(collected: Collected) -> None:
    await run(Clerk(), call("price", item="gold"), "It is not for sale.", into=collected)
    (called,) = collected.named("execute_tool")
    assert attributes(called)["error.type"] == "tool_error"
    (agent,) = collected.named("invoke_agent")
    assert agent.status.status_code is StatusCode.UNSET


async def test_questions_are_model_calls_below_what_asked(collected: Collected) -> None:
    @tool(effect="read")
    async def weigh(item: str, context: ToolContext) -> str:
        """Weigh an item."""
        context.add_usage(provider="scale", model="brass", tokens=None)
        return await context.ask(f"How heavy is {item}?")

    class Weigher(AgentConfig[None]):
        name = "weigher"
        tools = (weigh,)

    await run(Weigher(), call("weigh", item="tea"), "100 g", "It weighs 100 g.", into=collected)
    asked = ["execute_tool weigh", "chat script"]
    assert collected.tree() == [["invoke_agent weigher", "chat script", asked, "chat script"]]
    assert collected.metric("gen_ai.client.inference.duration") == {"": 3}
    assert collected.metric("concertino.usage.cost", "gen_ai.provider.name")["scripted"] == 0.75


async def test_a_workflow_is_named_as_one(collected: Collected) -> None:
    step = ScriptedStep(id="look", tool="price", arguments={"item": "tea"})
    agent = WorkflowAgent(Workflow(name="stock", steps=[step]), [price])
    await run(agent, into=collected)
    (found,) = map(attributes, collected.named("invoke_workflow stock"))
    assert found["gen_ai.operation.name"] == "invoke_workflow"
    assert collected.metric("gen_ai.invoke_agent.duration", "gen_ai.operation.name") == {"invoke_workflow": 1}


# -- content ---------------------------------------------------------------------------------------------------


def texts(collected: Collected) -> str:
    """Return all that the spans contain."""
    return "".join(span.to_json() for span in collected.spans)


async def test_content_is_off_unless_asked_for() -> None:
    off, on = Collected(), Collected(content=True)
    for collected in (off, on):
        await run(Clerk(), call("price", item="c4n4ry"), "The c4n4ry costs 3.50.", into=collected)
    assert "c4n4ry" not in texts(off)
    assert "What does tea cost" not in texts(off)
    (called,) = map(attributes, on.named("execute_tool"))
    assert (called["gen_ai.tool.call.arguments"], called["gen_ai.tool.call.result"]) == ('{"item": "c4n4ry"}', "3.5")
    (agent,) = map(attributes, on.named("invoke_agent"))
    assert "What does tea cost?" in agent["gen_ai.input.messages"]
    assert "The c4n4ry costs 3.50." in agent["gen_ai.output.messages"]
    first, _ = map(attributes, on.named("chat"))
    assert (
        '"type":"tool_call","id":"call_1","name":"price","arguments":{"item":"c4n4ry"}'
        in first["gen_ai.output.messages"]
    )


async def test_content_obeys_the_data_policy() -> None:
    @tool(effect="read")
    async def secret() -> ToolResult:
        """Return a result that must not be kept."""
        return ToolResult("c4n4ry", stored=False)

    class Discreet(Clerk):
        tools: Sequence[Tool] = (price, secret)

        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(patterns=(EMAIL,))

    collected = Collected(content=True)
    calls = [call("secret"), call("price", item="ann@example.com")]
    await run(Discreet(), calls, "Ask ann@example.com.", into=collected)
    assert "c4n4ry" not in texts(collected)
    assert "ann@example.com" not in texts(collected)
    assert "Ask " in texts(collected)


# -- traces that continue --------------------------------------------------------------------------------------


class Careful(Clerk):
    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask(note="a price")


async def ended(runtime: Runtime, scope: Scope, run_id: str) -> None:
    """Wait for the end of a run."""
    async for _ in runtime.events(scope, run_id):
        pass
    assert (await runtime.result(scope, run_id)).status == "completed"


async def test_a_resumed_run_continues_the_trace_of_the_request_that_started_it(collected: Collected) -> None:
    store, scope = MemoryStore(), Scope("acme", "ann")
    model = ScriptedModel(call("price", item="tea"), "3.50 euros")
    tracer = collected.provider.get_tracer("product")
    for process in range(2):  # two runtimes on one store are two processes
        observers = [collected.telemetry]
        async with Runtime(
            [Careful()], Resources(model=model, store=store), observers=observers, sweep=0.01
        ) as runtime:
            if process == 0:
                with tracer.start_as_current_span("request"):
                    run = await runtime.start(Chat("tea?", scope=scope), "clerk", run_id="tea")
                assert (await run.result()).status == "suspended"
                (wait,) = await runtime.approvals(scope)
                waiting = run.id
                await runtime.close()
                await runtime.approve(scope, wait.key)
            else:
                await ended(runtime, scope, waiting)
    await store.close()
    trees = ["chat script", "execute_tool price"], [["execute_tool price", "query"], "chat script"]
    assert collected.tree() == [["request", *(["invoke_agent clerk", *below] for below in trees)]]
    first, second = map(attributes, collected.named("invoke_agent"))
    assert (first["concertino.run.status"], second["concertino.run.resumed"]) == ("suspended", True)
    waited, _ = map(attributes, collected.named("execute_tool"))
    assert waited["concertino.wait.kind"] == "approval"


async def test_a_run_outside_of_a_trace_is_its_root_in_every_process(collected: Collected) -> None:
    store, scope = MemoryStore(), Scope("acme", "ann")
    model = ScriptedModel(call("price", item="tea"), "3.50 euros")
    resources = Resources(model=model, store=store)
    async with Runtime([Careful()], resources, observers=[collected.telemetry], sweep=0.01) as runtime:
        run = await runtime.start(Chat("tea?", scope=scope), "clerk")
        assert (await run.result()).status == "suspended"
        (wait,) = await runtime.approvals(scope)
        await runtime.approve(scope, wait.key)
        await ended(runtime, scope, run.id)
    await store.close()
    resumed = ["invoke_agent clerk", ["execute_tool price", "query"], "chat script"]
    assert collected.tree() == [["invoke_agent clerk", "chat script", "execute_tool price", resumed]]


async def test_a_queued_turn_belongs_to_the_request_that_sent_it(collected: Collected) -> None:
    began = asyncio.Event()
    free = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        began.set()
        await free.wait()
        return "done"

    class Waiter(AgentConfig[None]):
        name = "waiter"
        tools = (wait,)

    resources = Resources(model=ScriptedModel(call("wait"), "first", "second"), store=MemoryStore())
    async with Runtime([Waiter()], resources, observers=[collected.telemetry], sweep=0.01) as runtime:
        conversation = await runtime.conversation(Scope("acme", "ann"), agent="waiter")
        await conversation.send("one")
        await began.wait()
        with collected.provider.get_tracer("product").start_as_current_span("request"):
            turn = await conversation.send("two")
        free.set()
        assert (await turn.result()).text == "second"
    assert ["request", ["invoke_agent waiter", "chat script"]] in collected.tree()


@pytest.mark.parametrize("value", ["x", "00-" + "0" * 32, 3])
async def test_an_invalid_trace_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="traceparent"):
        ToolOrchestrator(Chat("tea?", model=ScriptedModel("x"), traceparent=value), Clerk())


# -- exporters that fail ---------------------------------------------------------------------------------------


class Stuck(SpanExporter):
    """Hangs until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.begun.set()
        self.released.wait()
        raise OSError("the receiver is gone")


async def test_an_exporter_that_hangs_and_fails_harms_no_run(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Stuck()
    collected = Collected(exporter)
    for _ in range(3):
        result = await run(Clerk(), call("price", item="tea"), "3.50 euros", into=collected)
        assert result.status == "completed"
    assert exporter.begun.wait(60)
    assert collected.telemetry.flush(0.01) is False
    exporter.released.set()
    assert collected.telemetry.flush(60)


async def test_work_for_an_exporter_that_hangs_is_dropped_and_counted() -> None:
    exporter = Stuck()
    collected = Collected(exporter)
    collected.telemetry.background._most = 4
    for _ in range(3):
        await run(Clerk(), call("price", item="tea"), "3.50 euros", into=collected)
    dropped = collected.telemetry.background.dropped
    assert dropped >= 12 - 4 - 1
    exporter.released.set()
    assert collected.metric("concertino.telemetry.dropped") == {"": dropped}


async def test_spans_end_when_the_consumer_leaves(collected: Collected) -> None:
    with ScriptedModel("one two three") as model:
        orchestrator = ToolOrchestrator(Chat("Hi", model=model), Clerk(), observers=[collected.telemetry])
        stream = orchestrator.stream()
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()
    assert {span.name for span in collected.spans} == {"invoke_agent clerk", "chat script"}
    assert collected.telemetry._runs == {}
