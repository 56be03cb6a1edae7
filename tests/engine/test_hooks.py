"""Hooks decide: each is asked at its moment, may be plain or async, and a failure names it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    AssistantMessage,
    Chat,
    Continue,
    DataPolicy,
    Deny,
    Fail,
    Finish,
    HookError,
    MemoryStore,
    Message,
    ModelRequest,
    NextStep,
    Part,
    Resources,
    RunContext,
    RunError,
    Runtime,
    Scope,
    Special,
    SystemMessage,
    Tool,
    ToolCall,
    ToolContext,
    ToolData,
    ToolOrchestrator,
    Turn,
    UsageRecord,
    UserMessage,
)
from concertino.errors import ToolArgumentsError
from concertino.events import Notice, TextDelta
from concertino.messages import ForcedTool, Text, ToolMessage
from concertino.providers import Logprob, ModelEvent, Reply
from concertino.testing import ScriptedModel, call

from .conftest import Play
from .conftest import play as play_run

OBSERVERS = {"on_tools_selected", "on_tool_progress"}
HOOKS = sorted({name for name, value in vars(AgentConfig).items() if callable(value) and name[0] != "_"} - OBSERVERS)


class Asks(AgentConfig[None]):
    """Asks every question of the engine's once, so that each hook has its moment."""

    name = "asks"
    tool_call_limit = 3


class Locked(Tool):
    """A tool that is not enabled."""

    name, description, parameters = "locked", "Locked.", {"type": "object"}

    async def should_use(self, context: ToolContext) -> bool:
        return False

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        raise AssertionError("not enabled")


async def _everything(agent: AgentConfig[Any], add: Tool) -> Any:
    """A run in which every hook is called."""
    model = ScriptedModel([call("add", a=1, b=1), call("locked")], "two", "two", "two")
    return await play_run(model, agent, tools=[add, Locked()], store=MemoryStore())


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hook_that_raises_ends_the_run_and_is_named(hook: str, add: Tool) -> None:
    def broken(self: Any, *args: Any) -> Any:
        raise ZeroDivisionError("oops")

    agent = type("Broken", (Asks,), {hook: broken})()
    seen = await _everything(agent, add)
    assert seen.result.status == "failed"
    of_a_call = hook in {"preprocess_tool_arguments", "authorize_tool_call", "handle_special_tools"}
    where = " (in a call of the tool 'add')" if of_a_call else ""
    assert seen.result.error == f"HookError: hook {hook} of agent 'asks' raised ZeroDivisionError: oops{where}"


@pytest.mark.parametrize("hook", sorted(set(HOOKS) - {"initialize_agent_state"}))
async def test_a_hook_that_returns_the_wrong_type_is_named(hook: str, add: Tool) -> None:
    def wrong(self: Any, *args: Any) -> Any:
        return 17.5

    agent = type("Wrong", (Asks,), {hook: wrong})()
    seen = await _everything(agent, add)
    assert seen.result.status == "failed"
    assert f"hook {hook} of agent 'asks' returned float 17.5; it must return" in seen.result.error


@pytest.mark.parametrize("hook", HOOKS)
async def test_every_hook_may_be_async(hook: str, add: Tool) -> None:
    asked = 0

    async def waiting(self: Any, *args: Any) -> Any:
        nonlocal asked
        asked += 1
        return getattr(AgentConfig, hook)(self, *args)

    agent = type("Waiting", (Asks,), {hook: waiting})()
    seen = await _everything(agent, add)
    assert seen.result.status == "completed", seen.result.error
    assert asked


async def test_a_forgotten_return_is_named(play: Play) -> None:
    class Forgetful(AgentConfig[None]):
        def should_continue_loop(self, run: RunContext[None]) -> NextStep:  # type: ignore[return]
            run.state.step += 0

    seen = await play(ScriptedModel(), Forgetful())
    assert (
        "should_continue_loop of agent 'agent' returned None; it must return Continue or Finish or Fail"
        in seen.result.error
    )


async def test_run_raises_the_hook_error_as_the_cause() -> None:
    class Broken(AgentConfig[None]):
        def get_model_id(self, run: RunContext[None]) -> str:
            raise KeyError("model")

    with pytest.raises(RunError) as caught:
        await ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), Broken()).run()
    cause = caught.value.__cause__
    assert isinstance(cause, HookError)
    assert (cause.agent, cause.hook) == ("agent", "get_model_id")


async def test_hooks_can_be_shared_by_assignment(play: Play, add: Tool) -> None:
    class Stubborn(AgentConfig[None]):
        def should_send_tools(self, run: RunContext[None]) -> bool:
            return True

    class Other(AgentConfig[None]):
        should_send_tools = Stubborn.should_send_tools

    with ScriptedModel("hi") as model:
        await play(model, Other(), tools=[add], tool_call_limit=1)
    assert model.requests[0].tools


