"""Images over OpenAI's Images API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ContentFilteredError, ProviderError
from ...images import GeneratedImages, ImageShape
from ...messages import Media
from ...usage import Tokens
from ..http.sdk_client import Endpoint, import_sdk
from ..http.sdk_client import api_key as find_key
from .errors import sdk_errors, translate

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_CONNECT = 10.0
"""Seconds to connect; the tool limits the rest."""
_SIZES: dict[ImageShape, str] = {"square": "1024x1024", "landscape": "1536x1024", "portrait": "1024x1536"}


class OpenAIImages:
    """An `ImageBackend` over OpenAI's Images API.

    *client* is an SDK client, also one for Azure, which this object does not close. Without a client, the key is
    *api_key* or `OPENAI_API_KEY`. *options* are further arguments of `client.images.generate`, such as
    `quality="low"`. *provider* names another server in records, prices and errors. The SDK's retries are off.

    Raises `MissingExtraError` without the SDK and `MissingKeyError` without a key.
    """

    def __init__(
        self,
        name: str = "gpt-image-1",
        *,
        client: AsyncOpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        provider: str = "openai",
        **options: Any,
    ) -> None:
        sdk = import_sdk("openai", extra="openai")
        self.name = name
        self.provider = provider
        self._own = client is None
        self._client: Any = client
        key = "" if client is not None else find_key(api_key, "OPENAI_API_KEY")
        self._endpoint = Endpoint("", sdk.AsyncOpenAI, sdk.DefaultAioHttpClient, key, base_url)
        self._options = options

    async def generate(self, prompt: str, shape: ImageShape) -> GeneratedImages:
        """Return images of *prompt*. Raises `ProviderError`."""
        self._client = self._client or self._endpoint.connect(_CONNECT)
        settings = {"model": self.name, "size": _SIZES[shape], **self._options}
        try:
            answer = await self._client.images.generate(prompt=prompt, **settings)
        except sdk_errors() as error:
            raise translate(error, self.provider, begun=False) from error
        except ValueError as error:
            raise self._invalid(error) from error
        try:
            return self._read(answer)
        except (AttributeError, TypeError) as error:  # the SDK does not check answers
            raise self._invalid(error) from error

    def _read(self, answer: Any) -> GeneratedImages:
        kind = f"image/{answer.output_format or 'png'}"
        images = tuple(
            [Media(kind, data=item.b64_json, url=None if item.b64_json else item.url) for item in answer.data or ()]
        )
        if not images:
            raise ContentFilteredError(f"{self.provider}: the answer contains no image", provider=self.provider)
        note = next((item.revised_prompt for item in answer.data if item.revised_prompt), "")
        return GeneratedImages(
            images=images, provider=self.provider, model=self.name, tokens=_tokens(answer.usage), note=str(note)
        )

    def _invalid(self, error: Exception) -> ProviderError:
        return ProviderError(
            f"{self.provider}: the answer is not one of the Images API: {error}", provider=self.provider
        )

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        if self._own and self._client is not None:
            await self._client.close()


def _tokens(usage: Any) -> Tokens | None:
    counts = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
    return Tokens(*counts) if all(isinstance(count, int) for count in counts) else None  # type: ignore[arg-type]
