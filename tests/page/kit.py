"""A help desk with the page: its model answers by the user's message, and everything that it says may be hostile."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    MemoryStore,
    ModelRequest,
    Resources,
    Retry,
    RunContext,
    Runtime,
    Scope,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolRegistry,
    ToolResult,
    UserMessage,
    tool,
)
from concertino.agents import WorkerAgent, WorkerDefinition, ask_person, delegate
from concertino.errors import BrokenStreamError
from concertino.messages import Media
from concertino.server import FileFolder, ServerLimits, create_app
from concertino.server.page import PageAgent, page_routes
from concertino.storage import Store
from concertino.testing import Answer, ScriptedModel, call

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ODD_RESULTS = ("{", "[" * 10_000, "[1]", '{"results": 1}', '{"results": [1, {"id": "s0123456789"}]}')
HALVES = json.dumps({"results": [{"id": "s0123456789", "title": "half \ud800", "location": "a"}]})
_PICTURE = Media("image/png", data=base64.b64encode(PIXEL).decode(), name="<b>.png")
HOSTILE = (
    '<script>document.title = "owned"</script><img src=x onerror="document.title=\'owned\'"> '
    "[click](javascript:alert(1)) ![pixel](http://evil.example/p.png) <https://ok.example/> "
    '```evil" onmouseover="alert(1)\n<b>code</b>\n```'
)
QUESTIONS: dict[str, dict[str, Any]] = {
    "name": {},
    "colour": {"choices": ["red <i>", "blue"]},
    "form": {
        "schema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Your name", "description": "As on <the> card"},
                "seats": {"type": "integer", "minimum": 1, "maximum": 8},
                "size": {"type": "number", "default": 1.5},
                "window": {"type": "boolean", "default": True},
                "meal": {"type": "string", "enum": ["v", "f"], "enumNames": ["Vegetables", "Fish"]},
                "days": {"type": "array", "items": {"anyOf": [{"const": "mo", "title": "Monday"}, {"const": "tu"}]}},
                "__proto__": {"type": "string", "enum": list("abcdefgh")},
            },
            "required": ["name", "meal"],
        }
    },
    "number": {"schema": {"type": "object", "properties": {"id": {"type": "integer"}, "share": {"type": "number"}}}},
    "nested": {"schema": {"type": "object", "properties": {"where": {"type": "object"}}}},
}
MARKDOWN = """Here is **how**:

```python
def rows(path):
    return 1
```

| a | b |
| - | - |
| 1 | 2 |

