"""What is sent of a conversation, through the engine: reduced, summarized, recalled; and on record."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
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
    Retention,
    RunContext,
    Tool,
    ToolOrchestrator,
    ToolRegistry,
    ToolResult,
    tool,
)
from concertino.context_state import ContextState
from concertino.errors import ConfigurationError, OverloadedError
from concertino.events import CacheMiss, ContextEdited, Notice
from concertino.ids import new_run_id
from concertino.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from concertino.orchestrator import requests
from concertino.providers import Reply
from concertino.storage import Store
from concertino.testing import Answer, ScriptedModel, asks_for_summary, call
from concertino.tools.builtin import Recall
from concertino.usage import Tokens
from tests.tasks import advance

from ..tasks import background
from .conftest import Play, Seen

LARGE = "A line of what was found, number {}. "


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    await advance()  # to the next summary
    return LARGE.format(n) * 40


def within(context: int) -> dict[str, Any]:
    return {"limits": lambda scope, model, agent: Limits(context=context, output=200, tool_calls=100)}


def looks(count: int) -> list[Any]:
    return [call("look", n=n) for n in range(count)]


async def test_older_results_leave_the_view_and_can_be_recalled_word_for_word(play: Play) -> None:
    def recall_first(request: ModelRequest) -> Any:
        (told,) = [m.text for m in request.messages if isinstance(m, UserMessage) and is_record(m)]
        return call("recall", handle=told.partition('recall("')[2].partition('"')[0])

    model = ScriptedModel(*looks(24), recall_first, "done")
    with model:
        seen = await play(model, tools=[look], **within(6_000))
    last = [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert LARGE.format(0) * 40 in last[-1].content
    assert LARGE.format(0) not in "".join(m.content for m in last[:-1])
    kept = [m for m in seen.result.messages if isinstance(m, ToolMessage)]
    assert kept[0].content == LARGE.format(0) * 40, "what is kept is whole"
    edited = seen.of(ContextEdited)
    assert edited
    assert all(event.after < event.before for event in edited)


async def test_a_result_is_used_once_and_thrown_away(play: Play) -> None:
    @tool(effect="read", retain="once")
    async def page(n: int) -> ToolResult:
        """Read a page."""
        return ToolResult(LARGE.format(n) * 40, summary=f"read page {n}")

    with ScriptedModel(call("page", n=1), call("page", n=2), "done") as model:
        await play(model, tools=[page])
    second, third = ([m for m in r.messages if isinstance(m, ToolMessage)] for r in model.requests[1:])
    assert second[0].content == LARGE.format(1) * 40
    assert third[0].content.startswith('[read page 1 recall("')
    assert [spec.name for spec in model.requests[2].tools] == ["page", "recall"], "it joins with the first edit"
    assert third[1].content == LARGE.format(2) * 40


async def test_a_pinned_result_stays(play: Play) -> None:
    @tool(effect="read", retain="pin")
    async def rules() -> str:
        """The rules."""
        return "Never refund twice. " * 20

    with ScriptedModel(call("rules"), *looks(20), "done") as model:
        await play(model, tools=[rules, look], **within(6_000))
    assert any(
        m.content == "Never refund twice. " * 20 for m in model.requests[-1].messages if isinstance(m, ToolMessage)
    )


async def test_a_tool_says_how_long_its_results_may_be(play: Play) -> None:
    @tool(effect="read", max_tokens=50)
    async def long() -> str:
        """Much."""
        return "begin " + "word " * 5_000 + "end"

    with ScriptedModel(call("long"), "done") as model:
        await play(model, tools=[long, Recall()])
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert result.content.startswith("begin")
    assert result.content.endswith("end")
    assert f'recall("{result.handle}")' in result.content
    assert len(result.content) < 600


# -- summaries ---------------------------------------------------------------------------------------------------------


def summarized(requests: list[ModelRequest]) -> list[ModelRequest]:
    return [request for request in requests if asks_for_summary(request)]


def is_record(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.text.startswith("[Record of the conversation")


SHORT = Retention(frees=400, price=1e9, floor=0)


async def test_older_messages_are_summarized_beside_the_run_and_billed(play: Play) -> None:
    model = ScriptedModel(*looks(20), "done", summaries=["The user wants to know." for _ in range(30)])
    seen = await play(model, tools=[look], retention=SHORT)
    asked = summarized(model.requests)
    assert asked
    assert seen.result.status == "completed"
    assert len(seen.result.usage) == len(model.requests), "each summary is a row"
    for summary in asked:  # it begins with what was just sent
        if len(summary.messages) > 1:  # it is no transcript
            sent = [r for r in model.requests[: model.requests.index(summary)] if r not in asked]
            assert list(summary.messages)[:-1] == list(sent[-1].messages)
    last = model.requests[-1].messages
    records = [m.text for m in last if isinstance(m, UserMessage) and is_record(m)]
    assert records
    assert "The user wants to know." in records[0]
    assert last[0] == UserMessage("go"), "the task stays"
    assert sum(event.summarized for event in seen.of(ContextEdited)) > 0
    assert seen.result.report is not None
    assert seen.result.report.summaries == len(asked)
    assert seen.result.report.untrimmed_prompt > seen.result.report.prompt


async def test_a_hundred_short_turns_in_a_large_window_are_sent_whole() -> None:
    """With the default settings, and a model whose prices would make a summary pay."""

    @tool(effect="read")
    async def work(n: int) -> str:
        """Work."""
        return "ok"

    class Worker(AgentConfig[None]):
        tools, tool_call_limit = (work,), 1_000

    turns = [Answer(calls=(call("work", n=n),), tokens=None) for n in range(100)]
    model = ScriptedModel(*turns, "done", name="gpt-4.1-mini", summaries=[])
    model.provider = "openai"
    result = await ToolOrchestrator(Chat("go", model=model), Worker()).run()
    assert (result.status, len(model.requests)) == ("completed", 101)
    assert result.report is not None
    assert (result.report.edits, result.report.summaries) == (0, 0)
    assert list(model.requests[-1].messages) == list(result.messages[:-1])


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "word " * 50_000,
        call("look", n=1),
        OverloadedError("busy"),
        Answer(text="cut", stop_reason="length"),
        ValueError(),
    ],
)
async def test_a_summary_that_fails_changes_nothing(play: Play, bad: Any) -> None:
    model = ScriptedModel(*looks(12), "done", summaries=[bad] * 30)
    seen = await play(model, tools=[look], retention=SHORT)
    assert seen.result.status == "completed"
    assert 1 <= len(summarized(model.requests)) <= 2, "after two failures nothing is summarized any more"
    assert not any(event.summarized for event in seen.of(ContextEdited))
    assert [n.code for n in seen.of(Notice)].count("summary_failed") == len(summarized(model.requests))
    assert len(seen.result.usage) == len(model.requests)


async def test_a_full_window_waits_for_its_summary_or_leaves_out(play: Play) -> None:
    for summaries in (["What came before."] * 30, [""] * 30, None):
        model = ScriptedModel(*looks(30), "done", summaries=summaries)
        patient = Retention(price=0)
        seen = await play(model, tools=[look], retention=patient, **within(6_000))
        assert seen.result.status == "completed"
        assert any(
            "What came before." in m.text for m in model.requests[-1].messages if isinstance(m, UserMessage)
        ) == (summaries is not None and summaries[0] != "")
        trimmed = [n for n in seen.of(Notice) if n.code == "context_trimmed"]
        assert bool(trimmed) == (summaries is None or summaries[0] == "")


async def test_stopped_while_a_summary_is_made() -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await never.wait()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await begun.wait()
        await never.wait()
        return "?"

    model = ScriptedModel(*looks(8), call("wait"), summaries=[Answer(text="x", before=hang)] * 9)
    chat = Chat(model=model, message="go")
    orchestrator = ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry([look, wait]), resources=Resources(retention=SHORT)
    )
    run = asyncio.create_task(orchestrator.run())
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert orchestrator.result is not None
    assert orchestrator.result.status == "cancelled"
    assert [record.source for record in orchestrator.result.usage].count("estimated") >= 1
    assert background() == set()


async def test_a_summary_is_not_made_again_after_a_restart() -> None:
    store, run_id = MemoryStore(), new_run_id()

    @tool(name="look", effect="read")
    async def look_and_park(n: int) -> str:
        """Look something up; the process ends as soon as a summary is there."""
        run = first._run
        assert run is not None
        await advance()
        if run.window.prepared:
            first.park()
        return LARGE.format(n) * 30

    model = ScriptedModel(*looks(30), summaries=["Only once."] * 30)
    chat = Chat(model=model, message="go")
    first = ToolOrchestrator(
        chat,
        AgentConfig(),
        ToolRegistry([look_and_park]),
        run_id=run_id,
        resources=Resources(store=store, retention=SHORT),
    )
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(first.run())
    assert len(summarized(model.requests)) == 1
    again = ScriptedModel("done", summaries=[])
    chat = Chat(model=again)
    second = ToolOrchestrator(
        chat,
        AgentConfig(),
        ToolRegistry([look]),
        run_id=run_id,
        resume=True,
        resources=Resources(store=store),
    )
    result = await second.run()
    assert result.status == "completed"
    assert not summarized(again.requests)
    assert any("Only once." in m.text for m in again.requests[0].messages if isinstance(m, UserMessage))


# -- from run to run, and on record ------------------------------------------------------------------------------------


async def test_the_next_run_of_a_conversation_sees_it_as_this_one_did() -> None:
    model = ScriptedModel(*looks(16), "first", "second", summaries=["What came before."] * 30)
    registry = ToolRegistry([look, Recall()])
    first = await ToolOrchestrator(
        Chat(model=model, message="go"), AgentConfig(), registry, resources=Resources(retention=SHORT)
    ).run()
    before = list(model.requests[-1].messages)
    assert first.context is not None
    made = len(summarized(model.requests))
    chat = Chat(model=model, message="and?", history=first.messages, context=first.context)
    second = await ToolOrchestrator(chat, AgentConfig(), registry, resources=Resources(retention=SHORT)).run()
    assert second.text == "second"
    assert len(summarized(model.requests)) == made, "nothing is summarized twice"
    sent = list(model.requests[-1].messages)
    assert sum(map(is_record, sent)) >= sum(map(is_record, before))
    assert len(sent) < len(first.messages)


async def test_the_context_of_another_conversation_is_not_taken() -> None:
    model = ScriptedModel(*looks(16), "first", "second", summaries=["What came before."] * 30)
    first = await ToolOrchestrator(
        Chat(model=model, message="go"), AgentConfig(), ToolRegistry([look]), resources=Resources(retention=SHORT)
    ).run()
    other: list[Message] = [UserMessage("quite"), AssistantMessage((Text("another"),))]
    orchestrator = ToolOrchestrator(
        Chat(model=model, message="and?", history=other, context=first.context), AgentConfig(), ToolRegistry([look])
    )
    events = [event async for event in orchestrator.stream()]
    assert [e.code for e in events if isinstance(e, Notice)] == ["context_not_applied"]
    assert list(model.requests[-1].messages) == [*other, UserMessage("and?")]


async def test_replay_gives_what_was_sent_with_all_edits() -> None:
    store: Store = MemoryStore()
    model = ScriptedModel(*looks(20), "done", summaries=["What came before."] * 30)
    chat = Chat(model=model, message="go")
    result = await ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry([look]), resources=Resources(store=store, retention=SHORT)
    ).run()
    journal = await store.load(OPERATOR, result.run_id)
    assert journal is not None
    again = [request for _, _, request in requests(journal)]
    sent = [request for request in model.requests if request not in summarized(model.requests)]
    assert [(list(r.messages), r.breakpoints, r.cache_key) for r in again] == [
        (list(r.messages), r.breakpoints, r.cache_key) for r in sent
    ]


async def test_settings_that_make_no_sense() -> None:
    for wrong in (
        {"frees": -1},
        {"floor": "9"},
        {"users": True},
        {"summaries": "no"},
        {"price": float("inf")},
        {"max_result_tokens": 0},
    ):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Retention(**wrong)  # type: ignore[arg-type]


# -- the provider's cache ----------------------------------------------------------------------------------------------


class Caching(ScriptedModel):
    """Reports what a cache would have held, as long as `holds` says so."""

    holds = True

    async def stream(self, request: ModelRequest) -> Any:
        async for event in super().stream(request):
            if isinstance(event, Reply):
                size = sum(len(str(m)) // 4 for m in request.messages) + 5_000
                cached = self.last if self.holds else 0
                self.last = size
                yield Reply(event.message, Tokens(prompt=size, cached=cached, completion=5))
            else:
                yield event

    last = 0


async def test_a_cache_that_forgets_is_noticed(play: Play) -> None:
    class Forgets(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            model.holds = run.state.step != 5
            return request

    model = Caching(*looks(8), "done")
    seen: Seen = await play(model, Forgets(), tools=[_small()])
    assert [miss.reason for miss in seen.of(CacheMiss)] == ["provider"]
    assert seen.result.report is not None
    assert seen.result.report.misses == 1


async def test_the_content_index_never_goes_back(play: Play) -> None:
    class Forgets(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            model.holds = run.state.step % 3 != 0
            return request

    model = Caching(*looks(12), "done")
    seen: Seen = await play(model, Forgets(), tools=[look], **within(9_000))
    assert seen.of(CacheMiss)
    assert seen.of(ContextEdited)
    numbers = [event.index for event in seen.events]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    "change",
    [
        {"effort": "high"},
        {"system": "It is noon. Be brief."},
        {"tools": ()},
        {"extra": {"thinking": {"type": "enabled"}}},
    ],
)
async def test_what_changes_the_prefix_is_named(play: Play, change: dict[str, Any]) -> None:
    class Changes(AgentConfig[None]):
        def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
            model.holds = run.state.step != 5
            return replace(request, **change) if run.state.step >= 5 else request

    model = Caching(*looks(8), "done")
    seen: Seen = await play(model, Changes(), tools=[_small()])
    assert [miss.reason for miss in seen.of(CacheMiss)] == ["settings_changed"]


async def test_another_model_begins_with_an_empty_cache(play: Play) -> None:
    class Changes(AgentConfig[None]):
        def get_model_id(self, run: RunContext[None]) -> str:
            return "scripted:b" if run.state.step > 5 else run.model_id

    first, other = Caching(*looks(5)), Caching(*looks(2), "done", name="b")
    seen: Seen = await play(first, Changes(), tools=[_small()], models=lambda name: other)
    assert [(miss.reason, miss.cached) for miss in seen.of(CacheMiss)] == [("model_changed", 0)]
    assert seen.result.report is not None
    assert seen.result.report.untrimmed_cached == seen.result.report.cached, (
        "nothing was left out, and one was a new cache"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"edits": [["reduce", [1, 2], ["one"]]]},
        {"edits": [["reduce", "1", "2"]]},
        {"prepared": ["?"]},
        {"edits": None},
        {"bill": (1.0,)},
        {"sent_at": "noon"},
        {"failures": "two"},
        {"failures": -1},
        {"failures": 10**400},
        {"anchor": [10**400, 1, 1]},
        {"bill": float("inf")},
        {"bill": 10**400},
        {"omitted": "many"},
        {"model": 5},
    ],
)
async def test_a_context_that_is_none_is_refused(play: Play, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="context"):
        await play(ScriptedModel("done"), context=ContextState(**wrong))


async def test_a_context_that_was_json_is_taken(play: Play) -> None:
    model = ScriptedModel(*looks(20), "done", summaries=["What came before."] * 30)
    first: Seen = await play(model, tools=[look], retention=SHORT)
    assert first.result.context is not None
    kept = json.loads(json.dumps(asdict(first.result.context)))
    with ScriptedModel("again") as model:
        history = first.result.messages
        seen: Seen = await play(model, history=history, context=ContextState(**kept), retention=SHORT)
    assert seen.of(Notice) == []
    assert seen.result.context is not None
    assert seen.result.context.edits[: len(kept["edits"])] == kept["edits"]
    assert kept["edits"]


def _small() -> Tool:
    @tool(name="look", effect="read")
    async def small(n: int) -> str:
        """Look."""
        return f"number {n}, " * 30

    return small
