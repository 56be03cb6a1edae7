"""Image generation through the SDKs of OpenAI and Google, against a server on the loopback address."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Resources, RunResult, Scope, ToolContext, ToolOrchestrator, ToolRegistry
from concertino.errors import (
    AuthenticationError,
    ContentFilteredError,
    MissingKeyError,
    ProviderError,
    RateLimitError,
)
from concertino.messages import Media
from concertino.providers.google import GoogleImages
from concertino.providers.openai import OpenAIImages
from concertino.testing import ScriptedModel, call
from concertino.tools.builtin import GeneratedImages, ImageBackend, ImageShape, image_generation
from concertino.usage import Tokens
from tests.unit.tools.web_server import Reply, WebServer

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n a cat").decode()
GOOGLE_PATH = "/v1/models/gemini-2.5-flash-image:generateContent"


@pytest.fixture
def server() -> Iterator[WebServer]:
    """A server without replies."""
    with WebServer() as running:
        yield running


def openai_reply(**more: Any) -> Reply:
    """Return an answer of OpenAI's Images API, in the form of its documentation."""
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"text_tokens": 50, "image_tokens": 0},
        "output_tokens": 1056,
        "total_tokens": 1106,
    }
    body = {"created": 1713833628, "data": [{"b64_json": PNG}], "output_format": "png", "usage": usage, **more}
    return Reply(json.dumps(body).encode(), "application/json")


def google_reply(*parts: Any, **more: Any) -> Reply:
    """Return an answer of the Gemini API, in the form of its documentation."""
    usage = {"promptTokenCount": 8, "candidatesTokenCount": 1290, "totalTokenCount": 1298}
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", "index": 0}
    body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash-image", **more}
    return Reply(json.dumps(body).encode(), "application/json")


async def painted(backend: Any, **arguments: Any) -> tuple[RunResult, Any]:
    """Return the result of a run with one call, and its message."""
    with ScriptedModel(call("image_generation", prompt="a cat", **arguments), "Here.") as model:
        chat = Chat("paint", model=model, scope=Scope("acme", "ann"))
        result = await ToolOrchestrator(
            chat, AgentConfig(), ToolRegistry([image_generation(backend)]), resources=Resources()
        ).run()
    return result, result.messages[2]


async def test_openai_images(server: WebServer) -> None:
    """The request has the SDK's form; the image is the result's media, and its tokens are booked."""
    server.replies["/v1/images/generations"] = openai_reply()
    backend = OpenAIImages(api_key="k-1", base_url=f"{server.url}/v1", quality="low")
    result, message = await painted(backend, shape="landscape")
    await backend.close()
    (request,) = server.requests
    assert json.loads(request.body) == {
        "model": "gpt-image-1",
        "prompt": "a cat",
        "size": "1536x1024",
        "quality": "low",
    }
    assert request.headers["authorization"] == "Bearer k-1"
    image = Media("image/png", PNG)
    assert message.media == (image,)
    assert result.data["image_generation"] == {
        "images": [{"media_type": "image/png", "digest": image.digest, "url": None}],
        "model": "gpt-image-1",
    }
    (booked,) = [record for record in result.usage if record.tools == ("image_generation",) and record.model[0] == "g"]
    assert (booked.provider, booked.model, booked.tokens) == ("openai", "gpt-image-1", Tokens(50, 1056))


async def test_google_images(server: WebServer) -> None:
    """The request has the SDK's form; thoughts are not shown, and the model's words are a note."""
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    server.replies[GOOGLE_PATH] = google_reply({"text": "hm", "thought": True}, {"text": "A cat."}, image)
    backend = GoogleImages(api_key="k-2", base_url=server.url)
    result, message = await painted(backend, shape="portrait")
    await backend.close()
    (request,) = server.requests
    sent = json.loads(request.body)
    assert sent["contents"] == [{"parts": [{"text": "a cat"}], "role": "user"}]
    assert sent["generationConfig"]["responseModalities"] == ["TEXT", "IMAGE"]
    assert sent["generationConfig"]["imageConfig"] == {"aspectRatio": "2:3"}
    assert request.headers["x-goog-api-key"] == "k-2"
    assert message.media == (Media("image/png", PNG),)
    assert "A cat." in message.content
    assert "hm" not in message.content
    (booked,) = [record for record in result.usage if record.provider == "google"]
    assert booked.tokens == Tokens(8, 1290)


