"""GPT over the Responses API, and any model over Chat Completions."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from ...errors import ConfigurationError, MissingKeyError, ProviderError
from ..base import ModelRequest, OutputSchema
from ..catalog import check_threshold
from ..http.encoding import RequestBody, ToolForms
from ..http.reader import AnswerReader
from ..http.sdk_client import Endpoint, SdkModel, import_sdk
from ..http.sdk_client import api_key as find_key
from ..http.time_limits import DEFAULT_DELTA, Timeouts
from .chat import request as chat
from .chat.reply import ChatReader
from .chat.vendors import OPENAI, vendor_of
from .errors import sdk_errors, translate
from .responses import request as responses
from .responses.reply import ResponseReader

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Api = Literal["responses", "chat"]

_OPENAI_HOST = "api.openai.com"


class OpenAIModel(SdkModel["AsyncOpenAI"]):
    """A `Model` of OpenAI, or of a server with one of its APIs.

    *api* is `responses` or `chat`; the default is `responses` at api.openai.com, and `chat` if *base_url* (or
    `OPENAI_BASE_URL`, which the SDK reads) names another host. *provider* names that other server in records, prices
    and errors. *encrypted_reasoning* requests reasoning that can be sent back from the Responses API; the default is
    True for models known to reason. *client* is an SDK client, also one for Azure; the model does not close it. Without
    a client, the key is *api_key* or `OPENAI_API_KEY`; other servers may need none. *timeout* is the longest silence in
    seconds, or `Timeouts`. *streams=False* requests whole answers. The SDK's retries are off.

    From *compact_at* tokens on, the Responses API replaces the conversation by an encrypted item of its answer
    ("Compaction"); this needs `api="responses"`.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(  # noqa: PLR0913 - all are keyword-only settings
        self,
        name: str,
        *,
        client: AsyncOpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api | None = None,
        provider: str = "openai",
        timeout: float | Timeouts = DEFAULT_DELTA,
        encrypted_reasoning: bool | None = None,
        streams: bool = True,
        compact_at: int | None = None,
    ) -> None:
        sdk = import_sdk("openai", extra="openai")
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        url = str(client.base_url) if client is not None else base_url
        host = urlsplit(url).hostname or "" if url else _OPENAI_HOST
        self._api: Api = api or ("responses" if host == _OPENAI_HOST else "chat")
        path = "/responses" if self._api == "responses" else "/chat/completions"
        key = "" if client is not None else _key(api_key, host)
        endpoint = Endpoint(path, sdk.AsyncOpenAI, sdk.DefaultAioHttpClient, key, base_url)
        super().__init__(name, provider, client, timeout, endpoint)
        self._streams = streams
        if compact_at is not None and self._api != "responses":
            raise ConfigurationError(f"compact_at={compact_at!r} needs the Responses API: set api='responses'")
        self._compact_at = None if compact_at is None else check_threshold("compact_at", compact_at)
        self._vendor = vendor_of("" if provider == "openai" else provider, url or OPENAI.base_url)
        self._encrypted = responses.is_reasoning_model(name) if encrypted_reasoning is None else encrypted_reasoning
        self._tools = ToolForms(responses.tool_form if self._api == "responses" else chat.tool_form)

    def takes_schema(self, schema: OutputSchema, *, tools: bool) -> bool:
        """Return whether the model and the server's API accept *schema*."""
        return (self._api == "responses" or self._vendor.schemas) and super().takes_schema(schema, tools=tools)

    def _body(self, request: ModelRequest) -> RequestBody:
        if self._api == "responses":
            if self._compact_at is not None:
                edits = [{"type": "compaction", "compact_threshold": self._compact_at}]
                request = dataclasses.replace(request, extra={"context_management": edits, **request.extra})
            return responses.request_body(
                request, self.provider, self._tools, encrypted=self._encrypted, stream=self._streams
            )
        return chat.request_body(request, self._tools, self.provider, self._vendor, stream=self._streams)

    def _reader(self) -> AnswerReader:
        return ResponseReader(self.provider) if self._api == "responses" else ChatReader(self.provider, self._vendor)

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        return sdk_errors()

    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        return translate(error, self.provider, begun=begun)


def _key(given: str | None, host: str) -> str:
    try:
        return find_key(given, "OPENAI_API_KEY")
    except MissingKeyError:
        if host == _OPENAI_HOST:
            raise
        return "none"  # the SDK requires one; a local server does not
