"""Replay gives, from the journal alone, the very requests that the model got."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    AssistantMessage,
    Attachment,
    Chat,
    Continue,
    DataPolicy,
    Finish,
    Limits,
    MemoryStore,
    Message,
    ModelRequest,
    NextStep,
    Outcome,
    RunContext,
    Scope,
    Special,
    SystemMessage,
    Tool,
    ToolCall,
    ToolError,
    Turn,
    UserMessage,
    tool,
)
from concertino.errors import ErasedError, OverloadedError
from concertino.messages import ForcedTool, Reasoning, Text, ToolSpec
from concertino.testing import Answer, ScriptedModel, call

from .kit import plain, runtime, wire


@tool(effect="read")
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(effect="read")
async def large(n: int) -> str:
    """Much text."""
    return f"{n} is a number. " * 150


@tool(effect="read", retain="once")
async def glance(n: int) -> str:
    """Much text, to be read once."""
    return f"{n} is a number. " * 30


@tool
async def fail(text: str) -> None:
    """Fail."""
    raise ToolError(text)


TOOLS: tuple[Tool, ...] = (echo, large, fail)


class Plain(AgentConfig[None]):
    name = "agent"
    prompt = "You are an agent."
    tools = TOOLS


async def replayed(model: ScriptedModel, agent: AgentConfig[Any], **given: Any) -> list[ModelRequest]:
    """Run, then check that the replay is what the model got."""
    store = MemoryStore()
    shared = {name: given.pop(name) for name in given.keys() & {"limits", "retention", "counter"}}
    chat = Chat(given.pop("message", "go"), model=model, **given)
    live = await runtime(store, model, agent, **shared).start(chat, agent)
    await live.result()
    again = [request for _, _, request in await runtime(store, ScriptedModel()).replay(OPERATOR, live.id)]
    same(again, model.requests)
    return again


def same(again: Sequence[ModelRequest], sent: Sequence[ModelRequest]) -> None:
    assert [plain(request) for request in again] == [plain(request) for request in sent]
    assert [wire(request) for request in again] == [wire(request) for request in sent]


def limits(context: int) -> dict[str, Any]:
    return {"limits": lambda scope, model, agent: Limits(context=context, output=100)}


async def test_a_trimmed_context() -> None:
    script = [call("large", n=n) for n in range(12)]
    history: list[Message] = [UserMessage("before " * 300), AssistantMessage((Text("yes"),))]
    with ScriptedModel(*script, "end") as model:
        again = await replayed(model, Plain(), history=history, **limits(2_000))
    assert any(
        list(later.messages)[: len(earlier.messages)] != list(earlier.messages)
        for earlier, later in itertools.pairwise(again)
    ), "it was trimmed"
    assert all(any(m.text == "go" for m in request.messages if isinstance(m, UserMessage)) for request in again)


OWN = ToolSpec("own", "Its own.", {"type": "object", "properties": {"é": {"type": "string"}}})


class Changes(Plain):
    """Changes a part of each request."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
        changes = {name: value(request) if callable(value) else value for name, value in self._changes.items()}
        return dataclasses.replace(request, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"system": "Another one."},
        {"system": lambda request: f"Step {len(request.messages)}."},
        {"tools": (OWN,)},
        {"tools": lambda request: request.tools[: len(request.messages) % 3]},
        {"messages": lambda request: [*request.messages, SystemMessage(f"{len(request.messages)} \ud800é")]},
        {"messages": lambda request: list(request.messages)[-1:]},
        {"extra": {"temperature": 0.5, "thinking": {"type": "enabled", "é": [1, None]}}},
        {"max_output_tokens": None, "tool_choice": "required", "parallel_tool_calls": False},
        {"tool_choice": ForcedTool("echo"), "model": "another"},
        {"system": "", "tools": (), "extra": {"a": 1}, "messages": [UserMessage("only")]},
    ],
    ids=" ".join,
)
async def test_requests_that_the_agent_changes(changes: dict[str, Any]) -> None:
    with ScriptedModel(call("echo", text="a"), [call("echo", text="b"), call("nobody")], "end") as model:
        await replayed(model, Changes(**changes))


async def test_all_that_can_be_given() -> None:
    chat = {
        "history": [
            UserMessage("a"),
            AssistantMessage(
                (Reasoning("hm", "id", "sig", "openai"), ToolCall("c", "echo", "{}", "sig")), "tool_calls"
            ),
        ],
        "summary": "sum",
        "few_shot": {"scripted:script": [UserMessage("few"), AssistantMessage((Text("shots"),))]},
        "personalization": "short",
        "memories": ["a", "b"],
        "project_rules": "rule",
        "attachments": [Attachment("f", "d")],
        "scope": Scope("o", "u"),
        "conversation_id": "c",
        "chatbot_id": "bot",
    }
    chat["history"].append(UserMessage("between"))  # type: ignore[attr-defined]

    @tool(effect="read", selection_rule="always")
    async def chatbot(text: str) -> str:
        """Talk."""
        return text

    agent = Plain()
    agent.tools = (chatbot, echo)
    with ScriptedModel(call("chatbot", text="a"), "end") as model:
        again = await replayed(model, agent, message="\udfffé\n", **chat)
    assert again[0].tool_choice == ForcedTool("chatbot")
    assert again[1].tool_choice == "auto"


