"""Claude over the Messages API."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ...errors import ProviderError
from ..base import ModelEvent, ModelRequest, OutputSchema
from ..catalog import check_threshold
from ..catalog import max_output_tokens as default_output_limit
from ..http.encoding import RequestBody, ToolForms
from ..http.sdk_client import Endpoint, SdkModel, api_key, import_sdk
from ..http.time_limits import DEFAULT_DELTA, Timeouts
from .errors import sdk_errors, translate
from .reply import MessageReader
from .request import PROVIDER, request_body, tool_form

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


_BETA = "anthropic-beta"


class AnthropicModel(SdkModel["AsyncAnthropic"]):
    """A `Model` of Anthropic.

    *client* is an SDK client, also one for Bedrock, Vertex or Foundry; the model does not close it. Without a client,
    the key is *api_key* or `ANTHROPIC_API_KEY`. *timeout* is the longest silence in seconds, or `Timeouts`.
    *max_output_tokens* applies to requests that set no limit; its default is the model's maximum. *streams=False*
    requests whole answers, for networks that do not let streams through. The SDK's retries are off.

    From *compact_at* input tokens on (at least 50,000), Anthropic summarizes the conversation in the answer
    ("Compaction", beta, `compact_20260112`).

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(
        self,
        name: str,
        *,
        client: AsyncAnthropic | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | Timeouts = DEFAULT_DELTA,
        max_output_tokens: int | None = None,
        streams: bool = True,
        compact_at: int | None = None,
    ) -> None:
        sdk = import_sdk("anthropic", extra="anthropic")
        key = "" if client is not None else _key(api_key)
        endpoint = Endpoint("/v1/messages", sdk.AsyncAnthropic, sdk.DefaultAioHttpClient, key, base_url)
        super().__init__(name, PROVIDER, client, timeout, endpoint)
        self._streams = streams
        self._edits: list[dict[str, Any]] = []
        if compact_at is not None:
            at = {"type": "input_tokens", "value": check_threshold("compact_at", compact_at)}
            self._edits.append({"type": "compact_20260112", "trigger": at})
        self._output_limit = max_output_tokens or default_output_limit(PROVIDER, name)
        self._tools = ToolForms(tool_form)

    def takes_schema(self, schema: OutputSchema, *, tools: bool) -> bool:
        """Return whether the model accepts *schema*: Anthropic's schemas are always strict ("Structured outputs")."""
        return schema.strict and super().takes_schema(schema, tools=tools)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `Model.stream`."""
        if self._edits:
            extra = {"context_management": {"edits": self._edits}, **request.extra}
            betas = [*filter(None, [request.headers.get(_BETA)]), "compact-2026-01-12"]
            request = dataclasses.replace(request, extra=extra, headers={**request.headers, _BETA: ",".join(betas)})
        return super().stream(request)

    def _body(self, request: ModelRequest) -> RequestBody:
        return request_body(request, self._output_limit, self._tools, stream=self._streams)

    def _reader(self) -> MessageReader:
        return MessageReader()

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        return sdk_errors()

    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        return translate(error, begun=begun)


def _key(given: str | None) -> str:
    return api_key(given, "ANTHROPIC_API_KEY")
