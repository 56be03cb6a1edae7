"""Tools that need a backend of the product's: a port each, and a clear error where none is configured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from ...errors import ConfigurationError
from ..base import Tool, ToolContext, ToolResult
from ..function import tool

Backend = Callable[..., Awaitable[Any]]
"""An async function of the call's arguments and its context; what it returns is the result."""


def image_generation(backend: Backend | None) -> Tool:
    """`image_generation`: *backend* takes `prompt`, `size` and `context`, and gives a URL or a data URL.

    A named real backend is OpenAI's Images API (`client.images.generate`). Raises `ConfigurationError` without one.
    """
    run = _required("image_generation", backend, "an async function that calls an image API such as OpenAI's Images")

    @tool(name="image_generation", selection_rule="when the user asks for a picture", timeout=180, shown=True)
    async def generate(
        prompt: Annotated[str, Field(description="What the picture shows")],
        context: ToolContext,
        size: Annotated[str, Field(description="Width and height, such as 1024x1024")] = "1024x1024",
    ) -> ToolResult:
        """Make a picture."""
        with context.progress.begin("Painting", "image"):
            picture = await run(prompt=prompt, size=size, context=context)
        return ToolResult(f"a picture was made: {prompt}", data={"picture": picture})

    return generate


def rag(backend: Backend | None) -> Tool:
    """`rag`: *backend* takes `query` and `context`, and gives the matching passages of the attachments as text.

    A named real backend is `concertino.tools.documents.open_documents` over the attachments' folder. Raises
    `ConfigurationError` without one.
    """
    run = _required("rag", backend, "an async function that searches the attachments, such as a DocumentLibrary's search")

    @tool(name="rag", selection_rule="when the answer may be in the files that the user gave", effect="read")
    async def search_attachments(
        query: Annotated[str, Field(description="What to look for")], context: ToolContext
    ) -> Any:
        """Search the files that the user gave."""
        with context.progress.begin("Reading your files", "file"):
            return await run(query=query, context=context)

    return search_attachments


def chatbot(backend: Backend | None) -> Tool:
    """`chatbot`: *backend* takes `message`, `should_use_knowledge_base` and `context`, and gives its answer.

    A named real backend is another concertino agent through `context.spawn`. Raises `ConfigurationError` without one.
    """
    run = _required("chatbot", backend, "an async function that asks the product's chatbot")

    @tool(name="chatbot", selection_rule="when the user talks to a chatbot of the product", effect="read")
    async def ask_chatbot(
        message: Annotated[str, Field(description="What the user says to the bot")],
        context: ToolContext,
        should_use_knowledge_base: Annotated[bool, Field(description="Whether the bot's files are needed")] = False,
    ) -> Any:
        """Ask the chatbot that the user has chosen."""
        return await run(message=message, should_use_knowledge_base=should_use_knowledge_base, context=context)

    return ask_chatbot


def data_analysis(backend: Backend | None) -> Tool:
    """`data_analysis`: *backend* takes `question` and `context`, and gives the answer computed from the user's data.

    A named real backend is a DuckDB connection behind a function that runs read-only SQL. Raises
    `ConfigurationError` without one.
    """
    run = _required("data_analysis", backend, "an async function that computes answers from the user's tables")

    @tool(
        name="data_analysis",
        selection_rule="for figures from the tables that the user gave",
        timeout=120,
        effect="read",
    )
    async def analyse(question: Annotated[str, Field(description="What to compute")], context: ToolContext) -> Any:
        """Compute an answer from the user's data."""
        with context.progress.begin("Computing", "table"):
            return await run(question=question, context=context)

    return analyse


def _required(name: str, backend: Backend | None, remedy: str) -> Backend:
    if backend is None:
        raise ConfigurationError(f"the tool {name!r} has no backend; pass Settings({name}=...): {remedy}")
    return backend
