"""Names with dots, exclusive tools, results that are not kept, and errors that name the tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Ask,
    Chat,
    DataPolicy,
    Resources,
    Runtime,
    Scope,
    SqliteStore,
    ToolData,
    ToolMessage,
    ToolOrchestrator,
    ToolRegistry,
    ToolResult,
    tool,
)
from concertino.errors import ConfigurationError, HookError, RunError
from concertino.events import RunEnded, RunEvent, ToolDone, ToolStarted
from concertino.messages import AssistantMessage, ForcedTool, Media, Message, ToolCall, UserMessage
from concertino.testing import ScriptedModel, call

SECRET = "the code is swordfish-4711"
CHART = Media("image/png", "NDcx" * 40, name="code.png")


@tool(name="data.searchRecords", effect="read", selection_rule="for records")
async def search_records(query: str) -> str:
    """Search."""
    return f"found {query}"


@tool(effect="read", retain="pin")
async def vault() -> ToolResult:
    """Open the vault."""
    return ToolResult(SECRET, data={"code": SECRET}, summary=SECRET, media=(CHART,), stored=False)


# -- names with dots -------------------------------------------------------------------------------------------------


async def test_the_model_sees_a_name_without_dots_and_the_product_the_tool_s_own() -> None:
    """The model's call finds the tool; hooks, events, messages, usage and data have the tool's own name."""
    seen: list[Any] = []

    class Analyst(AgentConfig):
        tools = (search_records,)

        def authorize_tool_call(self, run: Any, call: ToolCall, arguments: Any) -> Any:
            seen.append(call.name)
            return super().authorize_tool_call(run, call, arguments)

    with ScriptedModel(call("data_searchRecords", query="x"), "done") as model:
        run = ToolOrchestrator(Chat("go", model=model), Analyst())
        events = [event async for event in run.stream()]
    assert [spec.name for spec in model.requests[0].tools] == ["data_searchRecords"]
    assert "- data_searchRecords: for records" in model.requests[0].system
    assert seen == ["data.searchRecords"]
    assert {event.name for event in events if isinstance(event, ToolStarted | ToolDone)} == {"data.searchRecords"}
    asked, result = run.result.messages[1:3]
    assert isinstance(asked, AssistantMessage)
    assert (asked.tool_calls[0].name, result.name) == ("data.searchRecords", "data.searchRecords")
    assert result.content == "found x"


async def test_a_dotted_tool_is_forced_by_its_own_name() -> None:
    """A forced choice reaches the model under the name that it sees, from the engine and from a hook."""

    class Forcing(AgentConfig):
        tools = (search_records,)

        def build_request(self, run: Any, request: Any) -> Any:
            request.tool_choice = ForcedTool("data.searchRecords")
            return request

    with ScriptedModel("done") as model:
        await ToolOrchestrator(Chat("go", model=model), Forcing()).run()
    assert model.requests[0].tool_choice == ForcedTool("data_searchRecords")


@pytest.mark.parametrize("names", [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_names_that_a_model_cannot_tell_apart_are_refused(names: tuple[str, str]) -> None:
    """The error names both tools; after one is removed, the other may have the name."""
    first, second = (tool(name=name)(lambda: "x") for name in names)
    registry = ToolRegistry([first])
    with pytest.raises(ConfigurationError, match="models see both"):
        registry.register(second)
    registry.unregister(first.name)
    registry.register(second)
    assert registry.copy().sent_names == registry.sent_names


@pytest.mark.parametrize("name", ["", ".a", "a b", "a/b", "x" * 65, "ä"])
def test_other_names_stay_invalid(name: str) -> None:
    """A name may contain a dot, and not begin with one."""
    with pytest.raises(ConfigurationError, match="invalid tool name"):
        tool(name=name, description="x")(lambda: "x")


async def test_a_dotted_name_survives_an_approval(tmp_path: Path) -> None:
    """The wait has the tool's own name, and the resumed run finds the tool."""

    class Careful(AgentConfig):
        name = "careful"
        tools = (search_records,)

        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Any:
            return Ask()

    scope = Scope("acme", "ann")
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        model = ScriptedModel(call("data_searchRecords", query="x"), "done")
        runtime = Runtime([Careful()], Resources(store=store, model=model, models=lambda _: model))
        run = await runtime.start(Chat("go", model=model, scope=scope), "careful")
        (wait,) = (await run.result()).waiting
        assert wait.tool == "data.searchRecords"
        await runtime.approve(scope, wait.key)
        result = await (await runtime.resume(scope, run.id)).result()
        await runtime.close()
    assert result.messages[2].content == "found x"


