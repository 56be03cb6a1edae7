"""The SDK as transport: connection, authentication, pool. Importing this module imports the SDK."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from anthropic import AsyncAnthropic


def connect(key: str, base_url: str | None, limit: float) -> AsyncAnthropic:
    """A client that sends nothing twice and may take *limit* seconds until a connection stands; all other limits are
    kept by whoever waits for it."""
    timeout = httpx2.Timeout(None, connect=limit, pool=limit)
    return AsyncAnthropic(api_key=key, base_url=base_url, timeout=timeout, max_retries=0)


async def send(client: AsyncAnthropic, data: bytes) -> httpx2.Response:
    """Post *data*; the response's body is not read yet.

    Through `client.post`, the SDK's documented door for requests of one's own making. Finished bytes spare its walk
    over the body; the clients of Bedrock and Vertex, which are of other types, read the model's name out of it.
    """
    door: dict[str, Any] = {"content": data} if type(client) is AsyncAnthropic else {"body": json.loads(data)}
    stream: bool = True  # the overload for a plain bool is the one that gives the response back
    response: httpx2.Response = await client.post(
        "/v1/messages",
        cast_to=httpx2.Response,
        stream=stream,
        options={"max_retries": 0, "timeout": client.timeout},
        **door,
    )
    return response
