"""Gemini over the Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ProviderError
from ...extras import extra
from ..base import ModelRequest
from ..http.encoding import Body, ToolForms
from ..http.transport import SILENCE, RawResponse, StreamingModel, Timeouts, key_from
from .reply import ContentReader
from .request import PROVIDER, request_body, tool_form

if TYPE_CHECKING:
    from google.genai import Client

    from .sdk import Connection


class GoogleModel(StreamingModel["Connection"]):
    """A `Model` of Google.

    *client* is an SDK client of one's own (also for Vertex AI); it is not closed here, and its chunks cost more,
    because they come as the SDK's objects. Without one, the key is *api_key*, `GEMINI_API_KEY` or `GOOGLE_API_KEY`.
    *timeout* is the longest silence in seconds, or all `Timeouts`. *streams*: False asks for whole answers. The SDK
    sends nothing twice.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | Timeouts = SILENCE,
        streams: bool = True,
    ) -> None:
        with extra("google", "GoogleModel"):
            from . import errors, sdk  # noqa: PLC0415
        super().__init__(name, PROVIDER, None if client is None else sdk.Connection(client), timeout)
        self._errors, self._sdk = errors, sdk
        self._key = "" if client is not None else key_from(api_key, "GEMINI_API_KEY", "GOOGLE_API_KEY")
        self._base_url = base_url
        self._streams = streams
        self._tools = ToolForms(tool_form)

    def _connect(self) -> Connection:
        return self._sdk.connect(self._key, self._base_url, self._limits.connect)

    async def _close(self, client: Connection) -> None:
        await client.close()

    def _body(self, request: ModelRequest) -> Body:
        return request_body(request, self._tools)

    async def _open(self, request: ModelRequest, data: bytes) -> RawResponse:
        return await self._sdk.send(self._client(), request.model, data, stream=self._streams)

    def _reader(self) -> ContentReader:
        return ContentReader()

    def _failures(self) -> tuple[type[Exception], ...]:
        return self._errors.FAILURES

    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        return self._errors.translate(error, begun=begun)
