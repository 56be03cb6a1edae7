"""The next run in the same process has the same result as in another one, although it checks and counts less."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    AgentConfig,
    Chat,
    Limits,
    Model,
    ModelRequest,
    Resources,
    Retention,
    RunResult,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.context_state import ContextReport, ContextState
from concertino.events import Notice
from concertino.messages import AssistantMessage, Message, Reasoning, Text, ToolCall, ToolMessage, UserMessage
from concertino.providers import ModelEvent, Reply
from concertino.testing import ScriptedModel, call
from concertino.usage import Tokens

FRUGAL = Retention(frees=200, price=1e9, floor=0)
LONG = "A line of what was found. " * 30


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"{n}: {LONG if n % 3 else 'nothing'}"


@tool(effect="read", retain="once")
async def glance(n: int) -> str:
    """Look at something once."""
    return f"{n}: {LONG}"


TOOLS = (look, glance)
ids = st.sampled_from(["a", "b", "c", ""])
pieces: st.SearchStrategy[Message] = st.one_of(
    st.just(UserMessage("Q " * 50)),
    st.just(AssistantMessage((Reasoning("r"), Text("A")))),
    st.builds(lambda call_id: AssistantMessage((ToolCall(call_id, "look", "{}"),), "tool_calls"), ids),
    st.builds(lambda call_id: ToolMessage(call_id, "look", LONG), ids),
)
Change = Callable[[tuple[Message, ...]], tuple[Message, ...]]
changes: st.SearchStrategy[Change] = st.one_of(
    st.just(lambda history: history),
    st.just(lambda history: history[1:]),
    st.just(lambda history: (*history[:-1], dataclasses.replace(history[-1]))),
    st.builds(lambda piece: lambda history: (*history, piece), pieces),
)
turns = st.tuples(st.integers(0, 8), changes)


async def converse(
    history: Sequence[Message], examples: Sequence[Message], turns: Sequence[tuple[int, Change]], *, kept: bool
) -> list[Any]:
    """Run the *turns* of a conversation, with what the process keeps or as new processes; return all that shows."""
    steps = [
        step
        for turn, (count, _) in enumerate(turns)
        for step in (*(call(TOOLS[n % 2].name, n=100 * turn + n) for n in range(count)), f"Answer {turn}. " * 20)
    ]
    seen: list[Any] = []
    model, context, messages = ScriptedModel(*steps), None, tuple(history)
    limits = Limits(context=4_000, output=200, tool_calls=100)

    def own() -> Resources:
        return Resources(model=model, retention=FRUGAL, limits=lambda *_: limits)

    resources = own()
    for _, change in turns:
        if not kept:
            messages, context = pickle.loads(pickle.dumps((messages, context)))
            resources = own()
        chat = Chat("Go on.", history=messages, context=context, few_shot={"scripted:script": tuple(examples)})
        run = ToolOrchestrator(chat, AgentConfig(), ToolRegistry(TOOLS), resources=resources)
        seen += [event async for event in run.stream() if isinstance(event, Notice)]
        assert run.result is not None
        context, messages = run.result.context, change((*messages, *run.result.messages))
        assert context is not None
        seen += [run.result.status, run.result.messages, run.result.report]
        seen.append(dataclasses.replace(context, sent_at=None))
    seen += [list(request.messages) for request in model.requests]
    return [dataclasses.replace(each, run_id="", agent_path="") if isinstance(each, Notice) else each for each in seen]


@settings(deadline=None, max_examples=30)
@given(st.lists(pieces, max_size=6), st.lists(pieces, max_size=3), st.lists(turns, min_size=2, max_size=4))
async def test_a_kept_conversation_continues_like_a_new_process(
    history: list[Message], examples: list[Message], turns: list[tuple[int, Change]]
) -> None:
    assert await converse(history, examples, turns, kept=True) == await converse(history, examples, turns, kept=False)


def unchanged(history: tuple[Message, ...]) -> tuple[Message, ...]:
    return history


@pytest.mark.parametrize("examples", [[], [UserMessage("Q"), AssistantMessage((Text("A"),))]])
async def test_the_edits_of_long_turns_are_the_same(examples: list[Message]) -> None:
    long = [(12, unchanged), (12, unchanged), (5, unchanged)]
    kept = await converse([], examples, long, kept=True)
    assert kept == await converse([], examples, long, kept=False)
    assert sum(each.edits for each in kept if isinstance(each, ContextReport)) > 3


async def test_examples_that_a_full_window_has_omitted_return_in_the_next_run() -> None:
    examples: list[Message] = [UserMessage("Q"), AssistantMessage((Text("An example. " * 100),))]
    history: list[Message] = [UserMessage("Tell me."), AssistantMessage((Text("A long story. " * 300),))] * 5
    turns = [(0, unchanged)] * 4
    kept = await converse(history, examples, turns, kept=True)
    assert kept == await converse(history, examples, turns, kept=False)
    assert any(each.code == "context_trimmed" for each in kept if isinstance(each, Notice))


async def test_a_history_that_the_product_changes_in_place_is_taken_as_it_is_now() -> None:
    model = ScriptedModel("First. " * 50, "Second. " * 50, "Third.")
    resources = Resources(model=model, retention=FRUGAL, limits=lambda *_: Limits(context=4_000, output=200))
    history: list[Message] = []
    context = None
    for number in range(3):
        chat = Chat(f"Question {number}", history=history, context=context)
        result = await ToolOrchestrator(chat, AgentConfig(), resources=resources).run()
        history += result.messages
        context = result.context
        if number == 1:
            history[0] = UserMessage("Another question")
    assert [message.text for message in model.requests[-1].messages if isinstance(message, UserMessage)] == [
        "Another question",
        "Question 1",
        "Question 2",
    ]


class Repeating:
    """A model that calls a tool once in each run, with the next of *ids*; it waits before the second call."""

    provider, name = "scripted", "repeating"

    def __init__(self, *ids: str) -> None:
        self._ids, self._asked = iter(ids), 0
        self.waits, self.go = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        asked = isinstance(request.messages[-1], UserMessage)
        self._asked += asked
        if asked and self._asked == 2:
            self.waits.set()
            await self.go.wait()
        part = ToolCall(next(self._ids), "look", '{"n": 1}') if asked else Text("Done.")
        yield Reply(AssistantMessage((part,), "tool_calls" if asked else "end"), Tokens(10, 5))

    async def close(self) -> None:
        """Release nothing."""


async def test_each_branch_knows_its_own_call_ids() -> None:
    """Branches share what is known of the messages before them, and nothing else."""
    model, plain = Repeating("a", "b", "a"), ScriptedModel("Hello.", "Hello.", "Hello.", "Hello.")
    resources = Resources(model=plain, limits=lambda *_: Limits(context=4_000, output=200))
    seen: list[Notice] = []

    async def say(history: Sequence[Message], context: ContextState | None, model: Model = plain) -> RunResult:
        chat = Chat("Go on.", model=model, history=history, context=context)
        run = ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look]), resources=resources)
        seen.extend([event async for event in run.stream() if isinstance(event, Notice)])
        assert run.result is not None
        return run.result

    def called(result: RunResult) -> list[str]:
        messages = (message for message in result.messages if isinstance(message, AssistantMessage))
        return [each.id for message in messages for each in message.tool_calls]

    first = await say([], None, model)
    second = await say(first.messages, first.context)
    history = (*first.messages, *second.messages)
    branch = asyncio.create_task(say(history, second.context, model))
    await model.waits.wait()
    turn = (UserMessage("Look."), AssistantMessage((ToolCall("b", "look", "{}"),), "tool_calls"))
    result = ToolMessage("b", "look", "nothing")
    for _ in range(2):  # two more branches with the id
        await say((*first.messages, *turn, result), second.context)
    model.go.set()
    assert called(await branch) == ["b"], "the other branches have this id, not this one"
    assert called(await say(history, second.context, model)) != ["a"], "taken in the first turn of all branches"
    assert not [notice for notice in seen if notice.code == "history_repaired"]
