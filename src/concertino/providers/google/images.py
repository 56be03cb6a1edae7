"""Images over the Gemini API, from models that answer with images."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ...errors import ContentFilteredError, ProviderError
from ...images import GeneratedImages, ImageShape
from ...messages import Media
from ...usage import Tokens
from ..http.sdk_client import api_key as find_key
from ..http.sdk_client import import_sdk
from .errors import sdk_errors, translate
from .request import PROVIDER

if TYPE_CHECKING:
    from google.genai import Client

_RATIOS: dict[ImageShape, str] = {"square": "1:1", "landscape": "3:2", "portrait": "2:3"}


class GoogleImages:
    """An `ImageBackend` over the Gemini API.

    *client* is an SDK client, also one for Vertex AI, which this object does not close. Without a client, the key is
    *api_key*, `GEMINI_API_KEY` or `GOOGLE_API_KEY`. The SDK's retries are off.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    provider = PROVIDER

    def __init__(
        self,
        name: str = "gemini-2.5-flash-image",
        *,
        client: Client | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> None:
        sdk = import_sdk("google.genai", extra="google")
        self.name = name
        self._http: Any = None
        self._client: Any = client
        if client is None:
            import httpx2  # noqa: PLC0415 - the SDK has loaded it by now

            key = find_key(api_key, "GEMINI_API_KEY", "GOOGLE_API_KEY")
            # The tool's time limit applies. A redirect is not followed: it would take the key to another server.
            self._http = httpx2.AsyncClient(timeout=None)
            options = sdk.types.HttpOptions(base_url=base_url, httpx_async_client=self._http)
            self._client = sdk.Client(api_key=key, vertexai=False, http_options=options)

    async def generate(self, prompt: str, shape: ImageShape) -> GeneratedImages:
        """Return images of *prompt*. Raises `ProviderError`."""
        config = {"response_modalities": ["TEXT", "IMAGE"], "image_config": {"aspect_ratio": _RATIOS[shape]}}
        try:
            answer = await self._client.aio.models.generate_content(model=self.name, contents=prompt, config=config)
        except sdk_errors() as error:
            raise translate(error, begun=False) from error
        except ValueError as error:  # pydantic's or that of JSON
            text = f"google: the answer is not one of the Gemini API: {error}"
            raise ProviderError(text, provider=PROVIDER) from error
        parts = [part for found in answer.candidates or () for part in (found.content and found.content.parts) or ()]
        blobs = [part.inline_data for part in parts if part.inline_data and part.inline_data.data and not part.thought]
        words = "".join(part.text or "" for part in parts if not part.thought).strip()
        if not blobs:
            raise ContentFilteredError(
                f"google: no image: {_reason(answer) or words or 'no reason'}", provider=PROVIDER
            )
        images = tuple([Media(blob.mime_type or "", data=base64.b64encode(blob.data).decode()) for blob in blobs])
        tokens = _tokens(answer.usage_metadata)
        return GeneratedImages(images=images, provider=PROVIDER, model=self.name, tokens=tokens, note=words)

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        if self._http is not None:
            await self._client.aio.aclose()
            self._client.close()
            await self._http.aclose()


def _reason(answer: Any) -> str:
    """Return why an answer is empty: the prompt was blocked, or the first candidate was."""
    if answer.prompt_feedback is not None and answer.prompt_feedback.block_reason is not None:
        return str(answer.prompt_feedback.block_reason.value)
    reasons = [str(found.finish_reason.value) for found in answer.candidates or () if found.finish_reason is not None]
    return reasons[0] if reasons and reasons[0] != "STOP" else ""


def _tokens(usage: Any) -> Tokens | None:
    if usage is None:
        return None
    reasoning = usage.thoughts_token_count or 0
    return Tokens(
        prompt=usage.prompt_token_count or 0,
        completion=(usage.candidates_token_count or 0) + reasoning,
        reasoning=reasoning,
    )
