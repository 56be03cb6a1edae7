"""Summaries over many runs and steps: nothing that is pinned is lost in them, and each is paid for once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Budget,
    Chat,
    Limits,
    MemoryStore,
    ModelRequest,
    Resources,
    Retention,
    RunContext,
    RunError,
    RunResult,
    Scope,
    Tokens,
    ToolOrchestrator,
    ToolRegistry,
    UsageRecord,
    tool,
)
from concertino.events import ContextEdited
from concertino.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.testing import Answer, ScriptedModel, asks_for_summary, call
from tests.tasks import advance

from ..counted_text import counted_text, counted_texts
from .conftest import Reserving

COUNTER = TiktokenCounter()
OFTEN = Retention(frees=400, price=1e9, floor=0)


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    await advance()  # to the next summary
    return f"A line of what was found, number {n}. " * 40


def looks(count: int) -> list[Any]:
    return [call("look", n=n) for n in range(count)]


def within(context: int, output: int = 500) -> Any:
    return lambda scope, model, agent: Limits(context=context, output=output, tool_calls=500)


def sent(model: ScriptedModel) -> list[ModelRequest]:
    return [request for request in model.requests if not asks_for_summary(request)]


def texts(messages: Sequence[Message]) -> str:
    return "\n".join(getattr(message, "text", "") for message in messages)


async def run(model: ScriptedModel, message: str, **settings: Any) -> RunResult:
    chat = Chat(message, model=model, **{name: settings.pop(name) for name in settings.keys() & {"history", "context"}})
    resources = Resources(**{"retention": OFTEN, "limits": within(100_000), **settings})
    return await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look]), resources=resources).run()


async def test_the_users_newest_message_outlives_the_summaries_that_become_one() -> None:
    first = ScriptedModel(*looks(12), "first answer", summaries=["part"] * 50)
    result = await run(first, "first question")
    second = ScriptedModel(*looks(100), "done", summaries=["part " * 99] * 100)
    carried: dict[str, Any] = {"history": result.messages, "context": result.context}
    await run(second, "NEWEST: never refund order 8", limits=within(20_000), **carried)
    assert len(sent(second)) == 101
    assert len(second.requests) - len(sent(second)) > 1, "the second summary includes the first one"
    assert all("NEWEST" in texts(request.messages) for request in sent(second))
    assert all("first question" in texts(request.messages) for request in sent(second))


async def test_a_summary_that_takes_several_steps_frees_what_was_reserved_for_it() -> None:
    store, there = Reserving(), asyncio.Event()
    await store.set_budget(Scope(user="anna"), Budget(tokens=5_000_000))

    @tool(name="look", effect="read")
    async def slow(n: int) -> str:
        """Look something up."""
        if n == 14:
            there.set()
        return f"A line of what was found, number {n}. " * 40

    model = ScriptedModel(*looks(30), "done", summaries=[Answer(text="part", before=there.wait)] + ["part"] * 9)
    chat = Chat(model=model, message="go", scope=Scope(user="anna"))
    result = await ToolOrchestrator(
        chat,
        AgentConfig(),
        ToolRegistry([slow]),
        resources=Resources(
            store=store,
            retention=Retention(frees=400, price=1e9, floor=0),
            limits=within(100_000),
        ),
    ).run()
    (account,) = await store.accounts(Scope(user="anna"))
    assert account.reserved_tokens == 0
    assert account.spent_tokens == sum(record.tokens.total for record in result.usage)
    assert sorted(each.id for each in store.reserved) == sorted(record.id for record in result.usage)


async def test_what_a_hook_raises_about_a_summary_ends_the_run() -> None:
    class Strict(AgentConfig[None]):
        def calculate_usage(self, run: RunContext[None], record: UsageRecord) -> UsageRecord:
            if record.tokens.prompt == 777:
                raise ValueError("no such price")
            return record

    odd = Answer(text="part", tokens=Tokens(prompt=777))
    model = ScriptedModel(*looks(20), "done", summaries=[odd] + ["part"] * 30)
    with pytest.raises(RunError, match="no such price"):
        await ToolOrchestrator(
            Chat(model=model, message="go"), Strict(), ToolRegistry([look]), resources=Resources(retention=OFTEN)
        ).run()


async def test_what_was_not_seen_yet_stays_where_a_budget_makes_a_request_anew() -> None:
    """The last answer that can be paid is a shorter one; the summary that was due is made all the same."""

    @tool(effect="read", retain="once")
    async def page(n: int) -> str:
        """Read a page."""
        return f"The answer to everything is {n}. " * 30

    first = Answer(calls=(call("page", n=42),), tokens=Tokens(prompt=50, completion=20))
    model = ScriptedModel(first, "final", name="claude-sonnet-4-5")
    model.provider = "anthropic"
    limits = within(100_000, output=2_000)
    chat = Chat(model=model, message="go", budget=Budget(tokens=4_750))
    result = await ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry([page]), resources=Resources(store=MemoryStore(), limits=limits)
    ).run()
    assert result.text == "final"
    (seen,) = [message for message in model.requests[1].messages if isinstance(message, ToolMessage)]
    assert seen.content.startswith("The answer to everything is 42.")


async def test_small_results_to_be_thrown_away_stay() -> None:
    @tool(name="look", effect="read", retain="once")
    async def tiny(n: int) -> str:
        """Look something up."""
        return str(n)

    model = ScriptedModel(*looks(5), "done")
    await ToolOrchestrator(Chat(model=model, message="go"), AgentConfig(), ToolRegistry([tiny])).run()
    results = [message.content for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert results == ["0", "1", "2", "3", "4"]


def tokens(request: ModelRequest) -> int:
    return sum(map(COUNTER.count, counted_texts(request)))


async def test_a_history_that_is_larger_than_the_window_is_summarized_part_by_part() -> None:
    """The request for a summary has no more room than any other."""
    history: list[Message] = []
    for number in range(60):
        history.append(UserMessage(f"question {number} " + "some words here " * 100))
        history.append(AssistantMessage((Text("answer " * 400),)))
    model, edits = ScriptedModel("done", summaries=["They spoke."] * 50), list[ContextEdited]()
    chat = Chat(model=model, message="go", history=history)
    observers = [lambda event: edits.append(event) if isinstance(event, ContextEdited) else None]
    await ToolOrchestrator(
        chat, AgentConfig(), observers=observers, resources=Resources(limits=within(16_000, 2_000), counter=COUNTER)
    ).run()
    assert len(model.requests) > 3
    for request in model.requests:
        assert tokens(request) + (request.max_output_tokens or 0) <= 16_000
    assert [edit.left_out for edit in edits] == [0]
    assert edits[0].before > 40_000
    assert edits[0].after < 16_000
    (last,) = sent(model)
    assert history[-1] in list(last.messages)


async def test_results_of_one_turn_that_fill_the_window() -> None:
    @tool(name="look", effect="read")
    async def large(n: int) -> str:
        """Look something up."""
        return f"A line of what was found, number {n}. " * 600

    turns = [[call("look", n=n) for n in range(k)] for k in (1, 1, 1, 1, 1, 3, 3, 3, 3)]
    model = ScriptedModel(*turns, "done", summaries=["They looked."] * 50)
    kept = Retention(price=0)
    chat = Chat(model=model, message="go")
    await ToolOrchestrator(
        chat,
        AgentConfig(),
        ToolRegistry([large]),
        tool_call_limit=50,
        resources=Resources(limits=within(32_000, 2_000), counter=COUNTER, retention=kept),
    ).run()
    for request in model.requests:
        assert tokens(request) + (request.max_output_tokens or 0) <= 32_000


async def test_a_budget_reserves_for_what_is_sent_and_not_for_what_was_reduced() -> None:
    sizes: list[int] = []

    class Watches(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            sizes.append(tokens(request))
            return request

    model = ScriptedModel(*looks(60), "done")
    kept = Retention(summaries=False)
    store = Reserving()
    resources = Resources(retention=kept, limits=within(6_000), counter=COUNTER, store=store)
    chat = Chat(model=model, message="go", budget=Budget(tokens=10_000_000))
    await ToolOrchestrator(chat, Watches(), ToolRegistry([look]), resources=resources).run()
    assert len(sizes) == 61
    for size, reserved, request in zip(sizes, store.reserved, model.requests, strict=True):
        assert request.max_output_tokens is not None
        reservation = reserved.tokens - request.max_output_tokens
        assert size <= reservation <= size + 8 * 130


async def test_the_next_run_of_a_conversation_keeps_the_summary() -> None:
    def shown(request: ModelRequest) -> set[str]:
        return set(re.findall(r"part \d+", "\n".join(counted_text(message) for message in request.messages)))

    first = ScriptedModel(*looks(12), "first answer", summaries=[f"part {n}" for n in range(50)])
    result = await run(first, "first question")
    second = ScriptedModel(*looks(3), "done", summaries=[])
    carried: dict[str, Any] = {"history": result.messages, "context": result.context, "retention": Retention()}
    await run(second, "second question", **carried)
    assert result.context is not None
    summaries = set(re.findall(r"part \d+", str(result.context.prepared or result.context.edits)))
    assert len(summaries) == 1
    for request in sent(second):
        assert summaries <= shown(request)