# -- exclusive tools -------------------------------------------------------------------------------------------------


class Steps:
    """Tools that record when they begin and end."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.together = 0

        @tool(effect="read")
        async def look(name: str) -> str:
            """Look."""
            return await self.work(name)

        @tool(effect="once", exclusive=True)
        async def complete_step(name: str) -> str:
            """Complete the step."""
            assert not self.together, "another call runs at the same time"
            return await self.work(name)

        self.tools = (look, complete_step)

    async def work(self, name: str) -> str:
        self.log.append(f"+{name}")
        self.together += 1
        for _ in range(5):
            await asyncio.sleep(0)
        self.together -= 1
        self.log.append(f"-{name}")
        return name


@pytest.mark.parametrize("parallel", [True, False])
async def test_an_exclusive_call_runs_alone_and_in_its_order(tmp_path: Path, parallel: bool) -> None:
    """The calls before it end first, and those after it begin afterwards; the others run together."""
    steps = Steps()

    class Worker(AgentConfig):
        use_parallel_tools = parallel
        tools = steps.tools

    turn = [call("look", name=name) for name in "ab"]
    turn += [call("complete_step", name="C"), call("complete_step", name="D"), *[call("look", name=x) for x in "ef"]]
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel(turn, "done") as model:
            resources = Resources(store=store)
            result = await ToolOrchestrator(Chat("go", model=model), Worker(), resources=resources).run()
    found = [message.content for message in result.messages if isinstance(message, ToolMessage)]
    assert found == ["a", "b", "C", "D", "e", "f"]
    middle = ["+C", "-C", "+D", "-D"]
    assert steps.log[4:8] == middle
    if parallel:
        assert steps.log[:2] + steps.log[8:10] == ["+a", "+b", "+e", "+f"]


async def test_an_exclusive_call_waits_for_an_approval_before_it(tmp_path: Path) -> None:
    """A call before it that waits holds it back; after the answer both run, in order."""
    steps = Steps()

    class Careful(AgentConfig):
        name = "careful"
        tools = steps.tools

        def authorize_tool_call(self, run: Any, call: Any, arguments: Mapping[str, Any]) -> Any:
            return Ask() if arguments["name"] == "a" else super().authorize_tool_call(run, call, dict(arguments))

    scope = Scope("acme", "ann")
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        turn = [call("look", name="a"), call("look", name="b"), call("complete_step", name="C"), call("look", name="d")]
        model = ScriptedModel(turn, "done")
        runtime = Runtime([Careful()], Resources(store=store, model=model, models=lambda _: model))
        run = await runtime.start(Chat("go", model=model, scope=scope), "careful")
        (wait,) = (await run.result()).waiting
        assert steps.log == ["+b", "-b"]
        await runtime.approve(scope, wait.key)
        result = await (await runtime.resume(scope, run.id)).result()
        await runtime.close()
    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["a", "b", "C", "d"]
    assert steps.log.index("-a") < steps.log.index("+C") < steps.log.index("-C") < steps.log.index("+d")


# -- results that are not kept ---------------------------------------------------------------------------------------


def content_of(folder: Path) -> bytes:
    """Return the content of all files of a store."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


def is_secret(value: object) -> bool:
    """Return whether *value* contains a part of the secret result."""
    return "swordfish" in repr(value) or CHART.data in repr(value)  # type: ignore[operator]


