"""The loop: steps, events, limits, and what a run leaves behind."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    Resources,
    Retry,
    RunContext,
    RunError,
    Tool,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.errors import ConfigurationError, ContextFloorError, OverloadedError
from concertino.events import Notice, StepStarted, TextDelta, ToolDone, ToolFailed, UsageRecorded
from concertino.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.testing import Answer, ScriptedModel, call
from concertino.usage import Tokens

from .conftest import Play


async def test_text_alone_ends_the_run(play: Play) -> None:
    with ScriptedModel("Good day.") as model:
        seen = await play(model)
    assert seen.result.status == "completed"
    assert seen.result.text == "Good day."
    assert [e.text for e in seen.of(TextDelta)] == ["Good ", "day."]
    assert seen.kinds() == [
        "RunStarted", "StepStarted", "TextDelta", "TextDelta", "UsageRecorded", "TurnCompleted", "RunEnded",
    ]  # fmt: skip


async def test_a_call_runs_and_its_result_is_in_the_next_request(play: Play, add: Tool) -> None:
    with ScriptedModel(call("add", a=1, b=2), "It is 3.") as model:
        seen = await play(model, tools=[add])
    assert seen.result.tool_call_count == 1
    assert seen.result.steps == 2
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert (result.content, result.is_error) == ("3", False)


async def test_requests_grow_at_the_end_only(play: Play, add: Tool) -> None:
    with ScriptedModel(*[call("add", a=n, b=1) for n in range(10)], "done") as model:
        await play(model, tools=[add])
    sent = [list(request.messages) for request in model.requests]
    for shorter, longer in zip(sent, sent[1:], strict=False):
        assert longer[: len(shorter)] == shorter
    assert all(request.tools is model.requests[0].tools for request in model.requests)


async def test_an_unknown_tool_is_answered_with_the_names_there_are(play: Play, add: Tool) -> None:
    with ScriptedModel(call("subtract", a=1), "sorry") as model:
        seen = await play(model, tools=[add])
    assert seen.result.status == "completed"
    assert "add" in seen.of(ToolFailed)[0].error
    assert "no tool of this name" in model.requests[1].messages[-1].content


async def test_at_the_limit_the_agent_answers_without_tools(play: Play, add: Tool) -> None:
    with ScriptedModel(call("add", a=1, b=1), call("add", a=2, b=2), "four") as model:
        seen = await play(model, tools=[add], tool_call_limit=3)
    assert seen.result.text == "four"
    assert [e.code for e in seen.of(Notice)] == ["limit_reached"]
    last = model.requests[-1]
    assert last.tool_choice == "none"
    assert last.tools, "tools stay declared: a history with calls needs them"
    assert isinstance(last.messages[-1], SystemMessage)


async def test_a_model_that_calls_on_at_the_limit_still_ends(play: Play, add: Tool) -> None:
    steps = [call("add", a=1, b=1)] * 3
    with ScriptedModel(*steps) as model:
        seen = await play(model, tools=[add], tool_call_limit=3)
    assert (seen.result.status, seen.result.text, seen.result.steps) == ("limited", "", 3)
    assert seen.result.tool_call_count == 2, "the last step calls no tools"


async def test_tools_that_do_not_count(play: Play) -> None:
    @tool(counts_as_iteration=False)
    async def note(text: str) -> str:
        """Note."""
        return "noted"

    with ScriptedModel(*[call("note", text="x")] * 6, "done") as model:
        seen = await play(model, tools=[note], tool_call_limit=3)
    assert seen.result.text == "done"
    assert seen.result.tool_call_count == 6
    assert not seen.of(Notice)


async def test_a_limit_of_one_sends_no_tools(play: Play, add: Tool) -> None:
    with ScriptedModel("hello") as model:
        await play(model, tools=[add], tool_call_limit=1)
    assert model.requests[0].tools == ()


@pytest.mark.parametrize("limit", [0, -1, "many"])
async def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool_call"):
        await ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), AgentConfig(), tool_call_limit=limit).run()


async def test_usage_is_one_record_for_each_attempt(play: Play, add: Tool) -> None:
    steps = [
        Answer(calls=(call("add", a=1, b=1),), tokens=Tokens(prompt=100, completion=7, cached=50)),
        Answer(text="2", tokens=Tokens(prompt=120, completion=3, reasoning=2)),
    ]
    with ScriptedModel(*steps) as model:
        seen = await play(model, tools=[add])
    records = seen.result.usage
    assert [r.tokens.prompt for r in records] == [100, 120]
    assert records == tuple(e.record for e in seen.of(UsageRecorded))
    assert len({r.id for r in records}) == 2
    assert {r.source for r in records} == {"measured"}
    assert records[0].tools == ("add",)


async def test_a_provider_that_reports_nothing_is_estimated(play: Play) -> None:
    with ScriptedModel(Answer(text="a longer answer of some words", tokens=None)) as model:
        seen = await play(model, message="a question of some words")
    (record,) = seen.result.usage
    assert record.source == "estimated"
    assert "character classes" in record.how
    assert record.tokens.prompt > 0
    assert record.tokens.completion > 0


async def test_a_provider_that_fails_in_mid_stream(play: Play) -> None:
    with ScriptedModel(Answer(text="half an ans", error=OverloadedError("overloaded"))) as model:
        seen = await play(model)
    assert seen.result.status == "failed"
    assert seen.result.text == "half an ans"
    assert "overloaded" in (seen.result.error or "")
    (record,) = seen.result.usage
    assert record.source == "unknown"
    assert record.tokens.completion > 0, "a hint"


async def test_run_raises_and_carries_what_there_was(add: Tool) -> None:
    model = ScriptedModel(call("add", a=1, b=1), OverloadedError("too busy"))
    chat = Chat(model=model, message="go")
    orchestrator = ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry([add]), resources=Resources(retry=Retry(attempts=1))
    )
    with pytest.raises(RunError, match="too busy") as caught:
        await orchestrator.run()
    assert isinstance(caught.value.__cause__, OverloadedError)
    assert caught.value.result.tool_call_count == 1
    assert len(caught.value.result.usage) == 2


async def test_an_orchestrator_runs_once() -> None:
    orchestrator = ToolOrchestrator(Chat(model=ScriptedModel("hi"), message="go"), AgentConfig())
    await orchestrator.run()
    with pytest.raises(ConfigurationError, match="create one per run"):
        await orchestrator.run()


@pytest.mark.parametrize("message", ["", "   \n", None, 7])
def test_an_empty_message_raises(message: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Chat\(message="):
        ToolOrchestrator(Chat(model=ScriptedModel(), message=message), AgentConfig())


def test_what_is_no_chat_and_no_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not a Chat"):
        ToolOrchestrator("hello", AgentConfig())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="open_model"):
        ToolOrchestrator(Chat(model=6, message="go"), AgentConfig())  # type: ignore[arg-type]


async def test_a_limits_function_that_returns_none_is_named() -> None:
    chat = Chat(model=ScriptedModel(), message="go")
    with pytest.raises(ConfigurationError, match="must return Limits"):
        await ToolOrchestrator(chat, AgentConfig(), resources=Resources(limits=lambda *_: None)).run()  # type: ignore[arg-type]


def test_a_class_instead_of_an_agent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not an agent"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), AgentConfig)  # type: ignore[arg-type]


async def test_a_conversation_goes_on_with_the_messages_of_the_run_before(play: Play, add: Tool) -> None:
    with ScriptedModel(call("add", a=1, b=1), "2", "as I said") as model:
        first = await play(model, tools=[add])
        await play(model, tools=[add], message="again?", history=first.result.messages)
    assert list(model.requests[-1].messages) == [*first.result.messages, UserMessage("again?")]


async def test_a_message_that_is_too_long_is_cut_and_that_is_said(play: Play) -> None:
    def small(*_: Any) -> Limits:
        return Limits(context=1_000, output=100)

    with ScriptedModel("ok") as model:
        seen = await play(model, message="word " * 5_000, limits=small)
    assert [e.code for e in seen.of(Notice)] == ["user_message_cut"]
    sent = model.requests[0].messages[-1]
    assert sent.text.endswith("[The message was cut here: it is too long for the model.]")
    assert len(sent.text) < 5_000


async def test_a_prompt_that_fills_the_window_is_a_named_error(play: Play) -> None:
    class Wordy(AgentConfig[None]):
        prompt = "word " * 5_000

    with ScriptedModel() as model:
        seen = await play(model, Wordy(), limits=lambda *_: Limits(context=1_000, output=100))
    assert seen.result.status == "failed"
    assert ContextFloorError.__name__ in (seen.result.error or "")
    assert "system prompt" in (seen.result.error or "")


async def test_what_is_sent_stays_below_the_window_for_ever(play: Play) -> None:
    @tool
    async def read(part: int) -> str:
        """Read."""
        return "words and words " * 100

    exact = TiktokenCounter()
    limits = Limits(context=4_000, output=200, tool_calls=100)
    with ScriptedModel(*[call("read", part=n) for n in range(60)], "done") as model:
        seen = await play(model, tools=[read], limits=lambda *_: limits)
    assert seen.result.status == "completed"
    for request in model.requests:
        text = "".join(getattr(m, "text", "") + getattr(m, "content", "") for m in request.messages)
        assert exact.count(text) < 3_800
        calls = {c.id for m in request.messages if isinstance(m, AssistantMessage) for c in m.tool_calls}
        results = {m.call_id for m in request.messages if isinstance(m, ToolMessage)}
        assert calls == results
        assert any(isinstance(m, UserMessage) for m in request.messages)
    assert len(seen.result.messages) == 122, "nothing is lost from the record"
    assert {e.code for e in seen.of(Notice)} == {"context_trimmed"}


async def test_the_store_has_the_run_the_conversation_and_the_usage(play: Play, add: Tool) -> None:
    store = MemoryStore()
    with ScriptedModel(call("add", a=1, b=2), "3") as model:
        seen = await play(model, tools=[add], store=store, conversation_id="c1")
    (run,) = await store.runs(OPERATOR, conversation_id="c1")
    assert run.end is not None
    assert (run.end.status, run.end.answer) == ("completed", "3")
    stored = await store.messages(OPERATOR, run.start.run_id)
    assert [kept.message for kept in stored] == list(seen.result.messages)
    assert all(kept.tokens for kept in stored), "what is stored carries its size"
    assert tuple(await store.usage(OPERATOR, run.start.run_id)) == seen.result.usage


async def test_an_observer_that_fails_harms_nobody(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    watched: list[str] = []

    def watch(event: Any) -> None:
        watched.append(type(event).__name__)

    def broken(event: Any) -> None:
        raise RuntimeError("boom")

    with ScriptedModel("hi") as model:
        seen = await play(model, observers=[broken, watch])
    assert seen.result.status == "completed"
    assert watched == seen.kinds()
    assert "observer failed" in caplog.text


async def test_the_content_index_never_goes_back(play: Play, add: Tool) -> None:
    with ScriptedModel([call("add", a=1, b=1), call("add", a=2, b=2)], call("add", a=3, b=3), "ok") as model:
        seen = await play(model, tools=[add])
    indexes = [event.index for event in seen.events]
    assert indexes == sorted(indexes)
    assert seen.result.content_index == indexes[-1] == 4


async def test_steps_are_numbered_and_name_their_model(play: Play, add: Tool) -> None:
    with ScriptedModel(call("add", a=1, b=1), "2") as model:
        seen = await play(model, tools=[add])
    assert [(e.step, e.model) for e in seen.of(StepStarted)] == [(1, "scripted:script"), (2, "scripted:script")]
    assert seen.of(ToolDone)[0].content == "2"


async def test_the_report_is_priced_with_the_provider_that_has_answered() -> None:
    class Elsewhere(ScriptedModel):
        provider = "otherco"

    class Chooses(AgentConfig[None]):
        def get_model_id(self, run: RunContext[None]) -> str:
            return "otherco:small"

    def price(provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal | None, str]:
        return (Decimal(tokens.prompt), "test") if (provider, model) == ("otherco", "small") else (None, "")

    small = Elsewhere("said", name="small")
    chat = Chat(model=ScriptedModel(), message="go")
    report = (
        await ToolOrchestrator(chat, Chooses(), resources=Resources(models=lambda name: small, price=price)).run()
    ).report
    assert report.cost == report.prompt > 0
    assert report.untrimmed_cost == report.untrimmed_prompt


async def test_each_request_is_priced_by_its_own_size(add: Tool) -> None:
    def steps(provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal | None, str]:
        return Decimal(tokens.prompt * (2 if tokens.prompt > 200 else 1)), "test"

    small = Answer(calls=(call("add", a=1, b=2),), tokens=Tokens(prompt=150, completion=5))
    model = ScriptedModel(small, small, Answer(text="done", tokens=Tokens(prompt=300, completion=5)))
    chat = Chat(model=model, message="go")
    result = await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([add]), resources=Resources(price=steps)).run()
    assert result.report is not None
    assert result.report.cost == result.report.untrimmed_cost == 150 + 150 + 600
