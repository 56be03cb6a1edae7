"""Tools of one turn: side by side, each with an outcome, whatever it does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic import Field

from concertino import AgentConfig, Tool, ToolContext, ToolError, ToolResult, delegate, tool
from concertino.errors import ConfigurationError
from concertino.events import ToolDone, ToolFailed, ToolProgress, ToolStarted, ToolStreamed, UsageRecorded
from concertino.messages import AssistantMessage, ToolMessage
from concertino.providers.openai import TiktokenCounter
from concertino.testing import ScriptedModel, call
from concertino.usage import Tokens

from .conftest import Play


def results(model: ScriptedModel) -> list[ToolMessage]:
    """The tool results in the last request."""
    return [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]


async def test_tools_of_a_turn_run_side_by_side(play: Play) -> None:
    together = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Wait for the others."""
        await together.wait()
        return name

    with ScriptedModel([call("meet", name=n) for n in "abc"], "done") as model:
        await play(model, tools=[meet])
    assert [r.content for r in results(model)] == ["a", "b", "c"], "results are in the order of the calls"


async def test_a_fast_tool_is_seen_before_a_slow_one_ends(play: Play) -> None:
    fast_is_seen = asyncio.Event()

    @tool
    async def slow() -> str:
        """Slow."""
        await fast_is_seen.wait()
        return "slow"

    @tool
    async def fast() -> str:
        """Fast."""
        return "fast"

    def watch(event: Any) -> None:
        if isinstance(event, ToolDone) and event.name == "fast":
            fast_is_seen.set()

    with ScriptedModel([call("slow"), call("fast")], "done") as model:
        seen = await play(model, tools=[slow, fast], observers=[watch])
    assert [e.name for e in seen.of(ToolDone)] == ["fast", "slow"]


async def test_streams_of_two_tools_interleave(play: Play) -> None:
    @tool
    async def count(name: str, context: ToolContext) -> AsyncIterator[str]:
        """Count."""
        for number in range(3):
            await asyncio.sleep(0)
            yield f"{name}{number}"

    with ScriptedModel([call("count", name="a"), call("count", name="b")], "done") as model:
        seen = await play(model, tools=[count])
    assert [e.content for e in seen.of(ToolStreamed)] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert [r.content for r in results(model)] == ["a2", "b2"]


async def test_one_after_another_where_the_agent_wants_it(play: Play) -> None:
    running = 0

    class Careful(AgentConfig[None]):
        use_parallel_tools = False

    @tool
    async def alone() -> int:
        """Work alone."""
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        running -= 1
        return running

    with ScriptedModel([call("alone")] * 5, "done") as model:
        await play(model, Careful(), tools=[alone])
    assert [r.content for r in results(model)] == ["0"] * 5
    assert not model.requests[0].parallel_tool_calls


async def test_blocking_tools_run_in_threads_side_by_side(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    # CPython 3.11 sometimes refuses to trace a thread, as coverage does, while another one starts.
    monkeypatch.setattr("threading._trace_hook", None)
    together = threading.Barrier(40)

    @tool
    def block() -> int:
        """Block."""
        return together.wait()

    with ScriptedModel([call("block")] * 40, "done") as model:
        await play(model, tools=[block], tool_call_limit=50)
    assert sorted(int(r.content) for r in results(model)) == list(range(40))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("the shop is closed"), "the shop is closed"),
        (ValueError("boom"), "ValueError: boom"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (asyncio.CancelledError(), "cancelled from within"),
        (StopIteration(), "RuntimeError"),
        (ToolError("x" * 10_000), "x" * 2_000 + " [...]"),
    ],
)
async def test_a_tool_that_raises_is_told_to_the_model(play: Play, error: BaseException, text: str) -> None:
    @tool
    async def fail() -> None:
        """Fail."""
        raise error

    with ScriptedModel(call("fail"), "sorry") as model:
        seen = await play(model, tools=[fail])
    assert seen.result.status == "completed"
    assert text in results(model)[0].content
    assert results(model)[0].is_error
    assert len(seen.of(ToolFailed)) == 1


async def test_a_blocking_tool_that_raises(play: Play) -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise StopIteration("odd")

    with ScriptedModel(call("fail"), "sorry") as model:
        await play(model, tools=[fail])
    assert "odd" in results(model)[0].content


async def test_a_tool_that_hangs_is_ended_at_its_time_limit(play: Play, add: Tool) -> None:
    never = asyncio.Event()

    @tool(timeout=0.05)
    async def hang() -> None:
        """Hang."""
        await never.wait()

    with ScriptedModel([call("hang"), call("add", a=1, b=1)], "sorry") as model:
        seen = await play(model, tools=[hang, add])
    assert [r.content for r in results(model)] == ["no result within the time limit of 0.05 s", "2"]
    assert seen.result.status == "completed"