async def test_the_backend_of_a_tenant(server: WebServer) -> None:
    """A function chooses the backend, and so the key, by scope."""
    server.replies["/v1/images/generations"] = openai_reply()
    backends = {"acme": OpenAIImages(api_key="k-acme", base_url=f"{server.url}/v1")}

    def of_tenant(context: ToolContext) -> ImageBackend:
        return backends[context.scope.tenant]

    await painted(of_tenant)
    await backends["acme"].close()
    assert server.requests[0].headers["authorization"] == "Bearer k-acme"


@pytest.mark.parametrize(("status", "kind"), [(401, AuthenticationError), (429, RateLimitError)])
async def test_errors_are_those_of_the_providers(server: WebServer, status: int, kind: type[Exception]) -> None:
    """A failure is translated, is not retried, and is read by the model."""
    body = json.dumps({"error": {"message": "no", "code": status, "status": "X"}}).encode()
    for path in ("/v1/images/generations", GOOGLE_PATH):
        server.replies[path] = Reply(body, "application/json", status)
    for backend in (
        OpenAIImages(api_key="k", base_url=f"{server.url}/v1"),
        GoogleImages(api_key="k", base_url=server.url),
    ):
        with pytest.raises(kind):
            await backend.generate("a cat", "square")
        _, message = await painted(backend)
        assert message.is_error
        assert kind.__name__ in message.content
        await backend.close()
        await backend.close()
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "booked"), [(400, []), (429, []), (503, []), (500, ["unknown"]), (502, ["unknown"])]
)
async def test_a_failed_call_is_booked_unless_the_provider_refused_it(
    server: WebServer, status: int, booked: list[str]
) -> None:
    """After a gateway's error the images may have been made and billed."""
    body = json.dumps({"error": {"message": "no", "code": status, "status": "X"}}).encode()
    server.replies["/v1/images/generations"] = Reply(body, "application/json", status)
    backend = OpenAIImages(api_key="k", base_url=f"{server.url}/v1")
    result, message = await painted(backend)
    await backend.close()
    assert message.is_error
    records = [record for record in result.usage if record.provider == "openai"]
    assert [record.source for record in records] == booked
    assert {record.model for record in records} <= {"gpt-image-1"}


async def test_a_call_that_never_left_is_not_booked(server: WebServer) -> None:
    """Nobody listens at the address."""
    backend = OpenAIImages(api_key="k", base_url="http://127.0.0.1:1/v1")
    result, message = await painted(backend)
    await backend.close()
    assert message.is_error
    assert [record for record in result.usage if record.provider == "openai"] == []


async def test_a_call_that_is_stopped_is_booked() -> None:
    """The endpoint makes the image all the same."""
    asked = asyncio.Event()

    class Slow:
        provider, name = "openai", "gpt-image-1"

        async def generate(self, prompt: str, shape: ImageShape) -> GeneratedImages:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    model = ScriptedModel(call("image_generation", prompt="a cat"))
    chat = Chat("paint", model=model, scope=Scope("acme", "ann"))
    orchestrator = ToolOrchestrator(chat, AgentConfig(), ToolRegistry([image_generation(Slow())]))
    run = asyncio.create_task(orchestrator.run())
    await asked.wait()
    orchestrator.stop()
    with suppress(asyncio.CancelledError):
        await run
    assert orchestrator.result is not None
    (record,) = [record for record in orchestrator.result.usage if record.provider == "openai"]
    assert (record.source, record.tools) == ("unknown", ("image_generation",))