@pytest.mark.parametrize("policy", [DataPolicy(), DataPolicy(reasoning="redact"), DataPolicy(text="drop")])
async def test_a_result_decides_that_it_is_not_stored(tmp_path: Path, policy: DataPolicy) -> None:
    """The model and the consumer see it; observers, the result's data and the store's files do not have it."""

    class Guard(AgentConfig):
        tools = (vault,)

        def get_data_policy(self) -> DataPolicy:
            return policy

    observed: list[RunEvent] = []
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel(call("vault"), "Done.") as model:
            run = ToolOrchestrator(
                Chat("open", model=model), Guard(), resources=Resources(store=store), observers=[observed.append]
            )
            events = [event async for event in run.stream()]
        assert is_secret(model.requests[1].messages)
        assert is_secret([event for event in events if isinstance(event, ToolDone)])
        assert run.result.data == {}
        kept = await store.messages(Scope(), run.result.run_id)
        assert not is_secret(kept)
        assert [type(event) for event in observed if isinstance(event, ToolDone | RunEnded)] == [ToolDone, RunEnded]
        assert not is_secret(observed)
    data = content_of(tmp_path)
    assert b"swordfish" not in data
    assert (CHART.data or "").encode() not in data


async def test_a_later_run_does_not_store_it_either(tmp_path: Path) -> None:
    """The history of the next turn contains the result, and the store keeps the mark."""
    with ScriptedModel(call("vault"), "Done.", "Still done.") as model:
        first = await ToolOrchestrator(Chat("open", model=model), AgentConfig(), ToolRegistry([vault])).run()
        async with await SqliteStore.open(tmp_path / "r.db") as store:
            chat = Chat("and now?", model=model, history=first.messages)
            resources = Resources(store=store)
            await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([vault]), resources=resources).run()
    assert is_secret(model.requests[2].messages)
    assert b"swordfish" not in content_of(tmp_path)


async def test_a_run_resumes_with_a_result_that_is_not_kept(tmp_path: Path) -> None:
    """While the run waits, its own results are there; they go when it ends."""

    class Careful(AgentConfig):
        name = "careful"
        tools = (vault, *Steps().tools)

        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Any:
            return Ask() if call.name == "look" else super().authorize_tool_call(run, call, arguments)

    scope, path = Scope("acme", "ann"), tmp_path / "r.db"
    async with await SqliteStore.open(path) as store:
        model = ScriptedModel([call("vault"), call("look", name="a")], "done")
        runtime = Runtime([Careful()], Resources(store=store, model=model, models=lambda _: model))
        run = await runtime.start(Chat("go", model=model, scope=scope), "careful")
        (wait,) = (await run.result()).waiting
        await runtime.close()
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([Careful()], Resources(store=store, model=model, models=lambda _: model))
        await runtime.approve(scope, wait.key)
        result = await (await runtime.resume(scope, run.id)).result()
        assert result.messages[2].content == SECRET
        assert result.messages[2].media == (CHART,)
        await runtime.close()
    assert b"swordfish" not in content_of(tmp_path)


async def test_a_result_of_a_call_from_text_is_not_kept(tmp_path: Path) -> None:
    """An agent that parses calls from text gets the result as a user message, which is not kept either."""

    class Parsing(AgentConfig):
        tools = (vault,)

        def interpret_response(self, run: Any, message: AssistantMessage) -> Any:
            turn = super().interpret_response(run, message)
            calls = (ToolCall("c1", "vault", "{}"),) if message.text == "open" else ()
            return type(turn)(message, calls)  # type: ignore[call-arg]

    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel("open", "Done.") as model:
            run = ToolOrchestrator(Chat("go", model=model), Parsing(), resources=Resources(store=store))
            result = await run.run()
    assert isinstance(result.messages[2], UserMessage)
    assert is_secret(result.messages[2])
    assert b"swordfish" not in content_of(tmp_path)


async def test_a_function_decides_about_tools(tmp_path: Path) -> None:
    """`DataPolicy(tools=function)` is asked for each tool, also when all other text is kept."""

    class Private(AgentConfig):
        tools = (search_records, *Steps().tools)

        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(tools=lambda name: ToolData(results="redact" if name.startswith("data.") else "keep"))

    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel([call("data_searchRecords", query="4711"), call("look", name="open")], "Done.") as model:
            run = ToolOrchestrator(Chat("go", model=model), Private(), resources=Resources(store=store))
            result = await run.run()
        kept = [stored.message for stored in await store.messages(Scope(), result.run_id)]
    assert [message.content for message in kept if isinstance(message, ToolMessage)] == ["[redacted]", "open"]


