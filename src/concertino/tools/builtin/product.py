"""Tools over a product's own backends: images, attachments, chatbots and data analysis."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from ...errors import ConfigurationError
from ..base import Tool, ToolContext, ToolResult
from ..function import tool

Backend = Callable[..., Awaitable[Any]]
"""An async function that takes the call's arguments and its context by keyword and returns the result."""


def image_generation(backend: Backend | None) -> Tool:
    """Return the tool `image_generation`; *backend* takes `prompt`, `size` and `context` and returns a URL or data URL.

    A backend can be built on OpenAI's Images API (`client.images.generate`). Raises `ConfigurationError` if it is None.
    """
    run = _required("image_generation", backend, "an async function that calls an image API")

    @tool(name="image_generation", selection_rule="when the user asks for an image", timeout=180, shown=True)
    async def generate(
        prompt: Annotated[str, Field(description="Content of the image")],
        context: ToolContext,
        size: Annotated[str, Field(description="Width and height, such as 1024x1024")] = "1024x1024",
    ) -> ToolResult:
        """Create an image."""
        with context.progress.begin("Painting", "image"):
            picture = await run(prompt=prompt, size=size, context=context)
        return ToolResult(f"an image was created: {prompt}", data={"picture": picture})

    return generate


def rag(backend: Backend | None) -> Tool:
    """Return the tool `rag`; *backend* takes `query` and `context` and returns matching passages of the attachments.

    A backend can be built on `concertino.tools.documents` over the attachments' folder. Raises `ConfigurationError` if
    it is None.
    """
    run = _required("rag", backend, "an async function that searches the attachments")

    @tool(name="rag", selection_rule="when the answer may be in the files that the user attached", effect="read")
    async def search_attachments(
        query: Annotated[str, Field(description="Text to search for")], context: ToolContext
    ) -> Any:
        """Search the files that the user attached."""
        with context.progress.begin("Reading your files", "file"):
            return await run(query=query, context=context)

    return search_attachments


def chatbot(backend: Backend | None) -> Tool:
    """Return the tool `chatbot`; *backend* takes `message`, `should_use_knowledge_base` and `context` and answers.

    A backend can run another agent with `context.spawn`. Raises `ConfigurationError` if it is None.
    """
    run = _required("chatbot", backend, "an async function that calls the product's chatbot")

    @tool(name="chatbot", selection_rule="when the user addresses a chatbot of the product", effect="read")
    async def ask_chatbot(
        message: Annotated[str, Field(description="The user's message to the chatbot")],
        context: ToolContext,
        should_use_knowledge_base: Annotated[bool, Field(description="True if the chatbot's files are needed")] = False,
    ) -> Any:
        """Ask the chatbot that the user has chosen."""
        return await run(message=message, should_use_knowledge_base=should_use_knowledge_base, context=context)

    return ask_chatbot


def data_analysis(backend: Backend | None) -> Tool:
    """Return the tool `data_analysis`; *backend* takes `question` and `context` and computes an answer from user data.

    A backend can run read-only SQL on a DuckDB connection. Raises `ConfigurationError` if it is None.
    """
    run = _required("data_analysis", backend, "an async function that computes answers from the user's tables")

    @tool(
        name="data_analysis",
        selection_rule="for figures from the user's tables",
        timeout=120,
        effect="read",
    )
    async def analyse(
        question: Annotated[str, Field(description="Question to answer with a computation")], context: ToolContext
    ) -> Any:
        """Compute an answer from the user's data."""
        with context.progress.begin("Computing", "table"):
            return await run(question=question, context=context)

    return analyse


def _required(name: str, backend: Backend | None, remedy: str) -> Backend:
    if backend is None:
        raise ConfigurationError(f"the tool {name!r} has no backend: pass Settings({name}=...), {remedy}")
    return backend
