"""Histories that no provider would take as they are, and models that use an id again: both are mended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino import AgentConfig, Chat, MemoryStore, ModelRequest, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.errors import ConfigurationError
from concertino.events import Notice, RunEvent, ToolCallDelta, ToolDone, ToolStarted
from concertino.messages import (
    AssistantMessage,
    Message,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.providers import ModelEvent, Reply, TextChunk, ToolCallChunk, ToolCallReady
from concertino.testing import ScriptedModel
from concertino.usage import Tokens

from ..validity import judge


@tool(effect="read")
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def calls(*ids: str) -> AssistantMessage:
    return AssistantMessage(tuple(ToolCall(i, "look", '{"at":"x"}') for i in ids), "tool_calls")


def result(call_id: str, text: str = "saw x") -> ToolMessage:
    return ToolMessage(call_id, "look", text)


Q, A = UserMessage("Q"), AssistantMessage((Text("A"),))


async def sent_with(
    history: Sequence[Message], few_shot: Sequence[Message] = ()
) -> tuple[list[Message], list[str], ModelRequest]:
    """What a model is sent of *history*, and what the user is told."""
    model = ScriptedModel("Done.")
    examples = {f"{model.provider}:{model.name}": tuple(few_shot)} if few_shot else {}
    chat = Chat(model=model, message="Now", history=tuple(history), few_shot=examples)
    told = [
        event.text
        async for event in ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look])).stream()
        if isinstance(event, Notice)
    ]
    (request,) = model.requests
    return list(request.messages)[:-1], told, request


WELL: list[Message] = [
    Q,
    calls("a", "b"),
    result("b"),
    result("a"),
    A,
    UserMessage("And?"),
    calls("c"),
    result("c"),
    SystemMessage("S"),
]


async def test_a_good_history_is_sent_as_it_is() -> None:
    messages, told, _ = await sent_with(WELL)
    assert (messages, told) == (WELL, [])
    assert all(one is other for one, other in zip(messages, WELL, strict=True))


LOST = ToolMessage("a", "look", "no result: the call was interrupted", is_error=True)


@pytest.mark.parametrize(
    ("history", "repaired", "report"),
    [
        ([Q, calls("a")], [Q, calls("a"), LOST], "calls without a result (1)"),
        ([result("a"), A], [A], "results without a call (1)"),
        ([Q, calls("a"), Q, result("a")], [Q, calls("a"), result("a"), Q], "results out of order"),
        (
            [Q, calls("a"), result("a"), result("a", "again"), A],
            [Q, calls("a"), result("a"), A],
            "results without a call (1)",
        ),
        ([Q, AssistantMessage(()), Q], [Q, Q], "answers without content (1)"),
        (
            [Q, calls("a"), result("a"), calls("a"), result("a", "2")],
            [Q, calls("a"), result("a"), calls("a-1"), result("a-1", "2")],
            "missing or repeated call ids (1)",
        ),
        (
            [Q, calls("a", "a"), result("a", "1"), result("a", "2")],
            [Q, calls("a", "a-1"), result("a", "1"), result("a-1", "2")],
            "missing or repeated call ids (1)",
        ),
        ([Q, calls(""), result("")], [Q, calls("call-1"), result("call-1")], "missing or repeated call ids (1)"),
    ],
)  # fmt: skip
async def test_an_invalid_history_is_repaired(history: list[Message], repaired: list[Message], report: str) -> None:
    messages, told, _ = await sent_with(history)
    assert messages == repaired
    assert len(told) == 1
    assert report in told[0]


async def test_examples_and_history_may_use_the_same_ids() -> None:
    example: list[Message] = [Q, calls("a"), result("a"), A]
    messages, told, _ = await sent_with([Q, calls("a"), result("a"), A], example)
    assert messages == [*example, Q, calls("a-1"), result("a-1"), A]
    assert "(1)" in told[0]


ids = st.sampled_from(["a", "b", "a.b", "a:b", "", "a-1"])
pieces: st.SearchStrategy[Message] = st.one_of(
    st.just(Q),
    st.just(A),
    st.just(AssistantMessage(())),
    st.just(SystemMessage("S")),
    st.builds(lambda ids: calls(*ids), st.lists(ids, min_size=1, max_size=3)),
    st.builds(result, ids),
    st.just(AssistantMessage((Reasoning("r"), Text("A"), ToolCall("b", "look", "{}")))),
)


@given(st.lists(pieces, max_size=12))
async def test_every_history_becomes_one_that_all_providers_take(history: list[Message]) -> None:
    messages, told, request = await sent_with(history)
    assert judge.problems(request) == {}
    again, nothing, _ = await sent_with(messages)
    assert (again, nothing) == (messages, [])
    assert bool(told) == (messages != history)


class Careless:
    """A server whose calls have the same ids in each answer, and twice in one."""

    provider = "careless"
    name = "one"

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        if not self.answers:
            yield TextChunk("Done.")
            yield Reply(AssistantMessage((Text("Done."),)), Tokens(1, 1))
            return
        message = calls(*self.answers.pop(0))
        for call in message.tool_calls:
            yield ToolCallChunk(call.id, call.name, call.arguments)
            yield ToolCallReady(call)
        yield Reply(message, Tokens(1, 1))

    async def close(self) -> None: ...


class Eager(AgentConfig[None]):
    start_tools_early = True


@pytest.mark.parametrize("agent", [AgentConfig, Eager])
@pytest.mark.parametrize("kept", [False, True])
async def test_ids_that_a_server_uses_again(agent: type[AgentConfig[None]], kept: bool) -> None:
    model = Careless(("call_0", "call_1"), ("call_0",), ("", "x"), ("y", "y"))
    history = (Q, calls("call_0"), result("call_0"), A)
    chat = Chat(model=model, message="Look", history=history)
    events: list[RunEvent] = [
        e
        async for e in ToolOrchestrator(
            chat, agent(), ToolRegistry([look]), resources=Resources(store=MemoryStore() if kept else None)
        ).stream()
    ]
    last = model.requests[-1]
    ids = [call.id for m in last.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    assert len(ids) == len(set(ids)) == 8
    assert judge.problems(last) == {}
    for at, request in enumerate(model.requests[:-1]):
        assert list(request.messages) == list(last.messages)[: len(request.messages)], at
    started = {event.call_id for event in events if isinstance(event, ToolStarted)}
    assert started >= set(ids[1:]) - {ids[-1]}
    assert {event.call_id for event in events if isinstance(event, ToolDone)} >= set(ids[1:])
    written = {event.call_id for event in events if isinstance(event, ToolCallDelta)}
    assert written >= set(ids[1:-1]), "what was announced is what is run"


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(5),  # type: ignore[arg-type]
        SystemMessage(None),  # type: ignore[arg-type]
        AssistantMessage("A"),  # type: ignore[arg-type]
        AssistantMessage(("A",)),  # type: ignore[arg-type]
        AssistantMessage((Text(b"A"),)),  # type: ignore[arg-type]
        AssistantMessage((ToolCall("a", "look", {"at": "x"}),)),  # type: ignore[arg-type]
        ToolMessage("a", "look", None),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_message_raises_with_its_index(message: Message) -> None:
    chat = Chat(model=ScriptedModel("Done."), message="Now", history=(Q, message))
    with pytest.raises(ConfigurationError, match=r"Chat\(history=...\): invalid message at index 1"):
        ToolOrchestrator(chat, AgentConfig(), ToolRegistry())