async def test_a_conversation_that_is_replaced() -> None:
    class Shrinks(Plain):
        def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> Special | None:
            if call.name != "large":
                return None
            messages = (UserMessage("go"), SystemMessage(f"so far {len(run.messages)}"))
            return Special(result="shortened", messages=messages, tool_choice="required")

    turns = [call("echo", text="a"), [call("echo", text="b"), call("large", n=1)], call("echo", text="c")]
    with ScriptedModel(*turns, call("large", n=2), [call("large", n=3)] * 2, "end") as model:
        again = await replayed(model, Shrinks(), **limits(2_000))
    assert again[2].messages[1] == SystemMessage("so far 4")
    assert again[2].tool_choice == "required"


async def test_calls_that_the_agent_reads_out_of_text() -> None:
    class Reads(Plain):
        def interpret_response(self, run: RunContext[None], message: AssistantMessage) -> Turn:
            calls = [
                ToolCall(f"c{place}", "echo", f'{{"text": "{word}"}}')
                for place, word in enumerate(message.text.split())
            ]
            return Turn(message, () if message.text.startswith("end") else tuple(calls))

        def should_send_tools(self, run: RunContext[None]) -> bool:
            return run.state.step % 2 == 0

    with ScriptedModel("a b", "c", "end it") as model:
        again = await replayed(model, Reads())
    assert [m.text for m in again[1].messages if isinstance(m, UserMessage)][1:] == [
        "[result of echo]\na",
        "[result of echo]\nb",
    ]


async def test_tools_that_are_taken_out() -> None:
    class Drops(Plain):
        def on_tools_selected(self, run: RunContext[None], calls: Sequence[ToolCall]) -> None:
            if "fail" in run.registry:
                run.registry.unregister("fail")

    with ScriptedModel([call("echo", text="a"), call("fail", text="b")], call("fail", text="c"), "end") as model:
        again = await replayed(model, Drops())
    assert [len(request.tools) for request in again] == [3, 2, 2]


async def test_what_was_erased_cannot_be_replayed() -> None:
    class Forgets(Plain):
        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(text="redact")

    store, model = MemoryStore(), ScriptedModel("secret")
    process = runtime(store, model, Forgets())
    live = await process.start(Chat(model=model, message="go"), "agent")
    assert (await live.result()).text == "secret"
    with pytest.raises(ErasedError):
        list(await process.replay(OPERATOR, live.id))


class Decides(AgentConfig[None]):
    """Goes on, or not, as it is told."""

    name = "agent"
    tools = (*TOOLS, glance)

    def __init__(self, decisions: list[Continue]) -> None:
        self._decisions = decisions

    def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
        return self._decisions.pop() if self._decisions else Finish()


words = st.text(max_size=12)
calls = st.one_of(
    st.builds(lambda name, text: call(name, text=text), st.sampled_from(["echo", "fail", "nobody"]), words),
    st.builds(lambda name, n: call(name, n=n), st.sampled_from(["large", "glance"]), st.integers(0, 9)),
    st.builds(call, st.just("echo"), words),
)
turns = st.builds(
    lambda text, reasoning, made: Answer(text=text, reasoning=reasoning, calls=tuple(made)),
    words, words, st.lists(calls, max_size=4),
)  # fmt: skip
choices = st.sampled_from([None, "auto", "required", "none", ForcedTool("echo")])
notes = st.lists(st.one_of(st.builds(SystemMessage, words), st.builds(UserMessage, words)), max_size=2).map(tuple)
decisions = st.lists(st.one_of(st.builds(Continue, messages=notes, tool_choice=choices), st.just(True)), max_size=4)
ends = st.sampled_from([Answer(text="end"), Answer(text="half", error=OverloadedError("busy"))])


@given(st.lists(turns, max_size=6), ends, decisions, st.sampled_from([700, 1_500, 100_000]), st.integers(2, 9))
@settings(max_examples=80, deadline=None)
def test_every_run(script: list[Any], end: Any, decided: list[Any], context: int, most: int) -> None:
    async def go() -> None:
        store, model = MemoryStore(), ScriptedModel(*script, *[end] * 20)
        agent = Decides(list(decided))
        given: dict[str, Any] = {"limits": lambda *_: Limits(context=context, output=50, tool_calls=most)}
        live = await runtime(store, model, agent, **given).start(Chat("go", model=model), agent)
        await live.result()
        same([request for _, _, request in await runtime(store, model).replay(OPERATOR, live.id)], model.requests)

    asyncio.run(go())
