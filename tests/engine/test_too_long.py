"""A model takes less than was thought: its window is smaller, or its tokens are more. The run goes on with less."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    ModelRequest,
    Resources,
    Retry,
    RunContext,
    RunError,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.errors import BadRequestError, ContentFilteredError, ContextTooLongError, OverloadedError
from concertino.events import AttemptFailed, ContextEdited
from concertino.messages import Message, ToolMessage, UserMessage
from concertino.orchestrator import requests
from concertino.providers import ModelEvent
from concertino.testing import ScriptedModel, call
from concertino.token_engine import EstimatingCounter

from ..counted_text import counted_text
from .conftest import Seen, play

COUNT = EstimatingCounter().count
WINDOW = 3_000


def size(request: ModelRequest) -> int:
    return COUNT(request.system) + sum(COUNT(counted_text(message)) for message in request.messages)


class Narrow(ScriptedModel):
    """Refuses what is over *window* tokens, whatever anybody thinks of it."""

    def __init__(self, *steps: Any, window: int = WINDOW, name: str = "script") -> None:
        super().__init__(*steps, name=name, summaries=["What came before."] * 90)
        self.window = window
        self.taken: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if size(request) > self.window:
            raise ContextTooLongError(f"this model takes {self.window} tokens", provider=self.provider, status=400)
        self.taken.append(request)
        async for event in super().stream(request):
            yield event


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"A line of what was found, number {n}. " * 30


def looks(count: int) -> list[Any]:
    return [call("look", n=n) for n in range(count)]


async def test_a_window_that_nobody_knew_of() -> None:
    model = Narrow(*looks(40), "done")
    seen: Seen = await play(model, tools=[look], tool_call_limit=50, retry=Retry(attempts=3))
    assert seen.result.text == "done"
    failed = seen.of(AttemptFailed)
    assert 1 <= len(failed) < 8, "it is learnt, and not found out anew at each step"
    assert seen.of(ContextEdited)
    refused = [record for record in seen.result.usage if "not billed" in record.how]
    assert len(refused) >= len(failed)
    assert {record.tokens.prompt for record in refused} == {0}


async def test_what_was_sent_after_a_refusal_is_on_record() -> None:
    store = MemoryStore()
    model = Narrow(*looks(40), "done")
    chat = Chat(model=model, message="go")
    result = await ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry([look]), tool_call_limit=50, resources=Resources(store=store)
    ).run()
    journal = await store.load(OPERATOR, result.run_id)
    assert journal is not None
    again = [list(request.messages) for _, _, request in requests(journal) if size(request) <= WINDOW]
    sent = [list(request.messages) for request in model.taken]
    assert again == [messages for messages in sent if messages in again]
    assert len(again) == 41
    assert list(model.taken[-1].messages) == again[-1]


async def test_a_history_that_is_far_too_long() -> None:
    """Each attempt sends a quarter less; a history of half as much again as the window gets through in three."""
    history: list[Message] = [UserMessage("The task. " * 20)]
    while sum(COUNT(counted_text(message)) for message in history) < WINDOW * 1.5:
        history.append(UserMessage(f"Remark {len(history)} about it. " * 20))
    model = Narrow("done")
    seen: Seen = await play(model, history=history, retry=Retry(attempts=3))
    assert seen.result.text == "done"
    assert model.taken[0].messages[-1] == UserMessage("go")


async def test_where_nothing_can_be_taken_out_the_refusal_stands() -> None:
    chat = Chat(model=Narrow(window=100), message="What is it? " * 100)
    with pytest.raises(RunError, match="this model takes 100 tokens"):
        await ToolOrchestrator(chat, AgentConfig()).run()


async def test_what_an_agent_sends_of_its_own_is_not_cut() -> None:
    class Own(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            return replace(request, messages=[UserMessage("mine " * 1_000)])

    seen: Seen = await play(Narrow(window=100), Own(), retry=Retry(attempts=3))
    assert seen.result.status == "failed"
    assert "this model takes 100 tokens" in (seen.result.error or "")
    assert len(seen.of(AttemptFailed)) == 1


def limits(scope: object, model: ScriptedModel, agent: object) -> Limits:
    window = getattr(model, "window", 100_000)
    return Limits(context=window, output=min(window // 4, 4_000), tool_calls=100)


async def test_a_fallback_with_a_smaller_window() -> None:
    first, other = ScriptedModel(*looks(20), OverloadedError("busy")), Narrow("done", name="b")
    chat: dict[str, Any] = {"fallback": ["scripted:b"], "models": lambda name: other, "limits": limits}
    seen: Seen = await play(first, tools=[look], **chat)
    assert seen.result.text == "done"
    assert other.taken[0].max_output_tokens == WINDOW // 4
    assert size(first.requests[-1]) > WINDOW
    assert first.requests[-1].max_output_tokens == 4_000


async def test_a_hook_that_asks_a_model_with_a_smaller_window() -> None:
    class Turns(AgentConfig[None]):
        def get_model_id(self, run: RunContext[None]) -> str:
            return "scripted:b" if run.state.step > 20 else run.model_id

    first, other = ScriptedModel(*looks(20)), Narrow(*looks(3), "done", name="b")
    seen: Seen = await play(first, Turns(), tools=[look], models=lambda name: other, limits=limits)
    assert seen.result.text == "done"
    assert seen.of(AttemptFailed) == []
    assert all(size(request) + (request.max_output_tokens or 0) <= WINDOW for request in other.taken)
    assert any(isinstance(message, ToolMessage) for message in other.taken[-1].messages)


@pytest.mark.parametrize(
    ("error", "billed"), [(BadRequestError("no such field"), False), (ContentFilteredError("no"), True)]
)
async def test_what_was_refused_is_not_billed(error: Exception, billed: bool) -> None:
    with ScriptedModel(error) as model:
        seen: Seen = await play(model)
    (record,) = seen.result.usage
    assert bool(record.tokens.prompt) == billed
    assert record.source == ("estimated" if billed else "measured")
