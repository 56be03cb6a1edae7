"""GPT over the Responses API, and any model over Chat Completions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from ...errors import MissingKeyError, ProviderError
from ...extras import extra
from ..base import ModelRequest
from ..http.encoding import Body, ToolForms
from ..http.transport import SILENCE, RawResponse, Reader, StreamingModel, Timeouts, key_from
from .chat import request as chat_request
from .chat.reply import ChatReader
from .chat.vendors import OPENAI, vendor_of
from .responses import request as responses
from .responses.reply import ResponseReader

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Api = Literal["responses", "chat"]

_OWN = ("api.openai.com", ".openai.azure.com")
"""Where OpenAI's own models answer, who take no `max_tokens`."""


class OpenAIModel(StreamingModel["AsyncOpenAI"]):
    """A `Model` of OpenAI, or of a server that speaks its formats.

    *api* is `responses` or `chat`; by default `responses` at api.openai.com and `chat` where a *base_url* leads
    elsewhere (or `OPENAI_BASE_URL`, which the SDK reads). *provider* names that other server in records, prices and
    errors. *encrypted_reasoning* asks the Responses API for reasoning that can be sent back; by default for models
    known to reason. *client* is an SDK client of one's own (also Azure's); it is not closed here. Without one, the
    key is *api_key* or `OPENAI_API_KEY`; another server may do without. *timeout* is the longest silence in seconds, or
    all `Timeouts`. *streams*: False asks for whole answers. The SDK sends nothing twice.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own
        self,
        name: str,
        *,
        client: AsyncOpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api | None = None,
        provider: str = "openai",
        timeout: float | Timeouts = SILENCE,
        encrypted_reasoning: bool | None = None,
        streams: bool = True,
    ) -> None:
        with extra("openai", "OpenAIModel"):
            from . import errors, sdk  # noqa: PLC0415
        super().__init__(name, provider, client, timeout)
        self._errors, self._sdk = errors, sdk
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        url = str(client.base_url) if client is not None else self._base_url
        host = urlsplit(url).hostname or "" if url else _OWN[0]
        self._key = "" if client is not None else _key(api_key, host)
        self._streams = streams
        self._api: Api = api or ("responses" if host == _OWN[0] else "chat")
        self._vendor = vendor_of("" if provider == "openai" else provider, url or OPENAI.base_url)
        self._encrypted = responses.reasons(name) if encrypted_reasoning is None else encrypted_reasoning
        self._tools = ToolForms(responses.tool_form if self._api == "responses" else chat_request.tool_form)

    def _connect(self) -> AsyncOpenAI:
        return self._sdk.connect(self._key, self._base_url, self._limits.connect)

    async def _close(self, client: AsyncOpenAI) -> None:
        await client.close()

    def _body(self, request: ModelRequest) -> Body:
        if self._api == "responses":
            return responses.request_body(
                request, self.provider, self._tools, encrypted=self._encrypted, stream=self._streams
            )
        return chat_request.request_body(request, self._tools, self.provider, self._vendor, stream=self._streams)

    async def _open(self, request: ModelRequest, data: bytes) -> RawResponse:
        path = "/responses" if self._api == "responses" else "/chat/completions"
        return await self._sdk.send(self._client(), path, data)

    def _reader(self) -> Reader:
        return ResponseReader(self.provider) if self._api == "responses" else ChatReader(self.provider)

    def _failures(self) -> tuple[type[Exception], ...]:
        return self._errors.FAILURES

    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        return self._errors.translate(error, self.provider, begun=begun)


def _key(given: str | None, host: str) -> str:
    try:
        return key_from(given, "OPENAI_API_KEY")
    except MissingKeyError:
        if host == _OWN[0]:
            raise
        return "none"  # the SDK wants one; a server at home asks for none