@pytest.mark.parametrize("tools", [lambda name: "redact", lambda name: None, 5])
async def test_a_function_that_returns_something_else_is_refused(tools: Any) -> None:
    """The error names the field."""

    class Wrong(AgentConfig):
        tools = (search_records,)

        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(tools=tools_of)

    tools_of = tools
    with pytest.raises((ConfigurationError, RunError), match=r"DataPolicy\(tools="):
        await ToolOrchestrator(Chat("go", model=ScriptedModel()), Wrong()).run()


# -- errors that name the tool ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["preprocess_tool_arguments", "authorize_tool_call", "handle_special_tools"])
async def test_a_failing_hook_names_the_tool(hook: str) -> None:
    """`RunError` and its cause have the name and the id of the call; the run's error has the name."""

    def fail(self: Any, *arguments: Any) -> Any:
        raise RuntimeError("no")

    signatures = {
        "preprocess_tool_arguments": lambda self, run, call: fail(self),
        "authorize_tool_call": lambda self, run, call, arguments: fail(self),
        "handle_special_tools": lambda self, run, call, outcome: fail(self),
    }
    agent = type("Broken", (AgentConfig,), {hook: signatures[hook], "tools": (search_records,)})()
    model, text = ScriptedModel(call("data_searchRecords", query="x")), r"in a call of the tool 'data\.searchRecords'"
    with pytest.raises(RunError, match=text) as caught:
        await ToolOrchestrator(Chat("go", model=model), agent).run()
    cause = caught.value.__cause__
    assert isinstance(cause, HookError)
    assert (cause.hook, cause.tool, caught.value.tool) == (hook, "data.searchRecords", "data.searchRecords")
    assert caught.value.call_id == caught.value.result.messages[1].tool_calls[0].id


async def test_a_hook_outside_a_call_names_no_tool() -> None:
    """A hook of the loop fails without a tool."""

    class Broken(AgentConfig):
        def after_step(self, run: Any, outcome: Any) -> Any:
            raise RuntimeError("no")

    with ScriptedModel("x") as model, pytest.raises(RunError) as caught:
        await ToolOrchestrator(Chat("go", model=model), Broken()).run()
    assert (caught.value.tool, caught.value.call_id) == ("", "")


# -- examples and switches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("few_shot", "shown"),
    [
        ({"scripted:script": "one"}, "one"),
        ({"scripted:*": "pattern"}, "pattern"),
        ({("openai:*", "scripted:script"): "list"}, "list"),
        ({"scripted:*": "pattern", "scripted:script": "one"}, "one"),
        ({"*:s*": "first", "scripted:*": "second"}, "first"),
        ({"openai:*": "other"}, None),
        ({(): "none"}, None),
    ],
)
async def test_examples_are_for_a_list_or_a_pattern_of_models(few_shot: Any, shown: str | None) -> None:
    """The model's id decides first, then the first key that matches it."""
    examples = {key: [UserMessage(text)] for key, text in few_shot.items()}
    with ScriptedModel("ok") as model:
        await ToolOrchestrator(Chat("go", model=model, few_shot=examples), AgentConfig()).run()
    assert [m.text for m in model.requests[0].messages] == [*([shown] if shown else []), "go"]


async def test_examples_of_a_pattern_are_repaired_and_are_not_history() -> None:
    """A call without a result in them is repaired, and the next run does not get them twice."""
    lone = AssistantMessage((ToolCall("c1", "look", "{}"),))
    with ScriptedModel("ok") as model:
        examples: list[Message] = [UserMessage("look"), lone]
        chat = Chat("go", model=model, few_shot={"scripted:*": examples})
        result = await ToolOrchestrator(chat, AgentConfig()).run()
    assert isinstance(model.requests[0].messages[2], ToolMessage)
    assert [m.text for m in result.messages] == ["go", "ok"]


@pytest.mark.parametrize("few_shot", [{5: []}, {("a", 5): []}, {"a": "text"}, []])
async def test_invalid_examples_are_refused(few_shot: Any) -> None:
    """The error names the field."""
    with pytest.raises(ConfigurationError, match="few_shot"):
        await ToolOrchestrator(Chat("go", model=ScriptedModel(), few_shot=few_shot), AgentConfig()).run()