async def test_a_refused_image_names_the_reason(server: WebServer) -> None:
    """An answer without an image is an error that says why, in both forms."""
    server.replies[GOOGLE_PATH] = google_reply(promptFeedback={"blockReason": "PROHIBITED_CONTENT"})
    server.replies["/v1/images/generations"] = openai_reply(data=[])
    google = GoogleImages(api_key="k", base_url=server.url)
    with pytest.raises(ContentFilteredError, match="PROHIBITED_CONTENT"):
        await google.generate("x", "square")
    server.replies[GOOGLE_PATH] = google_reply({"text": "I cannot paint this."})
    with pytest.raises(ContentFilteredError, match="I cannot paint this"):
        await google.generate("x", "square")
    await google.close()
    openai = OpenAIImages(api_key="k", base_url=f"{server.url}/v1")
    with pytest.raises(ContentFilteredError, match="no image"):
        await openai.generate("x", "square")
    await openai.close()


GARBAGE: list[Reply] = [
    Reply(b"<html>", "text/html"),
    *[Reply(body, "application/json") for body in (b"{{{", b"", b"null", b"[]", b'"x"')],
    *[openai_reply(data=data) for data in ("x", [1], [None])],
    *[google_reply(part) for part in ("x", {"inlineData": {"mimeType": "image/png", "data": "$$$"}})],
    google_reply({"inlineData": {"mimeType": "image/png"}}),
]


@pytest.mark.parametrize("reply", GARBAGE)
async def test_an_answer_in_another_form_is_an_error_of_the_provider(server: WebServer, reply: Reply) -> None:
    """Whatever arrives, the caller gets a `ProviderError`."""
    server.replies["/v1/images/generations"] = server.replies[GOOGLE_PATH] = reply
    for backend in (
        OpenAIImages(api_key="k", base_url=f"{server.url}/v1"),
        GoogleImages(api_key="k", base_url=server.url),
    ):
        with pytest.raises(ProviderError):
            await backend.generate("a cat", "square")
        await backend.close()


@pytest.mark.parametrize(
    "reply",
    [
        openai_reply(data=[{}]),
        openai_reply(data=[{"b64_json": "$$$"}]),
        openai_reply(data=[{"b64_json": 5}]),
        openai_reply(data=[{"b64_json": PNG}] * 11),
        openai_reply(data=[{"url": "javascript:alert(1)"}]),
        openai_reply(data=[{"url": "file:///etc/passwd"}]),
        openai_reply(output_format="png\r\nx: y"),
    ],
)
async def test_what_is_no_image_is_an_error_and_is_paid(server: WebServer, reply: Reply) -> None:
    """The model does not read that an image was created, the product gets no media, and the tokens are booked."""
    server.replies["/v1/images/generations"] = reply
    backend = OpenAIImages(api_key="k", base_url=f"{server.url}/v1")
    result, message = await painted(backend)
    await backend.close()
    assert (message.is_error, message.media, result.data) == (True, (), {})
    assert [record.tokens for record in result.usage if record.provider == "openai"] == [Tokens(50, 1056)]


async def test_a_page_is_no_image(server: WebServer) -> None:
    """The type that the provider names decides."""
    server.replies[GOOGLE_PATH] = google_reply({"inlineData": {"mimeType": "text/html", "data": PNG}})
    backend = GoogleImages(api_key="k", base_url=server.url)
    _, message = await painted(backend)
    await backend.close()
    assert (message.is_error, message.media) == (True, ())


@pytest.mark.parametrize("usage", [None, "x", {}, {"input_tokens": "many", "output_tokens": 1}])
async def test_usage_that_is_not_reported_is_unknown(server: WebServer, usage: Any) -> None:
    """An image without counts is on the ledger all the same."""
    server.replies["/v1/images/generations"] = openai_reply(usage=usage)
    backend = OpenAIImages(api_key="k", base_url=f"{server.url}/v1")
    result, message = await painted(backend)
    await backend.close()
    assert not message.is_error
    (record,) = [record for record in result.usage if record.provider == "openai"]
    assert (record.source, record.tokens) == ("unknown", Tokens())


def test_a_key_is_needed() -> None:
    """The error names the environment variables."""
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        OpenAIImages()
    with pytest.raises(MissingKeyError, match="GEMINI_API_KEY"):
        GoogleImages()