async def test_each_tool_has_its_own_time_limit(play: Play) -> None:
    ended: list[str] = []

    def hanging(seconds: float) -> Tool:
        @tool(name=f"hang_{int(seconds * 100)}", timeout=seconds)
        async def hang() -> None:
            """Hang."""
            await asyncio.Event().wait()

        return hang

    def watch(event: Any) -> None:
        if isinstance(event, ToolFailed):
            ended.append(event.name)

    names = ["hang_9000", "hang_100", "hang_4"]
    tools = [hanging(int(name.removeprefix("hang_")) / 100) for name in names]
    with ScriptedModel([call(name) for name in names[1:]], call("hang_4"), "sorry") as model:
        await play(model, tools=tools, observers=[watch])
    assert ended == ["hang_4", "hang_100", "hang_4"]


async def test_a_tool_may_clean_up_when_its_time_is_over(play: Play) -> None:
    @tool(timeout=0.02)
    async def tidy() -> None:
        """Tidy."""
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("could not tidy up")

    with ScriptedModel(call("tidy"), "sorry") as model:
        await play(model, tools=[tidy])
    assert results(model)[0].content == "OSError: could not tidy up"


async def test_a_blocking_tool_that_hangs(play: Play) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def hang() -> None:
        """Hang."""
        release.wait()

    with ScriptedModel(call("hang"), "sorry") as model:
        await play(model, tools=[hang])
    release.set()
    assert "time limit" in results(model)[0].content


async def test_a_result_of_ten_megabytes_is_cut_and_kept(play: Play) -> None:
    @tool
    async def dump() -> str:
        """Dump."""
        return "begin " + "0123456789" * 1_000_000 + " end"

    with ScriptedModel(call("dump"), "big") as model:
        await play(model, tools=[dump])
    (result,) = results(model)
    assert TiktokenCounter().count(result.content) <= 20_000
    assert result.content.startswith("begin 0123")
    assert result.content.endswith(" end")
    assert "characters left out" in result.content
    assert result.whole is not None
    assert len(result.whole) == 10_000_010


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"a": "one", "b": 2}', "a: "),
        ('{"a": 1}', "b: "),
        ('{"a": 1, "b": 2, "c": 3}', "c: "),
    ],
)
async def test_arguments_that_do_not_fit(play: Play, add: Tool, arguments: str, problem: str) -> None:
    with ScriptedModel(call("add", arguments), "sorry") as model:
        seen = await play(model, tools=[add])
    assert problem in results(model)[0].content
    assert seen.result.status == "completed"


async def test_no_arguments_at_all_are_an_empty_object(play: Play) -> None:
    @tool
    async def now() -> str:
        """Now."""
        return "noon"

    with ScriptedModel(call("now", ""), "ok") as model:
        await play(model, tools=[now])
    assert results(model)[0].content == "noon"


async def test_a_tool_of_a_raw_schema_is_checked_too(play: Play) -> None:
    class Raw(Tool):
        name = "raw"
        description = "Raw."
        parameters = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}

        async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
            return arguments

    with ScriptedModel([call("raw", n=0), call("raw", n=1)], "ok") as model:
        await play(model, tools=[Raw()])
    assert [r.is_error for r in results(model)] == [True, False]
    assert "n: 0 is less than the minimum of 1" in results(model)[0].content


async def test_a_tool_that_is_not_enabled(play: Play) -> None:
    class Locked(Tool):
        name = "locked"
        description = "Locked."
        parameters = {"type": "object"}

        async def should_use(self, context: ToolContext) -> bool:
            return context.scope.tenant == "pro"

        async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
            raise AssertionError("it must not run")

    with ScriptedModel(call("locked"), "sorry") as model:
        seen = await play(model, tools=[Locked()])
    assert seen.of(ToolFailed)[0].error == "TOOL_NOT_ENABLED"


async def test_progress_is_seen_as_it_happens_and_ends_with_the_tool(play: Play) -> None:
    @tool
    def work(context: ToolContext) -> str:
        """Work."""
        step = context.progress.begin("Looking", "eye")
        step.send("left")
        step.send("right")
        return "done"

    with ScriptedModel(call("work"), "ok") as model:
        seen = await play(model, tools=[work])
    steps = [e.step for e in seen.of(ToolProgress)]
    assert steps[-1] == {"id": 1, "name": "Looking", "icon": "eye", "parts": ["left", "right"], "ended": True}
    assert [s["ended"] for s in steps] == [False, False, False, True]
    kinds = seen.kinds()
    assert kinds.index("ToolStarted") < kinds.index("ToolProgress") < kinds.index("ToolDone")


