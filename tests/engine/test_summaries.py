"""Summaries over many runs and steps: nothing that is pinned is lost in them, and each is paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from concertino import AgentConfig, Budget, Chat, Limits, RunResult, Session, ToolOrchestrator, ToolRegistry, tool
from concertino.messages import AssistantMessage, Message, UserMessage
from concertino.orchestrator.summarising import ASKS
from concertino.orchestrator.tree import user_account
from concertino.providers.port import ModelRequest
from concertino.storage.memory import MemoryStore
from concertino.testing import Answer, ScriptedModel, call
from concertino.token_engine.retention import Retention

OFTEN = Retention(results=100, messages=5, patience=0.01)


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"A line of what was found, number {n}. " * 40


def looks(count: int) -> list[Any]:
    return [call("look", n=n) for n in range(count)]


def within(context: int) -> Any:
    return lambda session, model, agent: Limits(context=context, output=500, tool_calls=500)


def summarises(request: ModelRequest) -> bool:
    last = request.messages[-1]
    return isinstance(last, UserMessage) and last.text.startswith(ASKS)


def sent(model: ScriptedModel) -> list[ModelRequest]:
    return [request for request in model.requests if not summarises(request)]


def texts(messages: Sequence[Message]) -> str:
    return "\n".join(getattr(message, "text", "") for message in messages)


async def run(model: ScriptedModel, message: str, **settings: Any) -> RunResult:
    chat = Chat(model=model, message=message, **{"retention": OFTEN, "limits": within(100_000), **settings})
    return await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look])).run()


async def test_the_users_newest_message_outlives_the_summaries_that_become_one() -> None:
    first = ScriptedModel(*looks(12), "first answer", summaries=["part"] * 50)
    result = await run(first, "first question")
    second = ScriptedModel(*looks(100), "done", summaries=["part"] * 100)
    await run(second, "NEWEST: never refund order 8", history=result.messages, context=result.context)
    assert len(sent(second)) == 101
    assert any(
        "several successive" in texts(r.messages) or "successive parts" in texts(r.messages) for r in second.requests
    )
    assert all("NEWEST" in texts(request.messages) for request in sent(second))
    assert all("first question" in texts(request.messages) for request in sent(second))


async def test_a_summary_that_takes_several_steps_frees_what_was_reserved_for_it() -> None:
    store, there = MemoryStore(), asyncio.Event()
    await store.set_budget(user_account("anna"), Budget(tokens=5_000_000))

    @tool(name="look", effect="read")
    async def slow(n: int) -> str:
        """Look something up."""
        if n == 14:
            there.set()
        return f"A line of what was found, number {n}. " * 40

    model = ScriptedModel(*looks(30), "done", summaries=[Answer(text="part", before=there.wait)] + ["part"] * 9)
    chat = Chat(
        model=model,
        message="go",
        store=store,
        retention=Retention(results=100, messages=4, patience=0.01),
        limits=within(100_000),
        session=Session(user_id="anna"),
    )
    result = await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([slow])).run()
    (account,) = await store.accounts([user_account("anna")])
    assert account.reserved_tokens == 0
    assert account.spent_tokens == sum(record.tokens.total for record in result.usage)
    asked = [
        entry.body["request"]["usage"] for entry in (await store.load(result.run_id)).entries if entry.kind == "asking"
    ]
    assert sorted(asked) == sorted(record.id for record in result.usage)
    assert any(isinstance(message, AssistantMessage) for message in result.messages)