async def test_state_is_made_for_each_run(play: Play, add: Tool) -> None:
    @dataclasses.dataclass
    class Count:
        steps: int = 0

    ended: list[int] = []

    class Counting(AgentConfig[Count]):
        def initialize_agent_state(self, run: RunContext[Count]) -> Count:
            return Count()

        def after_step(self, run: RunContext[Count], outcome: Any) -> Any:
            run.agent_state.steps += 1
            return outcome

        def conclude(self, run: RunContext[Count], text: str) -> str:
            ended.append(run.agent_state.steps)
            return text

    agent = Counting()
    for _ in range(2):
        await play(ScriptedModel(call("add", a=1, b=1), "two"), agent, tools=[add])
    assert ended == [2, 2]


async def test_prepare_puts_in_what_was_looked_up(play: Play) -> None:
    class Prepared(AgentConfig[None]):
        async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
            topic = await run.ask("What is this about?")
            return (SystemMessage(f"Topic: {topic}"),)

    with ScriptedModel("cats", "meow") as model:
        seen = await play(model, Prepared(), message="tell me")
    assert [m.text for m in model.requests[1].messages] == ["tell me", "Topic: cats"]
    assert [e.text for e in seen.of(TextDelta)] == ["meow"], "a side question is internal"
    assert len(seen.result.usage) == 2, "what a hook asks is booked too"


async def test_conclude_makes_the_answer(play: Play) -> None:
    class Shouting(AgentConfig[None]):
        async def conclude(self, run: RunContext[None], text: str) -> str:
            return text.upper()

    with ScriptedModel("quiet") as model:
        seen = await play(model, Shouting())
    assert seen.result.text == "QUIET"
    assert seen.result.messages[-1].text == "QUIET"