async def test_a_tool_books_what_it_used_itself(play: Play) -> None:
    @tool
    async def describe(context: ToolContext) -> str:
        """Describe."""
        context.add_usage(provider="scripted", model="vision", tokens=Tokens(prompt=7, completion=1))
        context.stream("a c")
        return "a cat"

    with ScriptedModel(call("describe"), "ok") as model:
        seen = await play(model, tools=[describe])
    assert [r.model for r in seen.result.usage] == ["script", "vision", "script"]
    assert seen.of(UsageRecorded)[1].record.tools == ("describe",)
    assert seen.of(ToolStreamed)[0].content == "a c"


async def test_negative_usage_of_a_tool_is_unknown(play: Play) -> None:
    @tool
    async def describe(context: ToolContext) -> str:
        """Describe."""
        context.add_usage(provider="scripted", model="vision", tokens=Tokens(prompt=-7, completion=1))
        return "a cat"

    with ScriptedModel(call("describe"), "ok") as model:
        seen = await play(model, tools=[describe])
    record = seen.result.usage[1]
    assert (record.source, record.tokens, record.cost) == ("unknown", Tokens(), None)


async def test_data_is_for_the_product_and_never_sent(play: Play) -> None:
    @tool
    async def paint() -> ToolResult:
        """Paint."""
        return ToolResult("a picture was made", data={"url": "data:secret"})

    with ScriptedModel(call("paint"), "ok") as model:
        seen = await play(model, tools=[paint])
    assert seen.result.data == {"paint": {"url": "data:secret"}}
    assert "secret" not in repr(model.requests)


async def test_a_result_that_was_shown_is_wrapped(play: Play) -> None:
    @tool(shown=True)
    async def craft() -> str:
        """Craft."""
        return "A poem"

    with ScriptedModel(call("craft"), "ok") as model:
        seen = await play(model, tools=[craft])
    assert "Do not write it again" in results(model)[0].content
    assert seen.of(ToolDone)[0].content == "A poem"


async def test_values_become_json(play: Play) -> None:
    @tool
    async def values() -> Any:
        """Values."""
        return {"ü": [1, None], "when": {1}}

    with ScriptedModel(call("values"), "ok") as model:
        await play(model, tools=[values])
    assert results(model)[0].content == '{"ü": [1, null], "when": "{1}"}'


def test_a_function_that_cannot_be_a_tool_says_why() -> None:
    with pytest.raises(ConfigurationError, match="has no type"):

        @tool
        async def untyped(a) -> None:  # type: ignore[no-untyped-def]
            """Untyped."""

    with pytest.raises(ConfigurationError, match="sync generator"):

        @tool
        def generator() -> Any:
            """Generate."""
            yield 1

    with pytest.raises(ConfigurationError, match="has no JSON Schema"):

        @tool
        async def many(*names: str) -> None:
            """Many."""

    with pytest.raises(ConfigurationError, match="letters"):

        @tool(name="not a name")
        async def spaced() -> None:
            """Spaced."""

    with pytest.raises(ConfigurationError, match=r"Thread.*JSON Schema"):

        @tool
        async def odd(lock: threading.Thread) -> None:
            """Odd."""


def test_the_schema_says_what_the_function_says() -> None:
    @tool(selection_rule="for sums")
    async def total(amounts: Annotated[list[int], Field(description="what to add")], tax: float = 0.1) -> float:
        """Add amounts."""
        return sum(amounts) * (1 + tax)

    assert total.spec.description == "Add amounts."
    assert total.selection_rule == "for sums"
    assert total.parameters["properties"]["amounts"]["description"] == "what to add"
    assert total.parameters["required"] == ["amounts"]


async def test_parallel_calls_have_ids_and_results_one_to_one(play: Play, add: Tool) -> None:
    with ScriptedModel([call("add", a=n, b=0) for n in range(32)], "ok") as model:
        seen = await play(model, tools=[add], tool_call_limit=100)
    message = next(m for m in seen.result.messages if isinstance(m, AssistantMessage))
    assert [c.id for c in message.tool_calls] == [r.call_id for r in results(model)]
    assert len(seen.of(ToolStarted)) == len(seen.of(ToolDone)) == 32


async def test_tools_of_a_run_and_its_sub_agents_share_state_from_a_factory(play: Play) -> None:
    class Basket(list[str]):
        """What was put in."""

    @tool(effect="read")
    async def put(item: str, context: ToolContext) -> str:
        """Put an item in."""
        basket = context.shared(Basket)
        basket.append(item)
        return " ".join(basket)

    class Helper(AgentConfig[None]):
        name = "helper"
        prompt = "You help."
        tools = (put,)

    tools = [put, delegate(Helper(), description="Helps.")]
    for _ in range(2):
        scripts = {"You help": [call("put", item="cake"), "done"]}
        with ScriptedModel(call("put", item="tea"), call("helper", query="cake"), "ok", scripts=scripts) as model:
            await play(model, tools=tools)
        assert [r.content for r in results(model)] == ["tea", "done"]
        shared = [m.content for m in model.requests[3].messages if isinstance(m, ToolMessage)]
        assert shared == ["tea cake"], "the next run has a basket of its own"