- one
- two
"""


class Desk(AgentConfig[None]):
    """Answers; refunds need an approval; research is divided among helpers."""

    name = "desk"
    prompt = "You are the help desk of a shop."

    def __init__(self) -> None:
        self.tools = (
            refund,
            noisy,
            walk,
            odd_search,
            publish,
            visit,
            survey,
            delegate(Helper(), description="Knows prices."),
        )

    def prepare(self, run: RunContext[None]) -> list[Any]:
        run.notify("not_sent", "something <b> was left out")
        with run.progress.begin("Looking around"):
            return []

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask | Allow:
        return Ask(note="Refunds need a person <b>") if call.name == "refund" else Allow()


class Helper(AgentConfig[None]):
    name = "helper"
    prompt = "Answer briefly."


@tool(effect="once")
async def refund(order: str, euros: int) -> str:
    """Pay the money for an order back."""
    return f"{euros} euros for order {order}"


@tool(effect="read")
async def noisy() -> str:
    """Return what a stranger wrote."""
    return HOSTILE


@tool(effect="read")
async def walk(context: ToolContext) -> AsyncIterator[str]:
    """Report steps and pieces, then sources."""
    with context.progress.begin("Walking <b>", "walk") as step:
        step.send("half way")
        yield "left, "
        yield "right"
    context.emit("worker.escalated", {"model": "strong", "reason": "stuck"})
    context.emit("worker.pass", "no pass")


@tool(name="web_search", effect="read")
async def odd_search(results: str) -> str:
    """Return what is no result of a search."""
    return results


@tool(effect="read", shown=True)
async def publish() -> ToolResult:
    """Hand in a report with sources."""
    source = {"id": "S1", "title": "A <b>", "location": "https://a.example/"}
    text = "# Report\n\nThreads [S1].\n\n## Sources\n\n- [S1] A <b> \u2014 https://a.example/\n"
    return ToolResult(text, data={"report": text, "sources": [source]})


@tool(effect="idempotent")
async def survey(kind: str, context: ToolContext) -> str:
    """Ask the user something."""
    return str(await ask_person(context, f"Which {kind} <b>?", **QUESTIONS[kind]))


@tool(effect="idempotent")
async def visit(address: str, context: ToolContext) -> str:
    """Ask the user to open a page."""
    return str(await ask_person(context, "Open it, please <b>.", url=address))


class DeskModel(ScriptedModel):
    """Answers by the last message. The answer to "slow" stops in the middle until `gate` is set."""

    def __init__(self) -> None:
        super().__init__(*[self._step] * 100_000, name='<i>"model"</i>')
        self.gate = asyncio.Event()
        self.broken = False

    def _step(self, request: ModelRequest) -> Any:
        last = request.messages[-1]
        if request.output_schema is not None:
            return self._decision(request)
        if isinstance(last, ToolMessage):
            return f"Done [s0123456789]: {last.content}" if last.content == HALVES else f"Done: {last.content}"
        made: Callable[[], Any] = {
            "visit": lambda: call("visit", address='https://login.example/x?a=1&b="<b>'),
            "survey": lambda: call("survey", kind=last.text.split()[1]),
            "trap": lambda: call("visit", address="javascript:alert(1)"),
            "refund": lambda: call("refund", order="A-17 <b>", euros=120),
            "research": lambda: [call("helper", query="What do threads cost?"), call("helper", query="And processes?")],
            "delegate": lambda: call("helper", query="slow"),
            "large": lambda: call("refund", order="A-17 <b>", euros=2**53 + 1),
            "unseen": lambda: call("refund", order="A-17\u202e71-B\ud800", euros=1),
            "halves": lambda: call("web_search", results=HALVES),
            "noisy": lambda: call("noisy"),
            "hostile": lambda: HOSTILE,
            "markdown": lambda: Answer(text=MARKDOWN, reasoning="They want **code**."),
            "slow": lambda: Answer(text="The beginning of an answer. ", midway=self.gate.wait),
            "picture": lambda: Answer(text="Here it is.", media=(_PICTURE,)),
            "walk": lambda: call("walk"),
            "publish": lambda: call("publish"),
            "search": lambda: [call("web_search", results=each) for each in ODD_RESULTS],
            "broken": self._broken,
            "fail": lambda: ValueError("the <b>model</b> failed"),
        }.get(last.text.split()[0], lambda: f"You said: {last.text}")
        return made()

    def _broken(self) -> Answer:
        """Break off in the middle; the next attempt succeeds."""
        self.broken = not self.broken
        if self.broken:
            return Answer(text="half an ", error=BrokenStreamError("it broke"))
        return Answer(text="a whole answer")

    def _decision(self, request: ModelRequest) -> Answer:
        text = json.dumps(
            {
                "thinking": "done",
                "tool_calls": [],
                "should_respond": True,
                "response": "All **orders** are there.",
                "confidence": "high",
                "document_updates": {"findings": "Two orders are **late** <script>"},
            }
        )
        slow = any("slow" in each.text for each in request.messages if isinstance(each, UserMessage))
        return Answer(text=text, midway=self.gate.wait if slow else None)


def analyst() -> WorkerAgent:
    definition = WorkerDefinition(
        id="analyst",
        name="Analyst <b>",
        title="Knows all orders",
        description="Looks at orders.",
        long_description="Reads **all** orders.",
        system_prompt="You analyse orders.",
        sections={"findings": ""},
        starter_prompts=["Which orders are late?"],
        empty_state_description="Ask about orders.",
        loop={"pre_enrichment": False},
    )
    return WorkerAgent(definition, ToolRegistry())


def authenticate(request: Request) -> Scope | None:
    """Return the scope that a cookie names."""
    return Scope("acme", request.cookies.get("user", "ann"))


@asynccontextmanager
async def desk(folder: Path, store: Store | None = None, model: DeskModel | None = None) -> AsyncIterator[Starlette]:
    """Yield the application of a help desk with its page."""
    model = model or DeskModel()
    resources = Resources(model=model, store=store or MemoryStore(), retry=Retry(first=0.0, restart=True))
    async with Runtime([Desk(), analyst()], resources, sweep=0.05) as runtime:
        presented = PageAgent(name="desk", label="Help <desk>", description="Refunds.", prompts=("refund please",))
        app = create_app(
            runtime,
            authenticate,
            files=FileFolder(folder),
            limits=ServerLimits(requests=10**9),
            routes={"": page_routes([presented], title="Desk")},
        )
        app.state.model = model
        app.state.runtime = runtime
        yield app
        model.gate.set()