async def test_build_request_has_the_last_word_on_what_is_sent(play: Play) -> None:
    class Brief(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            return dataclasses.replace(request, max_output_tokens=7)

    with ScriptedModel("hi") as model:
        await play(model, Brief())
    assert model.requests[0].max_output_tokens == 7


async def test_interpret_response_lets_json_drive_the_same_loop(play: Play, add: Tool) -> None:
    class Json(AgentConfig[None]):
        def interpret_response(self, run: RunContext[None], message: AssistantMessage) -> Turn:
            if not message.text.startswith("{"):
                return Turn(message, ())
            return Turn(message, (ToolCall("json-1", "add", message.text),))

    with ScriptedModel('{"a": 2, "b": 3}', "five") as model:
        seen = await play(model, Json(), tools=[add])
    assert seen.result.text == "five"
    assert model.requests[1].messages[-1] == UserMessage("[result of add]\n5", tool="add")


async def test_no_calls_can_be_asked_again(play: Play, add: Tool) -> None:
    class Insisting(AgentConfig[None]):
        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            if run.state.step < 3:
                return Continue(messages=(SystemMessage("use a tool"),), tool_choice="required")
            return Finish("gave up")

    with ScriptedModel("no", "no", "no") as model:
        seen = await play(model, Insisting(), tools=[add])
    assert seen.result.text == "gave up"
    assert [request.tool_choice for request in model.requests] == ["auto", "required", "required"]


async def test_calls_left_out_are_answered_all_the_same(play: Play, add: Tool) -> None:
    class Picky(AgentConfig[None]):
        def process_tool_calls(self, run: RunContext[None], calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
            return calls[:1]

    with ScriptedModel([call("add", a=1, b=1), call("add", a=9, b=9)], "two") as model:
        seen = await play(model, Picky(), tools=[add])
    sent = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert {m.call_id for m in sent} == {"call_1", "call_2"}
    assert seen.result.tool_call_count == 1


async def test_process_tool_calls_can_end_the_run(play: Play, add: Tool) -> None:
    class Done(AgentConfig[None]):
        def process_tool_calls(self, run: RunContext[None], calls: Sequence[ToolCall]) -> Finish:
            return Finish("that is enough")

    with ScriptedModel(call("add", a=1, b=1)) as model:
        seen = await play(model, Done(), tools=[add])
    assert seen.result.text == "that is enough"
    assert seen.result.tool_call_count == 0
    assert isinstance(seen.result.messages[2], ToolMessage), "an unanswered call would spoil the history"


async def test_arguments_can_be_mended_before_they_are_checked(play: Play, add: Tool) -> None:
    class Mending(AgentConfig[None]):
        def preprocess_tool_arguments(self, run: RunContext[None], tool_call: ToolCall) -> dict[str, Any]:
            if tool_call.arguments == "?":
                raise ToolArgumentsError("that is not even close")
            return {"a": 40, "b": 2}

    with ScriptedModel([call("add", "{broken"), call("add", "?")], "42") as model:
        await play(model, Mending(), tools=[add])
    sent = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [m.content for m in sent] == ["42", "that is not even close"]


async def test_a_call_can_be_denied(play: Play, add: Tool) -> None:
    class Strict(AgentConfig[None]):
        async def authorize_tool_call(
            self, run: RunContext[None], tool_call: ToolCall, arguments: dict[str, Any]
        ) -> Allow | Deny:
            return Allow() if arguments["a"] < 10 else Deny("too much")

    with ScriptedModel([call("add", a=1, b=1), call("add", a=10, b=1)], "ok") as model:
        await play(model, Strict(), tools=[add])
    sent = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [m.content for m in sent] == ["2", "not allowed: too much"]


async def test_special_tools_change_result_choice_and_conversation(play: Play, add: Tool) -> None:
    class Rewriting(AgentConfig[None]):
        def handle_special_tools(self, run: RunContext[None], tool_call: ToolCall, outcome: Any) -> Special:
            return Special(
                result="see above",
                tool_choice=ForcedTool("add"),
                messages=(UserMessage(f"{outcome.content} was found. go"),),
            )

    with ScriptedModel(call("add", a=1, b=1), "ok") as model:
        await play(model, Rewriting(), tools=[add])
    request = model.requests[1]
    assert request.tool_choice == ForcedTool("add")
    assert request.messages[0] == UserMessage("2 was found. go")
    assert request.messages[-1].content == "see above"
    assert len(request.messages) == 3


async def test_usage_can_be_changed_but_not_its_identity(play: Play) -> None:
    class Dear(AgentConfig[None]):
        def calculate_usage(self, run: RunContext[None], record: UsageRecord) -> UsageRecord:
            return dataclasses.replace(record, id="forged", cost=Decimal("1.50"))

    with ScriptedModel("hi") as model:
        seen = await play(model, Dear())
    (record,) = seen.result.usage
    assert record.cost == Decimal("1.50")
    assert record.id != "forged"


@pytest.mark.parametrize(
    ("outcome", "status", "text"), [(Finish("early"), "completed", "early"), (Fail("no good"), "failed", "")]
)
async def test_after_step_ends_the_run(play: Play, add: Tool, outcome: Finish | Fail, status: str, text: str) -> None:
    class Ending(AgentConfig[None]):
        def after_step(self, run: RunContext[None], ended: Continue | Finish | Fail) -> Continue | Finish | Fail:
            return outcome

    with ScriptedModel(call("add", a=1, b=1)) as model:
        seen = await play(model, Ending(), tools=[add])
    assert (seen.result.status, seen.result.text) == (status, text)


async def test_progress_and_selection_are_told(play: Play, add: Tool) -> None:
    told: list[str] = []

    class Watching(AgentConfig[None]):
        def on_tools_selected(self, run: RunContext[None], calls: Sequence[ToolCall]) -> None:
            told.append("selected " + ",".join(c.name for c in calls))

        def on_tool_progress(self, run: RunContext[None], event: Any) -> None:
            told.append(type(event).__name__)

    with ScriptedModel(call("add", a=1, b=1), "two") as model:
        await play(model, Watching(), tools=[add])
    assert told == ["selected add", "ToolStarted", "ToolDone"]


async def test_the_policy_filters_what_is_stored(play: Play, add: Tool) -> None:
    class Private(AgentConfig[None]):
        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(text="drop", tools={"add": ToolData(arguments="drop", results="drop")})

    store = MemoryStore()
    with ScriptedModel([call("add", a=1, b=1), call("nope")], "two") as model:
        seen = await play(model, Private(), tools=[add], store=store)
    (run,) = await store.runs(OPERATOR)
    assert run.start.task == ""
    assert run.end is not None
    assert run.end.answer == ""
    kept = [stored.message for stored in await store.messages(OPERATOR, run.start.run_id)]
    assert [type(m).__name__ for m in kept] == ["AssistantMessage", "ToolMessage"]
    assert [c.name for c in kept[0].tool_calls] == ["unknown_tool"]  # type: ignore[union-attr]
    assert kept[1].name == "unknown_tool"  # type: ignore[union-attr]
    assert seen.result.text == "two", "what is shown is not what is stored"


async def test_a_model_that_the_agent_wants_and_the_chat_cannot_find(play: Play) -> None:
    class Other(AgentConfig[None]):
        def get_model_id(self, run: RunContext[None]) -> str:
            return "openai:gpt-9"

    seen = await play(ScriptedModel(), Other())
    assert "model 'openai:gpt-9' cannot be opened" in seen.result.error
    assert "Resources(models=" in seen.result.error


async def test_a_hook_chooses_among_models(play: Play) -> None:
    class Other(AgentConfig[None]):
        def get_model_id(self, run: RunContext[None]) -> str:
            return "scripted:cheap"

    cheap = ScriptedModel("from the cheap one", name="cheap")
    seen = await play(ScriptedModel(), Other(), models=lambda wanted: cheap)
    assert seen.result.text == "from the cheap one"
    assert seen.result.usage[0].model == "cheap"


async def test_a_hook_can_tell_the_user_something(play: Play) -> None:
    class Telling(AgentConfig[None]):
        def should_send_tools(self, run: RunContext[None]) -> bool:
            run.notify("tool_not_enabled", "no tools today")
            return False

        tools = ()

    assert Text("x").kind == "text"
    with ScriptedModel("hi") as model:
        seen = await play(model, Telling())
    assert seen.of(Notice) == []  # an agent without tools is not asked


async def test_hooks_see_the_probabilities_of_the_last_answer() -> None:
    class Sure(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            async for event in super().stream(request):
                if isinstance(event, Reply) and request.logprobs is not None and event.message.text:
                    yield dataclasses.replace(event, logprobs=(Logprob(event.message.text, -0.5),))
                else:
                    yield event

    seen: list[Any] = []

    class Watching(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            return dataclasses.replace(request, logprobs=0)

        def review_answer(self, run: RunContext[None], message: AssistantMessage) -> AssistantMessage:
            seen.append(run.logprobs)
            return message

        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            seen.append(run.logprobs)
            return Continue() if len(seen) < 4 else Finish()

    with Sure("perhaps", "yes") as model:
        await ToolOrchestrator(Chat("hi", model=model), Watching()).run()
    assert seen == [(Logprob("perhaps", -0.5),)] * 2 + [(Logprob("yes", -0.5),)] * 2


# -- tools of one run --------------------------------------------------------------------------------------------------


class Desk(AgentConfig[None]):
    """Has a tool of each user's own, which asks a person."""

    name = "desk"

    async def load_tools(self, run: RunContext[None]) -> Sequence[Tool]:
        return [OwnTool(run.chat.scope.user)]

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


class OwnTool(Tool):
    description = "Greet."
    parameters = {"type": "object"}
    effect = "read"

    def __init__(self, user: str) -> None:
        self.name = f"greet_{user}"

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return f"Hello from {self.name}."


async def test_tools_that_are_loaded_are_those_of_one_run_also_when_another_process_resumes_it() -> None:
    async with MemoryStore() as store:
        chats = [Chat("Go.", scope=Scope("acme", user)) for user in ("ann", "bob")]
        resources = Resources(model=ScriptedModel(call("greet_ann"), call("greet_ann"), "Sorry."), store=store)
        async with Runtime([Desk()], resources, store=store) as runtime:
            runs = [await runtime.start(chat, "desk") for chat in chats[:1]]
            assert (await runs[0].result()).status == "suspended"
            of_bob = await (await runtime.start(chats[1], "desk")).result()
        assert of_bob.messages[-2].content.startswith("there is no tool of this name; the tools are: greet_bob")
        resources = Resources(model=ScriptedModel("Done."), store=store)
        async with Runtime([Desk()], resources, store=store) as runtime:
            (wait,) = await runtime.approvals(chats[0].scope)
            await runtime.approve(chats[0].scope, wait.key)
            result = await (await runtime.resume(chats[0].scope, runs[0].id)).result()
    assert result.messages[-2].content == "Hello from greet_ann."


async def test_parts_and_agent_load_tools_together() -> None:
    class Loads(Part):
        def load_tools(self, run: RunContext[Any]) -> Sequence[Tool]:
            return [OwnTool("part"), OwnTool("agent")]

    class Agent(AgentConfig[None]):
        parts = (Loads(),)

        def load_tools(self, run: RunContext[None]) -> Sequence[Tool]:
            return [OwnTool("agent")]

    with ScriptedModel("Done.") as model:
        await ToolOrchestrator(Chat("Go.", model=model), Agent()).run()
    assert [spec.name for spec in model.requests[0].tools] == ["greet_part", "greet_agent"]


@pytest.mark.parametrize(
    ("loaded", "problem"),
    [(OwnTool("a b"), "load_tools of agent .agent. returned an invalid tool"), ("no tool", "it must contain tools")],
)
async def test_a_tool_that_cannot_be_loaded_fails_the_run(loaded: Any, problem: str) -> None:
    class Broken(AgentConfig[None]):
        def load_tools(self, run: RunContext[None]) -> Sequence[Tool]:
            return [loaded]

    with pytest.raises(RunError, match=problem):
        await ToolOrchestrator(Chat("Go.", model=ScriptedModel("Done.")), Broken()).run()
