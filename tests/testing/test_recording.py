"""Recording: streams, failures, and the clients of every cloud."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex
from google.genai import Client
from google.genai.types import HttpOptions
from google.oauth2.credentials import Credentials
from openai import AsyncAzureOpenAI

from concertino import Model
from concertino.errors import BrokenStreamError, ConfigurationError, ProviderConnectionError, ProviderError
from concertino.providers import TextChunk
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel
from concertino.testing import CassetteError, cassette, recording, replaying

from ..wire.wire_kit import MODELS, Server, events_of, reply_of, request, serving, sse
from .kit import ANSWER, CHAT, names_in, play, post, written

CLAUDE = sse(
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
RESPONSE: dict[str, Any] = {
    "model": "m",
    "status": "completed",
    "output": [{"type": "message", "id": "1", "content": [{"type": "output_text", "text": "Hello"}]}],
}
RESPONSES = sse({"type": "response.completed", "response": RESPONSE})
GEMINI = sse({"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}], "modelVersion": "m"})


@asynccontextmanager
async def azure(url: str) -> AsyncIterator[Model]:
    async with AsyncAzureOpenAI(api_key="azure-key-1", api_version="2025-01-01", azure_endpoint=url) as client:
        yield OpenAIModel("gpt-5", client=client, api="chat")


@asynccontextmanager
async def vertex_claude(url: str) -> AsyncIterator[Model]:
    async with AsyncAnthropicVertex(
        region="us-east5", project_id="project-of-ours", access_token="ya29.token-1", base_url=f"{url}/v1"
    ) as client:
        yield AnthropicModel("claude-sonnet-4-5", client=client)  # type: ignore[arg-type]


@asynccontextmanager
async def bedrock(url: str) -> AsyncIterator[Model]:
    async with AsyncAnthropicBedrock(api_key="bedrock-key-1", aws_region="us-east-1", base_url=url) as client:
        yield AnthropicModel("claude-sonnet-4-5", client=client, streams=False)  # type: ignore[arg-type]


@asynccontextmanager
async def vertex_gemini(url: str) -> AsyncIterator[Model]:
    client = Client(
        vertexai=True,
        project="project-of-ours",
        location="us-central1",
        credentials=Credentials("ya29.token-1"),  # type: ignore[no-untyped-call]
        http_options=HttpOptions(base_url=url),
    )
    try:
        yield GoogleModel("gemini-3-flash", client=client)
    finally:
        await client.aio.aclose()
        client.close()


@asynccontextmanager
async def own(kind: str, url: str) -> AsyncIterator[Model]:
    model = MODELS[kind](url)
    try:
        yield model
    finally:
        await model.close()


CLAUDE_WHOLE = {
    "type": "message", "model": "m", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}  # fmt: skip
STREAMS: dict[str, tuple[Any, Any]] = {
    "anthropic": (partial(own, "anthropic"), CLAUDE),
    "responses": (partial(own, "responses"), RESPONSES),
    "chat": (partial(own, "chat"), CHAT),
    "google": (partial(own, "google"), GEMINI),
    "azure": (azure, CHAT),
    "vertex_claude": (vertex_claude, CLAUDE),
    "vertex_gemini": (vertex_gemini, GEMINI),
    "bedrock": (bedrock, CLAUDE_WHOLE),
}


@pytest.mark.parametrize("kind", STREAMS)
async def test_every_client_is_recorded_and_replayed(kind: str, tmp_path: Path) -> None:
    made, body = STREAMS[kind]
    path = tmp_path / "case.json"
    async with serving() as server, made(server.url) as model:
        if isinstance(body, str):
            server.play(body)
        else:
            play(server, body)
        async with recording(path) as tape:
            heard = await events_of(model)
        assert len(tape.interactions) == len(server.asked) == 1
    assert reply_of(heard).message.text.startswith("Hello")
    found = written(path)
    assert found["complete"] is True
    assert found["interactions"][0]["response"]["body"] == (body if isinstance(body, str) else json.dumps(body))
    for secret in ("project-of-ours", "ya29", "azure-key", "bedrock-key"):
        assert secret not in path.read_text()
    async with made("http://127.0.0.1:9") as model, replaying(path, cuts="bytes"):  # a port without a listener
        assert reply_of(await events_of(model)) == reply_of(heard)


async def test_recording_does_not_buffer_a_stream(tmp_path: Path) -> None:
    """The server sends its next piece only after the reader has the previous one."""
    heard = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for piece in (b"data: one\n\n", b"data: two\n\n"):
            writer.write(piece)
            await writer.drain()
            await heard.wait()
            heard.clear()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    pieces = []
    async with (
        listener,
        recording(tmp_path / "case.json"),
        httpx2.AsyncClient() as client,
        client.stream("GET", url) as answer,
    ):
        async for piece in answer.aiter_bytes():
            pieces.append(piece)
            heard.set()
    assert pieces == [b"data: one\n\n", b"data: two\n\n"]
    assert written(tmp_path / "case.json")["interactions"][0]["response"]["body"] == "data: one\n\ndata: two\n\n"


async def test_a_broken_stream_is_recorded_up_to_the_break(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    begun = CHAT[: CHAT.index("lo ")]
    async with serving() as server:
        model = MODELS["chat"](server.url)
        server.play(begun, broken=True)
        async with recording(path):
            with pytest.raises(BrokenStreamError) as first:
                await events_of(model)
        await model.close()
    one = written(path)["interactions"][0]
    assert one["response"]["body"] == begun
    assert one["cut"]["error"] == "RemoteProtocolError"
    async with replaying(path):
        with pytest.raises(BrokenStreamError) as again:
            await events_of(model)
    await model.close()
    assert str(again.value) == str(first.value)
    assert again.value.partial == first.value.partial


async def test_a_closed_stream_is_recorded_as_cut(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    async with serving() as server:
        model = MODELS["chat"](server.url)
        server.play(CHAT, cuts=[CHAT.index("lo ")])
        async with recording(path):
            stream = model.stream(request())
            assert isinstance(await anext(stream), TextChunk)
            await stream.aclose()  # type: ignore[attr-defined]
        await model.close()
    one = written(path)["interactions"][0]
    assert one["cut"]["error"] == "closed"
    assert CHAT.startswith(one["response"]["body"])
    async with replaying(path):
        with pytest.raises(ProviderError, match="the recording ends here"):
            await events_of(model)
    await model.close()


async def test_a_cancelled_read_is_a_timeout_in_the_replay(tmp_path: Path) -> None:
    path, asked = tmp_path / "case.json", asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()  # until the other side hangs up
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        async with recording(path):
            waiting = asyncio.create_task(post(url, None))
            await asked.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
    assert written(path)["interactions"][0]["cut"]["error"] == "cancelled"
    async with replaying(path):
        with pytest.raises(httpx2.ReadTimeout):
            await post(url, None)


async def test_a_request_in_flight_at_the_end_is_recorded_as_cut(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    async with serving() as server, httpx2.AsyncClient() as client:
        server.play(CHAT)
        async with recording(path):
            answer = await client.send(client.build_request("POST", server.url, json={}), stream=True)
        assert (await answer.aread()).decode() == CHAT
    assert written(path)["interactions"][0]["cut"]["error"] == "closed"


async def test_a_failed_connection_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    model = MODELS["chat"]("http://127.0.0.1:9")
    async with recording(path):
        with pytest.raises(ProviderConnectionError) as first:
            await events_of(model)
    one = written(path)["interactions"][0]
    assert one["response"] is None
    assert one["cut"]["error"] == "ConnectError"
    async with replaying(path):
        with pytest.raises(ProviderConnectionError) as again:
            await events_of(model)
    await model.close()
    assert str(again.value) == str(first.value)


async def test_a_recording_of_a_failed_block_is_marked_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    async with serving() as server:
        play(server, ANSWER)
        with pytest.raises(ZeroDivisionError):
            async with recording(path):
                await post(server.url, {"a": 1})
                raise ZeroDivisionError("of the test")
    found = written(path)
    assert (found["complete"], found["why"]) == (False, "ZeroDivisionError: of the test")
    with pytest.raises(
        CassetteError, match=r"of 1 exchanges; it is incomplete, because its block raised ZeroDivisionError"
    ):
        async with replaying(path):
            await post("http://a.example/", {"a": 1})
            await post("http://a.example/", {"a": 2})


async def test_compressed_responses_are_recorded_decoded(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    async with serving() as server:
        server.play(gzip.compress(b'{"a": "\xc3\xbc"}'), headers={"content-encoding": "gzip"})
        server.play(b"\xff\x00", headers={"content-type": "application/octet-stream"})
        async with recording(path):
            assert (await post(server.url, {})).json() == {"a": "ü"}
            assert (await post(server.url, {})).content == b"\xff\x00"
    first, second = (one["response"] for one in written(path)["interactions"])
    assert first["body"] == '{"a": "ü"}'
    assert second["body_base64"] == "/wA="
    async with replaying(path):
        assert (await post("http://a.example/", {})).json() == {"a": "ü"}
        assert (await post("http://a.example/", {})).content == b"\xff\x00"


async def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "case.json"
    path.mkdir()
    async with serving() as server:
        play(server, ANSWER)
        with pytest.raises(CassetteError, match="cannot be written"):
            async with recording(path):
                await post(server.url, {})
    assert names_in(tmp_path) == ["case.json"]


async def test_a_recording_without_requests_raises(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="nothing was recorded"):
        async with recording(tmp_path / "case.json"):
            pass
    assert not (tmp_path / "case.json").exists()


async def test_requests_to_passing_hosts_are_not_recorded(tmp_path: Path) -> None:
    async with serving() as server:
        play(server, ANSWER)
        with pytest.raises(CassetteError, match="nothing was recorded"):
            async with recording(tmp_path / "case.json", passing=["127.0.0.1"]):
                assert (await post(server.url, {})).json() == ANSWER


async def test_a_second_active_cassette_raises(tmp_path: Path) -> None:
    real = httpx2.AsyncHTTPTransport.handle_async_request
    with pytest.raises(CassetteError, match="another cassette is active"):
        async with recording(tmp_path / "a.json"), recording(tmp_path / "b.json"):
            pass
    assert httpx2.AsyncHTTPTransport.handle_async_request is real


async def ask(server: Server, path: Path, mode: Any) -> str:
    async with cassette(path, record_mode=mode) as tape:
        await post(server.url, {})
    return tape.mode


async def test_the_record_mode_chooses_between_recording_and_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "case.json"
    async with serving() as server:
        for _ in range(3):
            play(server, ANSWER)
        with pytest.raises(CassetteError, match=r"no recording at .* CONCERTINO_RECORD_MODE=all"):
            await ask(server, path, None)
        assert await ask(server, path, "once") == "recording"
        assert await ask(server, path, "once") == "replaying"
        assert await ask(server, path, "all") == "recording"
        assert await ask(server, path, None) == "replaying"
        monkeypatch.setenv("CONCERTINO_RECORD_MODE", "all")
        assert await ask(server, path, None) == "recording"
        assert await ask(server, path, "none") == "replaying"
        assert len(server.asked) == 3
        monkeypatch.setenv("CONCERTINO_RECORD_MODE", "new")
        with pytest.raises(ConfigurationError, match="invalid record mode 'new'"):
            await ask(server, path, None)
