"""The extractive model through its port: roles, calls, streaming, usage, and what it must never do."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers.base import Model, Reply, TextChunk, ToolCallChunk, model_id
from concertino.providers.extractive import ExtractiveModel

from .desk import (
    PAGES,
    RESEARCH,
    SUPERVISE,
    Desk,
    count,
    events,
    page_text,
    reply,
    request,
    search,
    source_id,
    written,
)

IDS = {source_id(location) for location in PAGES}
CITATION = re.compile(r"\[(s[0-9a-f]{10})\]")


def calls(answer: Reply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.message.tool_calls]


def test_it_is_a_model() -> None:
    model: Model = ExtractiveModel(count)
    assert model_id(model) == "extractive:rules-1"


async def test_a_supervisor_asks_several_researchers_at_once_and_reports() -> None:
    desk = Desk(SUPERVISE)
    closing = await desk.ask("What is the kettle module, and why was brewing split from boiling?")
    first, second, last = desk.turns
    assert [call.name for call in first.tool_calls] == ["researcher", "researcher"]
    assert [call.name for call in second.tool_calls] == ["report_generation"]
    assert last.tool_calls == ()
    assert last.stop_reason == "end"
    assert closing.count(".") == 1
    report = desk.report["markdown"]
    assert "The kettle module boils water for any number of cups. [" in report
    assert "because tea masters wanted to reuse one kettle for several teapots. [" in report
    assert set(CITATION.findall(report)) <= IDS


async def test_a_report_without_findings_says_so_and_cites_nothing() -> None:
    desk = Desk(SUPERVISE)
    await desk.ask("What is the capital of France?")
    assert "do not answer" in desk.report["markdown"]
    assert not CITATION.search(desk.report["markdown"])


async def test_a_researcher_searches_opens_and_quotes() -> None:
    desk = Desk(RESEARCH)
    answer = await desk.ask("Why was brewing split from boiling?")
    names = [sorted({call.name for call in turn.tool_calls}) for turn in desk.turns]
    assert names[:2] == [["web_search"], ["fetch_page"]]
    assert f"for several teapots. [{source_id('lib/teapot.md')}]" in answer


async def test_a_researcher_says_what_it_did_not_find() -> None:
    answer = await Desk(RESEARCH).ask("How much does the kettle cost in lanterns?")
    assert answer.startswith("The sources searched do not answer this")
    assert "“lanterns”" in answer
    assert not CITATION.search(answer)


async def test_a_conversation_goes_on() -> None:
    desk = Desk(RESEARCH)
    await desk.ask("How much is a night for small boats?")
    assert "Large boats: $30.00 a night" in await desk.ask("And for large boats?")


async def test_small_talk_starts_no_search() -> None:
    desk = Desk(RESEARCH)
    assert "Ask a question" in await desk.ask("And you?")
    assert len(desk.turns) == 1


async def test_without_parallel_calls_it_calls_one_after_the_other() -> None:
    desk = Desk(RESEARCH, parallel_tool_calls=False)
    answer = await desk.ask("What is the kettle module?")
    assert all(len(turn.tool_calls) <= 1 for turn in desk.turns)
    assert "boils water" in answer


async def test_without_tools_it_says_what_it_is() -> None:
    answer = await reply(request([UserMessage("What is tea?")], ()))
    assert "no language model" in answer.message.text


@pytest.mark.parametrize("choice", ["none", "auto"])
async def test_without_calls_it_answers_from_what_there_is(choice: Any) -> None:
    messages: list[Message] = [
        UserMessage("When must fees be paid?"),
        AssistantMessage((ToolCall("1", "web_search", '{"query": "fees paid"}'),), "tool_calls"),
        ToolMessage("1", "web_search", search("fees paid")),
        AssistantMessage((ToolCall("2", "fetch_page", '{"location": "lib/fees.md"}'),), "tool_calls"),
        ToolMessage("2", "fetch_page", page_text("lib/fees.md")),
    ]
    answer = await reply(request(messages, RESEARCH if choice == "none" else (), choice))
    assert answer.message.tool_calls == ()
    assert "Fees must be paid within 14 days." in answer.message.text


async def test_a_forced_report_is_made_from_nothing() -> None:
    answer = await reply(request([UserMessage("What is tea?")], SUPERVISE, ForcedTool("report_generation")))
    [(name, arguments)] = calls(answer)
    assert name == "report_generation"
    assert arguments["title"] == "What is tea"
    assert "Nothing has been researched" in arguments["markdown"]


@pytest.mark.parametrize("name", ["web_search", "fetch_page", "researcher", "feedback_questions", "unheard_of"])
async def test_a_forced_tool_is_called(name: str) -> None:
    tools = (*RESEARCH, *SUPERVISE)
    answer = await reply(request([UserMessage("What is tea?")], tools, ForcedTool(name)))
    assert [call.name for call in answer.message.tool_calls] == [name]


async def test_required_means_a_call() -> None:
    spec = ToolSpec(
        "weigh", "", {"properties": {"n": {"type": "integer"}, "s": {"enum": ["a"]}}, "required": ["n", "s"]}
    )
    answer = await reply(request([UserMessage("Hello")], (spec,), "required"))
    assert calls(answer) == [("weigh", {"n": 1, "s": "a"})]


async def test_failed_searches_are_not_mistaken_for_empty_sources() -> None:
    messages: list[Message] = [UserMessage("What is tea?")]
    for _ in range(4):
        answer = (await reply(request(messages, RESEARCH))).message
        messages.append(answer)
        messages += [ToolMessage(call.id, call.name, "offline", is_error=True) for call in answer.tool_calls]
        if not answer.tool_calls:
            break
    assert "Every search failed" in answer.text


async def test_the_stream_is_the_message_in_pieces() -> None:
    seen = await events(request([UserMessage("What is the kettle module, and what is a teapot?")], SUPERVISE))
    last = seen[-1]
    assert isinstance(last, Reply)
    for call in last.message.tool_calls:
        pieces = [event for event in seen if isinstance(event, ToolCallChunk) and event.id == call.id]
        assert pieces[0].arguments == ""
        assert "".join(piece.arguments for piece in pieces) == call.arguments
    spoken = await events(request([UserMessage("What?")], ()))
    assert len([event for event in spoken if isinstance(event, TextChunk)]) == 1


async def test_text_is_streamed_sentence_by_sentence() -> None:
    desk = Desk(RESEARCH)
    answer = await desk.ask("What is the kettle module?")
    seen = await events(request(desk.messages[:-1], RESEARCH))
    pieces = [event.text for event in seen if isinstance(event, TextChunk)]
    assert "".join(pieces) == answer
    assert len(pieces) > 1


async def test_usage_is_counted_on_what_was_sent_and_written() -> None:
    desk = Desk(RESEARCH)
    await desk.ask("What is the kettle module?")
    for end in range(1, len(desk.messages), 1):
        answer = await reply(request(desk.messages[:end], RESEARCH))
        assert answer.tokens is not None
        assert answer.source == "measured"
        sent = ["Be helpful."]
        sent += [f"{spec.name}\n{spec.description}\n{json.dumps(spec.parameters)}" for spec in RESEARCH]
        sent += [written(message) for message in desk.messages[:end]]
        assert answer.tokens.prompt == sum(count(text) for text in sent)
        assert answer.tokens.completion == sum(
            count(part.text if isinstance(part, Text) else f"{part.name}\n{part.arguments}")
            for part in answer.message.parts
            if isinstance(part, Text | ToolCall)
        )


async def test_messages_are_counted_once() -> None:
    counted: list[str] = []

    def counter(text: str) -> int:
        counted.append(text)
        return len(text)

    model, messages = ExtractiveModel(counter), [UserMessage("What is tea?")]
    for _ in range(3):
        async for _event in model.stream(request(messages, RESEARCH)):
            pass
    assert counted.count("What is tea?") == 1
    other = await reply(request(messages, RESEARCH))
    assert other.tokens is not None
    assert other.tokens.prompt < sum(len(text) for text in counted)


async def test_the_same_request_gives_the_same_bytes() -> None:
    desk = Desk(SUPERVISE)
    await desk.ask("What is the difference between the kettle module and the teapot module?")
    for end in range(1, len(desk.messages)):
        once = await events(request(desk.messages[:end], SUPERVISE))
        assert repr(once) == repr(await events(request(desk.messages[:end], SUPERVISE)))


async def test_call_ids_occur_once() -> None:
    desk = Desk(RESEARCH)
    for _ in range(2):
        await desk.ask("What is the kettle module?")
    ids = [call.id for turn in desk.turns for call in turn.tool_calls]
    assert len(ids) == len(set(ids))


async def test_a_limit_on_the_answer_is_kept() -> None:
    desk = Desk(RESEARCH)
    await desk.ask("What is the kettle module?")
    answer = await reply(request(desk.messages[:-1], RESEARCH, max_output_tokens=25))
    assert answer.message.stop_reason == "length"
    assert answer.tokens is not None
    assert 0 < answer.tokens.completion <= 25


async def test_long_pages_do_not_hold_up_others() -> None:
    page = f"[s0123456789] Tea\nlib/tea\n\n{'Tea is brewed in a pot. ' * 8_000}"
    hit = {"id": "s0123456789", "title": "Tea", "location": "lib/tea", "snippet": "Tea is brewed in a pot."}
    messages: list[Message] = [UserMessage("How is tea brewed?")]
    answer = (await reply(request(messages, RESEARCH))).message
    messages.append(answer)
    found = json.dumps({"query": "", "results": [hit]})
    messages += [ToolMessage(call.id, call.name, found) for call in answer.tool_calls]
    answer = (await reply(request(messages, RESEARCH))).message
    messages.append(answer)
    messages += [ToolMessage(call.id, call.name, page) for call in answer.tool_calls]
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.005)
            beats += 1

    heart = asyncio.create_task(beat())
    await asyncio.wait_for(reply(request(messages, RESEARCH)), 20)
    heart.cancel()
    assert beats > 1


async def test_closing_twice_is_fine() -> None:
    model = ExtractiveModel(count)
    await model.close()
    await model.close()


@pytest.mark.parametrize("text", ["Tea\n", "tea [s0123456789] ", "- tea is paid\n", "a.", "```\n", "[", " ", "茶"])
async def test_long_odd_texts_take_no_long_time(text: str) -> None:
    text *= 60_000 // len(text)
    question: Message = UserMessage("When must tea be paid?")
    for name, head in (("fetch_page", "[s0123456789] Tea\nlib/tea\n\n"), ("web_search", ""), ("researcher", "")):
        call = ToolCall("1", name, '{"query": "When must tea be paid?"}')
        messages = [question, AssistantMessage((call,)), ToolMessage("1", name, head + text)]
        async with asyncio.timeout(5):
            await reply(request(messages, (), "none"))
            await reply(request(messages, SUPERVISE))
