"""The `openai` package for Python reads the server's Chat Completions and Responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from concertino import MemoryStore, Scope
from concertino.events import RunEnded, RunEvent
from concertino.testing.conformance import SCENARIOS

from .app import runtime_on, served

MODEL = "conformance"
ENDLESS = ("stop", "resume")
TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest.fixture
async def client(base: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="ann", max_retries=0) as opened:
        yield opened


def say(content: Any) -> Any:
    return [{"role": "user", "content": content}]


async def streamed(client: openai.AsyncOpenAI, content: str) -> str:
    text = ""
    async for chunk in await client.chat.completions.create(model=MODEL, messages=say(content), stream=True):
        for choice in chunk.choices:
            assert not choice.delta.tool_calls
            text += choice.delta.content or ""
    return text


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each not in (*ENDLESS, "broken")])
async def test_all_ways_of_asking_give_one_answer(scenario: str, client: openai.AsyncOpenAI) -> None:
    content = f"conform:{scenario}"
    if scenario.startswith("error"):
        with pytest.raises(openai.InternalServerError, match="the run failed: run_"):
            await client.chat.completions.create(model=MODEL, messages=say(content))
        with pytest.raises(openai.APIError, match="the run failed: run_"):
            await streamed(client, content)
        assert (await client.responses.create(model=MODEL, input=content)).status == "failed"
        return
    whole = (await client.chat.completions.create(model=MODEL, messages=say(content))).choices[0]
    assert (whole.message.content, whole.finish_reason) == (await streamed(client, content), "stop")
    response = await client.responses.create(model=MODEL, input=content)
    async with client.responses.stream(model=MODEL, input=content) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert (final.status, kinds[-1]) == ("completed", "response.completed")
    assert [item.type for item in final.output] == [item.type for item in response.output]
    assert final.output_text == response.output_text
    assert (final.usage.total_tokens, whole.message.role) == (response.usage.total_tokens, "assistant")


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["conformance", "conformance_typed", "tasks"]
    assert (await client.models.retrieve("tasks")).owned_by == "concertino"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'") as caught:
        await client.models.retrieve("gpt")
    assert caught.value.code == "model_not_found"
    title = await client.chat.completions.create(model="tasks", messages=say("Title?"))
    assert title.choices[0].message.content == "You said: Title?"


async def test_the_history_is_the_clients(client: openai.AsyncOpenAI) -> None:
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one"}, IMAGE]},
        {"role": "assistant", "content": "two"},
        {"role": "tool", "tool_call_id": "x", "content": "ignored"},
        {"role": "user", "content": [{"type": "text", "text": "conform:media"}, IMAGE]},
    ]
    answer = await client.chat.completions.create(model=MODEL, messages=messages)
    assert answer.choices[0].message.content.startswith("Received: image image/png")
    items: Any = [{"role": "user", "content": [{"type": "input_text", "text": "conform:media"}]}]
    items[0]["content"].append({"type": "input_image", "image_url": IMAGE["image_url"]["url"]})  # type: ignore[index]
    items[0]["content"].append({"type": "input_file", "file_data": "data:text/plain,hi", "filename": "a.txt"})
    response = await client.responses.create(model=MODEL, input=items, instructions="Be brief.")
    assert response.output_text == "Received: image image/png, document text/plain"
    audio: Any = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    answer = await client.chat.completions.create(
        model=MODEL, messages=say([{"type": "text", "text": "conform:media"}, audio])
    )
    assert answer.choices[0].message.content.startswith("Received: audio audio/wav")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"messages": []}, "the last message must be the user's"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the last message must be the user's"),
        ({"messages": say([{"type": "video"}])}, "content of the type 'video' is not supported"),
        ({"messages": say([{"type": "image_url", "image_url": "ftp://x"}])}, "a file must be a data: or an https:"),
        ({"messages": say([{"type": "image_url", "image_url": "data:image/png;base64,?"}])}, "is not base64"),
        ({"messages": say("x"), "tools": [TOOL], "tool_choice": "required"}, "'tool_choice' requires a call"),
    ],
)
async def test_bad_requests(settings: dict[str, Any], error: str, client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=error):
        await client.chat.completions.create(model=MODEL, **settings)


async def test_tools_of_the_client_are_never_called(client: openai.AsyncOpenAI) -> None:
    """Open WebUI sends its own tools with each message."""
    answer = await client.chat.completions.create(
        model=MODEL, messages=say("conform:parallel"), tools=[TOOL], tool_choice="auto"
    )
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content.endswith("found tea; found cake")


async def test_the_same_idempotency_key_is_the_same_run(client: openai.AsyncOpenAI) -> None:
    header = {"Idempotency-Key": "m1"}
    first = await client.responses.create(model=MODEL, input="conform:text", extra_headers=header)
    again = await client.responses.create(model=MODEL, input="conform:text", extra_headers=header)
    assert (first.id, first.output_text) == (again.id, again.output_text)


async def test_responses_belong_to_their_user(client: openai.AsyncOpenAI) -> None:
    created = await client.responses.create(model=MODEL, input="conform:parallel")
    found = await client.responses.retrieve(created.id)
    assert (found.output, found.usage) == (created.output, created.usage)
    other = client.with_options(api_key="bob")
    with pytest.raises(openai.NotFoundError):
        await other.responses.retrieve(created.id)
    with pytest.raises(openai.NotFoundError):
        await other.responses.cancel(created.id)


async def test_a_response_is_streamed_again(client: openai.AsyncOpenAI) -> None:
    events = await client.responses.create(model=MODEL, input="conform:parallel", stream=True)
    first = [event async for event in events]
    found = await client.responses.retrieve(first[0].response.id, stream=True)
    again: list[Any] = [event async for event in found]
    assert (again[0].type, again[-1].type) == ("response.created", "response.completed")
    assert [each.sequence_number for each in again] == list(range(len(again)))
    assert again[-1].response.output == first[-1].response.output
    text = "".join(each.delta for each in again if each.type == "response.output_text.delta")
    assert text == first[-1].response.output_text
    with pytest.raises(openai.BadRequestError, match="leave it out"):
        await client.responses.retrieve(first[0].response.id, stream=True, starting_after=1)
    with pytest.raises(openai.NotFoundError):
        await client.with_options(api_key="bob").responses.retrieve(first[0].response.id, stream=True)


async def test_an_answer_that_has_waited_ends_once() -> None:
    runtime, ann, key = runtime_on(MemoryStore()), Scope("acme", "ann"), {"Idempotency-Key": "run_that_waits_once"}
    async with served(runtime) as base, openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="ann") as client:
        first = await client.responses.create(model=MODEL, input="conform:approval", extra_headers=key)
        assert "waits for an approval" in first.output_text
        (wait,) = await runtime.approvals(ann)
        await runtime.approve(ann, wait.key)
        (_,) = [event async for event in runtime.events(ann, wait.run_id) if is_over(event[1])]
        found: list[Any] = [event async for event in await client.responses.retrieve(first.id, stream=True)]
        assert [event.type for event in found].count("response.completed") == 1
        final = found[-1].response
        assert final.output == (await client.responses.retrieve(first.id)).output
        assert [item.status for item in final.output] == ["completed"] * len(final.output)
        assert "waits for" not in final.output_text
        chunks = await client.chat.completions.create(
            model=MODEL, messages=say("conform:approval"), stream=True, extra_headers=key
        )
        ends = [choice.finish_reason async for chunk in chunks for choice in chunk.choices if choice.finish_reason]
        assert ends == ["stop"]


def is_over(event: RunEvent) -> bool:
    return isinstance(event, RunEnded) and event.agent_path == MODEL and event.result.status == "completed"


async def test_cancel_stops_a_run(client: openai.AsyncOpenAI) -> None:
    events = await client.responses.create(model=MODEL, input="conform:stop", stream=True)
    id = ""
    async for event in events:
        if event.type == "response.created":
            id = event.response.id
        elif event.type == "response.output_text.delta" and (await client.responses.retrieve(id)).status != "cancelled":
            assert (await client.responses.retrieve(id)).status == "in_progress"
            assert (await client.responses.cancel(id)).status == "cancelled"
    assert event.type == "response.failed"
    assert event.response.status == "cancelled"
    assert event.response.output_text.startswith("word0 ")
