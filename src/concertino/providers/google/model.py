"""Gemini over the Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ProviderError
from ..base import ModelRequest
from ..http.encoding import RequestBody, ToolForms
from ..http.sdk_client import api_key as find_key
from ..http.sdk_client import import_sdk
from ..http.time_limits import DEFAULT_DELTA, Timeouts
from ..http.transport import RawResponse, StreamingModel
from .errors import sdk_errors, translate
from .reply import ContentReader
from .request import PROVIDER, request_body, tool_form

if TYPE_CHECKING:
    from google.genai import Client

    from .bypass import SdkConnection


class GoogleModel(StreamingModel["SdkConnection"]):
    """A `Model` of Google.

    *client* is an SDK client, also one for Vertex AI; the model does not close it. Its chunks cost more, because they
    pass through the SDK's objects. Without a client, the key is *api_key*, `GEMINI_API_KEY` or `GOOGLE_API_KEY`.
    *timeout* is the longest silence in seconds, or `Timeouts`. *streams=False* requests whole answers. The SDK's
    retries are off.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | Timeouts = DEFAULT_DELTA,
        streams: bool = True,
    ) -> None:
        import_sdk("google.genai", extra="google")
        from . import bypass  # noqa: PLC0415 - its classes derive from the SDK's HTTP library

        super().__init__(name, PROVIDER, None if client is None else bypass.SdkConnection(client), timeout)
        self._bypass = bypass
        self._key = "" if client is not None else find_key(api_key, "GEMINI_API_KEY", "GOOGLE_API_KEY")
        self._base_url = base_url
        self._streams = streams
        self._tools = ToolForms(tool_form)

    def _connect(self) -> SdkConnection:
        return self._bypass.connect(self._key, self._base_url, self._limits.connect)

    async def _close(self, client: SdkConnection) -> None:
        await client.close()

    def _body(self, request: ModelRequest) -> RequestBody:
        return request_body(request, self._tools)

    async def _open(self, request: ModelRequest, data: bytes) -> RawResponse:
        return await self._client().post(request.model, data, request.headers, stream=self._streams)

    def _reader(self) -> ContentReader:
        return ContentReader()

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        return sdk_errors()

    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        return translate(error, begun=begun)
