"""SDK clients for other clouds, passed in by the caller: address, key and answer."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest
from anthropic import (
    AsyncAnthropicAWS,
    AsyncAnthropicBedrock,
    AsyncAnthropicBedrockMantle,
    AsyncAnthropicFoundry,
    AsyncAnthropicVertex,
)
from google import genai
from google.auth.credentials import Credentials
from google.auth.exceptions import RefreshError
from google.genai import types
from openai import AsyncAzureOpenAI, AsyncOpenAI

from concertino.errors import AuthenticationError, ContextTooLongError, ProviderError, RateLimitError
from concertino.messages import ToolMessage, UserMessage
from concertino.providers import Model
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel

from . import test_wire_anthropic as anthropic
from . import test_wire_chat as chat
from . import test_wire_google as google
from . import test_wire_responses as responses
from .test_vendors import framed
from .wire_kit import Server, events_of, reply_of, request, serving


class Key(Credentials):
    """Credentials that need no server."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._broken = broken

    def refresh(self, request: Any) -> None:
        if self._broken:
            raise RefreshError("the account is gone")  # type: ignore[no-untyped-call]
        self.token = "from-the-credentials"


def vertex(url: str, key: Key | None = None) -> genai.Client:
    return genai.Client(
        vertexai=True, project="p", location="europe-west4", credentials=key or Key(),
        http_options=types.HttpOptions(base_url=url),
    )  # fmt: skip


async def token() -> str:
    return "from-entra"


@dataclass(frozen=True, slots=True)
class Cloud:
    """A client, its model, the requested path, and its answer."""

    label: str
    model: Callable[[str], Model]
    path: str
    key: tuple[str, str]
    body: str | bytes
    kind: str = "text/event-stream"


def claude(client: Any, name: str = "claude-sonnet-4-5") -> Model:
    return AnthropicModel(name, client=client)


def gpt(client: AsyncOpenAI, **how: Any) -> Model:
    return OpenAIModel("gpt-5", client=client, provider="azure", **how)


CLOUDS = (
    Cloud("Gemini on Vertex AI", lambda url: GoogleModel("gemini-3-flash", client=vertex(url)),
          "/v1beta1/projects/p/locations/europe-west4/publishers/google/models/gemini-3-flash:streamGenerateContent",
          ("authorization", "Bearer from-the-credentials"), google.FULL),
    Cloud("Azure OpenAI, Chat", lambda url: gpt(AsyncAzureOpenAI(
          api_key="k", api_version="2025-04-01-preview", azure_endpoint=url)),
          "/openai/deployments/gpt-5/chat/completions?api-version=2025-04-01-preview", ("api-key", "k"), chat.FULL),
    Cloud("Azure OpenAI, Responses", lambda url: gpt(AsyncAzureOpenAI(
          api_key="k", api_version="2025-04-01-preview", azure_endpoint=url), api="responses"),
          "/openai/responses?api-version=2025-04-01-preview", ("api-key", "k"), responses.FULL),
    Cloud("Azure OpenAI, Responses, signed by Entra", lambda url: gpt(AsyncAzureOpenAI(
          azure_ad_token_provider=token, api_version="v1", azure_endpoint=url), api="responses"),
          "/openai/responses?api-version=v1", ("authorization", "Bearer from-entra"), responses.FULL),
    Cloud("Azure's v1 address over the plain client", lambda url: gpt(
          AsyncOpenAI(api_key="k", base_url=f"{url}/openai/v1"), api="responses"),
          "/openai/v1/responses", ("authorization", "Bearer k"), responses.FULL),
    Cloud("Claude on Bedrock, by a key", lambda url: claude(AsyncAnthropicBedrock(
          api_key="k", aws_region="eu-west-1", base_url=url), "anthropic.claude-v1:0"),
          "/model/anthropic.claude-v1:0/invoke-with-response-stream", ("authorization", "Bearer k"),
          framed(anthropic.FULL), "application/vnd.amazon.eventstream"),
    Cloud("Claude on Vertex AI", lambda url: claude(AsyncAnthropicVertex(
          access_token="t", project_id="p", region="r", base_url=url)),
          "/projects/p/locations/r/publishers/anthropic/models/claude-sonnet-4-5:streamRawPredict",
          ("authorization", "Bearer t"), anthropic.FULL),
    Cloud("Claude on Azure's Foundry", lambda url: claude(AsyncAnthropicFoundry(api_key="k", base_url=url)),
          "/v1/messages", ("api-key", "k"), anthropic.FULL),
    Cloud("Claude on Bedrock's Messages API", lambda url: claude(AsyncAnthropicBedrockMantle(
          api_key="k", aws_region="eu-west-1", base_url=url)),
          "/v1/messages", ("authorization", "Bearer k"), anthropic.FULL),
    Cloud("Claude Platform on AWS, by a key", lambda url: claude(AsyncAnthropicAWS(
          api_key="k", workspace_id="w", aws_region="eu-west-1", base_url=url)),
          "/v1/messages", ("authorization", "Bearer k"), anthropic.FULL),
)  # fmt: skip


