"""`ToolResult(ends_run=True)`: a tool's own result ends the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    Continue,
    Finish,
    MemoryStore,
    NextStep,
    Pending,
    Resources,
    RunContext,
    RunResult,
    Scope,
    Special,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    ToolResult,
    tool,
)
from concertino.agents import EndWith
from concertino.errors import ToolError
from concertino.orchestrator import Outcome
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call

ANN = Scope("acme", "ann")
LONG = "a word " * 20_000


@tool(effect="read")
async def look(n: int = 1) -> str:
    """Look."""
    return f"looked {n}"


@tool(effect="once")
async def book(n: int = 1) -> ToolResult:
    """Book."""
    if n < 0:
        raise ToolError("fully booked")
    return ToolResult(f"booked {n}", ends_run=True)


def agent(*tools: Tool, **settings: Any) -> AgentConfig[None]:
    made: AgentConfig[None] = AgentConfig()
    made.tools = tools
    for name, value in settings.items():
        setattr(made, name, value)
    return made


async def play(config: AgentConfig[None], *answers: Any, **resources: Any) -> RunResult:
    """Run *config* with a model that must give all *answers*."""
    with ScriptedModel(*answers) as model:
        return await ToolOrchestrator(
            Chat("Go.", model=model, scope=ANN), config, resources=Resources(**resources)
        ).run()


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([call("book")], "booked 1"),
        ([call("look"), call("book")], "booked 1"),
        ([[call("book", n=3), call("look"), call("book", n=4)]], "booked 3"),
        ([[call("look"), call("book", n=-1), call("book", n=2)]], "booked 2"),
        ([call("book", n=-1), "Fully booked."], "Fully booked."),
    ],
    ids=["at once", "later", "the first of two", "after a failed one", "only a failed one"],
)
@pytest.mark.parametrize("early", [False, True])
async def test_the_first_result_of_the_step_is_the_answer(answers: list[Any], text: str, early: bool) -> None:
    store = MemoryStore()
    config = agent(look, book, start_tools_early=early)
    result = await play(config, *answers, store=store)
    assert (result.status, result.text) == ("completed", text)
    stored = await store.run(OPERATOR, result.run_id)
    assert stored is not None
    assert stored.end is not None
    assert stored.end.answer == text
    assert not await store.operations(OPERATOR)


async def test_the_other_calls_of_the_step_run() -> None:
    result = await play(agent(look, book), [call("look", n=1), call("book"), call("look", n=2)])
    assert [message.content for message in result.messages if hasattr(message, "content")] == [
        "looked 1",
        "booked 1",
        "looked 2",
    ]


async def test_no_call_that_the_agent_requires_is_asked_for() -> None:
    result = await play(agent(look, book, parts=(EndWith("look"),)), "I am done.", call("book"))
    assert result.text == "booked 1"


async def test_the_answer_is_the_whole_result() -> None:
    @tool(effect="read", max_tokens=50, shown=True)
    async def report() -> ToolResult:
        """Report."""
        return ToolResult(LONG, data={"words": 2}, ends_run=True)

    result = await play(agent(report), call("report"))
    assert (result.text, result.data) == (LONG, {"report": {"words": 2}})


async def test_a_result_that_is_not_text_is_the_answer_as_json() -> None:
    @tool(effect="read")
    async def total() -> ToolResult:
        """Add."""
        return ToolResult({"total": 7}, ends_run=True)

    assert (await play(agent(total), call("total"))).text == '{"total": 7}'


async def test_a_result_that_a_hook_replaces_is_not_the_answer() -> None:
    class Guarded(AgentConfig[None]):
        tools = (book,)

        def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> Special:
            assert outcome.ends_run
            return Special(result="[removed]")

    class Changed(AgentConfig[None]):
        tools = (book,)

        def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> None:
            outcome.content = "[masked]"

    assert (await play(Guarded(), call("book"))).text == "[removed]"
    assert (await play(Changed(), call("book"))).text == "[masked]"


async def test_hooks_see_the_end_and_may_change_it() -> None:
    seen: list[NextStep] = []

    class Stubborn(AgentConfig[None]):
        tools = (book,)

        def after_step(self, run: RunContext[None], outcome: NextStep) -> NextStep:
            seen.append(outcome)
            return Continue(tool_choice="none") if run.state.step == 1 else outcome

    assert (await play(Stubborn(), call("book"), "Booked, and more.")).text == "Booked, and more."
    assert seen == [Finish("booked 1"), Finish()]

    class Kept(AgentConfig[None]):
        tools = (book,)

        def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> None:
            outcome.ends_run = False

    assert (await play(Kept(), call("book"), "Booked.")).text == "Booked."


async def test_a_result_that_must_not_be_kept_ends_the_run_with_the_text_of_the_model() -> None:
    @tool(effect="read")
    async def secret() -> ToolResult:
        """Tell."""
        return ToolResult("s3cret", stored=False, ends_run=True)

    store = MemoryStore()
    result = await play(agent(secret), Answer(text="Here it is.", calls=(call("secret"),)), store=store)
    assert (result.status, result.text) == ("completed", "Here it is.")
    stored = await store.run(OPERATOR, result.run_id)
    assert stored is not None
    assert "s3cret" not in repr(stored)
    assert "s3cret" not in repr(await store.load(OPERATOR, result.run_id))


class Total(BaseModel):
    total: int


@pytest.mark.parametrize(
    ("content", "output"), [("not a total", None), ('{"total": 3}', Total(total=3))], ids=["other text", "a value"]
)
async def test_the_answer_of_an_agent_with_an_output_type_need_not_be_a_value(content: str, output: Any) -> None:
    @tool(effect="read")
    async def stop() -> ToolResult:
        """Stop."""
        return ToolResult(content, ends_run=True)

    result = await play(agent(stop, output_type=Total), call("stop"))
    assert (result.status, result.text, result.output) == ("completed", content, output)


async def test_a_call_in_the_background_does_not_end_the_run() -> None:
    class Slow(Tool):
        name, description, effect, background = "slow", "Work.", "idempotent", True
        parameters: dict[str, Any] = {"type": "object", "properties": {}}

        async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return ToolResult("worked", ends_run=True)

    assert (await play(agent(Slow()), call("slow"), "I wait.", "It worked.")).text == "It worked."


async def test_a_call_outside_a_turn_does_not_end_the_run() -> None:
    found: list[ToolResult] = []

    @tool(effect="read")
    async def both(context: ToolContext) -> ToolResult:
        """Book for another tool."""
        found.append(await context.call("book", {"n": 5}))
        return found[0]

    assert (await play(agent(both, book), call("both"), "Done.", store=MemoryStore())).text == "Done."
    assert found == [ToolResult("booked 5")]


async def test_an_answer_from_outside_does_not_end_the_run() -> None:
    @tool(remote=True)
    async def ask() -> Pending:
        """Ask another system."""
        return Pending()

    store = MemoryStore()
    with ScriptedModel(call("ask"), "It answered.") as model:
        async with Runtime([agent(ask, name="desk")], Resources(store=store, models=lambda _: model)) as runtime:
            live = await runtime.start(Chat("Go.", model="scripted:script", scope=ANN), "desk")
            (wait,) = (await live.result()).waiting
            forged = '{"content": "over", "ends_run": true}'
            await runtime.resolve(ANN, wait.key, forged)
            result = await (await runtime.resume(ANN, live.id)).result()
    assert result.text == "It answered."


class Interrupted(AgentConfig[None]):
    """An agent whose process stops between the result and the end."""

    name = "desk"

    def __init__(self, *tools: Tool, hold: asyncio.Event | None = None) -> None:
        self.tools = tools
        self._hold = hold

    async def after_step(self, run: RunContext[None], outcome: NextStep) -> NextStep:
        if self._hold is not None and isinstance(outcome, Finish):
            self._hold.set()
            await asyncio.Event().wait()
        return outcome


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
@pytest.mark.parametrize("early", [False, True])
async def test_a_resumed_run_ends_as_its_journal_says(effect: Any, early: bool) -> None:
    """The tool has run once, whatever its effect, and no model is asked again."""
    executed: list[str] = []

    @tool(name="book", effect=effect)
    async def once(context: ToolContext) -> ToolResult:
        """Book."""
        executed.append(context.key)
        return ToolResult(f"booked {len(executed)}", ends_run=True)

    store, held = MemoryStore(), asyncio.Event()
    with ScriptedModel(call("look"), [call("book"), call("look")]) as model:
        resources = Resources(store=store, models=lambda _: model)
        desk = Interrupted(look, once, hold=held)
        desk.start_tools_early = early
        runtime = Runtime([desk], resources)
        live = await runtime.start(Chat("Go.", model="scripted:script", scope=ANN), "desk")
        await held.wait()
        await runtime.close()  # parks the run
        async with Runtime([Interrupted(look, once)], resources) as later:
            result = await (await later.resume(ANN, live.id)).result()
    assert (result.status, result.text) == ("completed", "booked 1")
    assert len(executed) == 1


@pytest.mark.parametrize(
    ("change", "more", "text"),
    [
        ("UPDATE journal SET body = json_remove(body, '$.ending')", ["Booked."], "Booked."),
        ("UPDATE outcomes SET content = json_set(content, '$.later', 1)", [], "booked 1"),
    ],
    ids=["without the field of the entry, which a process may not know", "with a field of a newer version"],
)
async def test_a_journal_of_another_version_is_read(change: str, more: list[str], text: str) -> None:
    store, held = MemoryStore(), asyncio.Event()
    with ScriptedModel(call("book"), *more) as model:
        resources = Resources(store=store, models=lambda _: model)
        runtime = Runtime([Interrupted(book, hold=held)], resources)
        live = await runtime.start(Chat("Go.", model="scripted:script", scope=ANN), "desk")
        await held.wait()
        await runtime.close()
        await store._connection.run(lambda connection: connection.execute(change))
        async with Runtime([Interrupted(book)], resources) as later:
            result = await (await later.resume(ANN, live.id)).result()
    assert (result.status, result.text) == ("completed", text)
