"""Every recorded case is read and replayed: what is asked strictly through the SDKs' clients, what is answered through
the adapters, and both are what a server on this machine makes of it.

The recordings lie beside the repository. Without them these tests are skipped, and on CI they fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import APIStatusError as AnthropicStatusError
from anthropic import AsyncAnthropic
from openai import APIStatusError, AsyncOpenAI

from concertino import Model
from concertino.errors import ProviderError
from concertino.testing import replaying
from concertino.testing.case import Case, Interaction, Request, read_case

from ...wire.exchanges import KINDS
from ...wire.wire_kit import MODELS, Server, events_of, serving

FOLDERS = (
    "anthropic/messages", "anthropic/count_tokens", "openai/chat_completions", "openai/responses",
    "google/generateContent", "google/generateContent_vertex", "google/count_tokens",
    "openai_azure/chat_completions", "openai_azure/responses", "openai_compat/chat_completions",
    "openai_compat/responses",
)  # fmt: skip


def files(data: Path, folder: str) -> list[Path]:
    found = sorted((data / "provider-traffic" / folder).glob("*.json"))
    assert found
    return found


@asynccontextmanager
async def sending(provider: str) -> AsyncIterator[Any]:
    """A function that sends a request through the vendor's client, and gives status and body back."""
    if provider == "anthropic":
        client: Any = AsyncAnthropic(api_key="key", max_retries=0)
    elif provider == "google":
        client = httpx2.AsyncClient()
    else:
        client = AsyncOpenAI(api_key="key", max_retries=0)

    async def send(request: Request) -> tuple[int, bytes]:
        url = f"https://{request.host}{request.path}"
        body = b"{}" if request.body is None else request.body
        if provider == "google":
            response = await client.post(url, content=body)
            return response.status_code, response.content
        try:
            response = await client.post(url, content=body, cast_to=httpx2.Response, stream=True)
            return response.status_code, await response.aread()
        except (APIStatusError, AnthropicStatusError) as error:
            return error.response.status_code, await error.response.aread()

    try:
        yield send
    finally:
        await (client.aclose() if provider == "google" else client.close())


@pytest.mark.parametrize("folder", FOLDERS)
async def test_a_recorded_request_matches_itself(folder: str, data: Path) -> None:
    provider = folder.partition("/")[0]
    async with sending(provider) as send:
        for number, path in enumerate(files(data, folder)):
            async with replaying(path, cuts=number):
                for one in read_case(path).interactions:
                    assert one.response
                    assert await send(one.request) == (one.response.status, one.response.body), path.name


async def said(model: Model) -> str:
    """Return a model's whole answer or its error. Calls without an id get an invented one."""
    try:
        found: Any = await events_of(model)
    except ProviderError as error:
        found = type(error), str(error), error.status, error.partial
    return re.sub(r"\bcall_[0-9a-f]{24}\b", "call_", repr(found))


def played(server: Server, one: Interaction) -> None:
    """The answer, at the server."""
    assert one.response
    dropped = {"content-encoding", "content-length", "transfer-encoding", "connection"}
    headers = {name.lower(): value for name, value in one.response.headers if name.lower() not in dropped}
    stream = one.response.body[:6].startswith((b"data:", b"event:"))
    headers.setdefault("content-type", "text/event-stream" if stream else "application/json")
    server.play(one.response.body, status=one.response.status, headers=headers)


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder.split("/")[1] in KINDS])
async def test_a_replayed_response_is_parsed_like_the_recorded_one(folder: str, data: Path) -> None:
    make = MODELS[KINDS[folder.split("/")[1]]]
    async with serving() as server:
        replies = total = 0
        here, there = make(server.url), make("https://recorded.example")
        for number, path in enumerate(files(data, folder)):
            case: Case = read_case(path)
            expected = []
            for one in case.interactions:
                played(server, one)
                expected.append(await said(here))
            total += len(expected)
            replies += sum("Reply(" in text for text in expected)
            async with replaying(path, match="none", cuts=(number, "events")[number % 2]):
                assert [await said(there) for _ in case.interactions] == expected, path.name
        await here.close()
        await there.close()
    assert replies > total * 0.7


async def test_a_written_case_is_read_unchanged(data: Path, tmp_path: Path) -> None:
    from concertino.testing.case import as_json, write_json

    for folder in FOLDERS:
        for path in files(data, folder)[::8]:
            case = read_case(path)
            for one in case.interactions:
                assert one.response
                one.request.headers = [(name.lower(), value) for name, value in one.request.headers]
                one.response.headers = [(name.lower(), value) for name, value in one.response.headers]
            write_json(tmp_path / path.name, as_json(case, path.stem))
            again = read_case(tmp_path / path.name)
            assert again == case
            assert json.loads((tmp_path / path.name).read_text())["case"] == path.stem