@asynccontextmanager
async def over(model: Model) -> AsyncIterator[Model]:
    """Yield *model*, and close the client at the end as its owner."""
    try:
        yield model
    finally:
        await model.close()
        given: Any = model._given  # type: ignore[attr-defined]
        if isinstance(model, GoogleModel):
            await given.client.aio.aclose()
            given.client.close()
        else:
            await given.close()


def same_path(asked: str, expected: str) -> bool:
    return asked.replace("%3A", ":").split("?alt")[0] == expected


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.label)
async def test_a_client_of_the_caller(cloud: Cloud) -> None:
    async with serving() as server, over(cloud.model(server.url)) as model:
        server.play(cloud.body, headers={"content-type": cloud.kind}, cuts=range(0, len(cloud.body), 50))
        message = reply_of(await events_of(model, request(model=model.name))).message
        results = [ToolMessage(call.id, call.name, "fine") for call in message.tool_calls]
        server.play(cloud.body, headers={"content-type": cloud.kind})
        await events_of(model, request(UserMessage("Hi"), message, *results, model=model.name))
    assert len(message.tool_calls) == 2
    first, second = server.asked
    assert same_path(first.path, cloud.path), first.path
    name, key = cloud.key
    assert first.headers[name] == key
    for call in message.tool_calls:
        assert call.id in json.dumps(second.body), "what was said goes back, as it does over our own client"
    assert len(server.asked) == 2, "nothing is sent twice"


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.label)
async def test_its_errors_are_translated(cloud: Cloud) -> None:
    slow = json.dumps({"error": {"type": "rate_limit_error", "message": "Slow", "code": 429}})
    kind = {"content-type": "application/json", "retry-after": "7"}
    async with serving() as server, over(cloud.model(server.url)) as model:
        server.play(slow, status=429, headers=kind)
        with pytest.raises(RateLimitError, match="Slow") as caught:
            await events_of(model, request(model=model.name))
        server.play(cloud.body[: len(cloud.body) // 2], headers={"content-type": cloud.kind}, broken=True)
        with pytest.raises(ProviderError) as broken:
            await events_of(model, request(model=model.name))
    assert caught.value.retry_after == 7.0
    assert broken.value.partial is not None
    assert len(server.asked) == 2


async def gemini(server: Server, **settings: Any) -> Any:
    async with over(GoogleModel("gemini-3-flash", client=vertex(server.url), **settings)) as model:
        return reply_of(await events_of(model, request(model=model.name)))


async def test_gemini_on_vertex_with_and_without_streaming() -> None:
    signature = base64.b64encode(b"signed").decode()
    parts = [
        {"text": "Hm.", "thought": True},
        {"functionCall": {"name": "weather", "args": {"city": "Bern"}}, "thoughtSignature": signature},
    ]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 16}
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {**usage, "trafficType": "ON_DEMAND"},
        "modelVersion": "gemini-3-flash",
    }
    async with serving() as server:
        server.play(f"data: {json.dumps(answer)}\r\n\r\n")
        streamed = await gemini(server)
        server.play(json.dumps(answer), headers={"content-type": "application/json"})
        whole = await gemini(server, streams=False)
    for reply in (streamed, whole):
        (call,) = reply.message.tool_calls
        assert (call.name, call.signature, json.loads(call.arguments)) == ("weather", signature, {"city": "Bern"})
        assert (reply.tokens.prompt, reply.tokens.completion, reply.tokens.reasoning) == (9, 7, 3)
    assert [asked.path.split(":")[-1].split("?")[0] for asked in server.asked] == [
        "streamGenerateContent",
        "generateContent",
    ]


async def test_errors_of_gemini_on_vertex() -> None:
    words = "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576)."
    async with serving() as server:
        refusal = json.dumps({"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}})
        server.play(refusal, status=400, headers={"content-type": "application/json"})
        with pytest.raises(ContextTooLongError):
            await gemini(server)
        async with over(GoogleModel("gemini-3-flash", client=vertex(server.url, Key(broken=True)))) as model:
            with pytest.raises(AuthenticationError, match="the account is gone"):
                await events_of(model, request(model=model.name))
    assert len(server.asked) == 1, "without a token nothing is sent"


@pytest.mark.skipif(find_spec("boto3") is not None, reason="boto3 is installed, which signs")
@pytest.mark.parametrize("client", [AsyncAnthropicBedrock, AsyncAnthropicBedrockMantle])
async def test_aws_signatures_need_boto3(client: Any) -> None:
    """`anthropic[bedrock]` brings boto3, which signs with AWS's keys; Bedrock's own API keys need nothing."""
    keys = {"aws_access_key": "a", "aws_secret_key": "s", "aws_region": "eu-west-1"}
    async with serving() as server:
        async with over(claude(client(**keys, base_url=server.url), "anthropic.claude-v1:0")) as model:
            with pytest.raises(AuthenticationError, match="could not be signed: No module named 'botocore'"):
                await events_of(model, request(model=model.name))
        assert server.asked == []
