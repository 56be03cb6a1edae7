"""A server with one tool of each kind; as a program, it speaks over stdio."""

from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("friendly")
PNG = bytes.fromhex("89504e470d0a1a0a")


class Consent(BaseModel):
    amount: int


class Sum(BaseModel):
    total: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def picture() -> Image:
    """Return a picture."""
    return Image(data=PNG, format="png")


@server.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=False))
def fail() -> str:
    """Fail."""
    raise ToolError("no such thing")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count(ctx: Context) -> str:
    """Report progress."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 3, f"number {number}")
    return "counted"


@server.tool()
async def wait(file: str) -> str:
    """Wait for ever; leave a note in *file* when it begins and when it is cancelled."""
    note = Path(file).write_text
    note("begun")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")
    return ""


@server.tool()
def whoami(ctx: Context) -> str:
    """Return the caller's authorization."""
    return str((ctx.headers or {}).get("authorization"))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def traced(ctx: Context) -> str:
    """Return the caller's trace."""
    return str((ctx.request_context.meta or {}).get("traceparent"))


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer a further tool."""

    def grown() -> str:
        """Return a word."""
        return "new"

    server.add_tool(grown, name="grown")
    await ctx.notify_tools_changed()
    return "grown"


def ask_for_consent(amount: int) -> Any:
    return Elicit(f"Pay {amount} euros?", Consent)


@server.tool()
def pay(amount: int, file: str, consent: Annotated[Consent, Resolve(ask_for_consent)]) -> str:
    """Pay, once the user agrees; every payment is a line in *file*."""
    with Path(file).open("a") as ledger:
        ledger.write(f"{consent.amount}\n")
    return f"paid {consent.amount}"


@server.resource("notes://today", title="Notes")
def notes() -> str:
    """What happened today."""
    return "Nothing happened."


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}."


if __name__ == "__main__":
    server.run("stdio")
