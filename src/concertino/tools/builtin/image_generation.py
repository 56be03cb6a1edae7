"""Image generation through a provider's endpoint."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Protocol

from pydantic import Field

from ...errors import ProviderError, ToolError
from ...images import GeneratedImages, ImageShape
from ...messages import Media
from ..base import Tool, ToolContext, ToolResult
from ..function import tool
from .backend import Backend, PerCall

_MOST = 10
"""Images of one call; OpenAI's endpoint makes no more."""
_LONGEST_NOTE = 2_000
_TYPE = re.compile(r"image/[a-z0-9][a-z0-9.+-]*")


class ImageBackend(Protocol):
    """A provider's endpoint for images: `OpenAIImages` and `GoogleImages` of `concertino.providers`."""

    provider: str
    name: str
    """The model, for the usage record of a call that fails."""

    async def generate(self, prompt: str, shape: ImageShape) -> GeneratedImages:
        """Return images of *prompt*. Raises `ProviderError`."""
        ...


def image_generation(backend: ImageBackend | PerCall[ImageBackend] | None) -> Tool:
    """Return the tool `image_generation`.

    *backend* is `concertino.providers.openai.OpenAIImages`, `concertino.providers.google.GoogleImages` or another
    `ImageBackend`, or a function that returns the one of a call: with the key of its tenant. The images are the media
    of the result. The tokens that the provider reports are booked. Without a report, also for a failed call that may be
    billed, the usage is unknown. Raises `ConfigurationError` if *backend* is None.
    """
    remedy = "OpenAIImages(model) or GoogleImages(model)"
    painter: Backend[ImageBackend] = Backend("image_generation", backend, "generate", remedy)

    @tool(name="image_generation", selection_rule="when the user asks for an image", timeout=180, shown=True)
    async def generate(
        prompt: Annotated[str, Field(description="Content of the image")],
        context: ToolContext,
        shape: ImageShape = "square",
    ) -> ToolResult:
        """Create an image."""
        if not prompt.strip():
            raise ToolError("`prompt` is empty; describe the image there")
        with context.progress.begin("Painting", "image"):
            endpoint = await painter.of(context)
            try:
                made = await endpoint.generate(prompt, shape)
            except asyncio.CancelledError:  # by a stop or the time limit: the endpoint may make the images all the same
                context.add_usage(provider=endpoint.provider, model=endpoint.name, tokens=None)
                raise
            except ProviderError as error:
                if error.billable or error.tokens is not None:
                    context.add_usage(provider=endpoint.provider, model=endpoint.name, tokens=error.tokens)
                raise
        context.add_usage(provider=made.provider, model=made.model, tokens=made.tokens)
        if not made.images or len(made.images) > _MOST or not all(map(_is_image, made.images)):
            raise ToolError(f"{made.provider} returned something else than 1 to {_MOST} images")
        images = [{"media_type": image.media_type, "digest": image.digest, "url": image.url} for image in made.images]
        text = f"an image was created: {prompt}" + (f"\n{made.note[:_LONGEST_NOTE]}" if made.note else "")
        return ToolResult(text, data={"images": images, "model": made.model}, media=made.images)

    return generate


def _is_image(media: Media) -> bool:
    """Return whether *media* is an image that a product can show without harm: its own content, or a web address."""
    if not isinstance(media.media_type, str) or not _TYPE.fullmatch(media.media_type):
        return False
    if media.data is None:
        return isinstance(media.url, str) and media.url.startswith("https://")
    return media.data != "" and not media.data_problem
