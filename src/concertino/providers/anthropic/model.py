"""Claude over the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ProviderError
from ...extras import extra
from ..base import ModelRequest
from ..catalog import max_output_tokens as most_output
from ..http.encoding import Body, ToolForms
from ..http.transport import SILENCE, RawResponse, StreamingModel, Timeouts, key_from
from .reply import MessageReader
from .request import PROVIDER, request_body, tool_form

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class AnthropicModel(StreamingModel["AsyncAnthropic"]):
    """A `Model` of Anthropic.

    *client* is an SDK client of one's own (also that of Bedrock or Vertex); it is not closed here. Without one, the
    key is *api_key* or `ANTHROPIC_API_KEY`. *timeout* is the longest silence in seconds, or all `Timeouts`.
    *max_output_tokens* is the limit of a request that sets none; without it, it is the model's maximum. *streams*:
    False asks for whole answers, where nothing between here and there lets streams through. The SDK sends nothing
    twice.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(
        self,
        name: str,
        *,
        client: AsyncAnthropic | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | Timeouts = SILENCE,
        max_output_tokens: int | None = None,
        streams: bool = True,
    ) -> None:
        with extra("anthropic", "AnthropicModel"):
            from . import errors, sdk  # noqa: PLC0415
        super().__init__(name, PROVIDER, client, timeout)
        self._errors, self._sdk = errors, sdk
        self._key = "" if client is not None else key_from(api_key, "ANTHROPIC_API_KEY")
        self._base_url = base_url
        self._streams = streams
        self._most = max_output_tokens or most_output(PROVIDER, name)
        self._tools = ToolForms(tool_form)

    def _connect(self) -> AsyncAnthropic:
        return self._sdk.connect(self._key, self._base_url, self._limits.connect)

    async def _close(self, client: AsyncAnthropic) -> None:
        await client.close()

    def _body(self, request: ModelRequest) -> Body:
        return request_body(request, self._most, self._tools, stream=self._streams)

    async def _open(self, request: ModelRequest, data: bytes) -> RawResponse:
        return await self._sdk.send(self._client(), data)

    def _reader(self) -> MessageReader:
        return MessageReader()

    def _failures(self) -> tuple[type[Exception], ...]:
        return self._errors.FAILURES

    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        return self._errors.translate(error, begun=begun)
