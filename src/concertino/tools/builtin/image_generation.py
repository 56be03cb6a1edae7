"""Image generation through a provider's endpoint."""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import Field

from ...errors import ToolError
from ...images import GeneratedImages, ImageShape
from ..base import Tool, ToolContext, ToolResult
from ..function import tool
from .backend import Backend, PerCall


class ImageBackend(Protocol):
    """A provider's endpoint for images: `OpenAIImages` and `GoogleImages` of `concertino.providers`."""

    async def generate(self, prompt: str, shape: ImageShape) -> GeneratedImages:
        """Return images of *prompt*. Raises `ProviderError`."""
        ...


def image_generation(backend: ImageBackend | PerCall[ImageBackend] | None) -> Tool:
    """Return the tool `image_generation`.

    *backend* is `concertino.providers.openai.OpenAIImages`, `concertino.providers.google.GoogleImages` or another
    `ImageBackend`, or a function that returns the one of a call: with the key of its tenant. The images are the media
    of the result, and the tokens that the provider reports are booked. Raises `ConfigurationError` if *backend* is
    None.
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
            made = await (await painter.of(context)).generate(prompt, shape)
        if made.tokens is not None:
            context.add_usage(provider=made.provider, model=made.model, tokens=made.tokens)
        images = [{"media_type": image.media_type, "digest": image.digest, "url": image.url} for image in made.images]
        text = f"an image was created: {prompt}" + (f"\n{made.note}" if made.note else "")
        return ToolResult(text, data={"images": images, "model": made.model}, media=made.images)

    return generate
