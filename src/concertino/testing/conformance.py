"""An agent and a model with fixed answers, to run a front end's own tests against a server.

The model answers `conform:SCENARIO` and keeps no state, so any process can continue a conversation.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from ..agents.agent_tool import delegate
from ..agents.parts.approvals import Approvals
from ..errors import BadRequestError, BrokenStreamError
from ..messages import AssistantMessage, Media, Message, ToolMessage, UserMessage
from ..orchestrator.agent import AgentConfig
from ..providers.base import ModelEvent, ModelRequest
from ..records import record
from ..tools.base import Pending, ToolContext, ToolResult
from ..tools.function import tool
from .scripted import Answer, ScriptedModel, call

PAUSE = 0.01
"""Seconds between two words of the scenarios `stop` and `resume`."""
UNICODE = "Grüße 👩‍👩‍👧‍👦 🇩🇪 e\u0301 עברית \u200bzero\u2028line\u2029 \U0001d4b3 \\u0041 </script> data: x\r\n\r\nend"
"""Text with everything that a stream may cut or escape wrongly."""
WORDS = 200
"""Number of words of the scenario `resume`."""


@tool(effect="read")
def lookup(item: str) -> str:
    """Look up an item."""
    return f"found {item}"


@tool(effect="read")
def search(query: str) -> ToolResult:
    """Search, and return the sources found."""
    sources = {
        "s1": {"title": "A page", "location": "https://example.com/page"},
        "s2": {"title": "A file", "location": "files/notes.txt"},
    }
    return ToolResult(f"two sources about {query}", data=sources)


@tool(effect="idempotent")
def refund(order: str, euros: int) -> str:
    """Pay money back; a person must approve it."""
    return f"{euros} euros for order {order} are paid back"


@tool(effect="once", remote=True)
def locate() -> Pending:
    """Ask the user's device where it is: the front end sends the result."""
    return Pending()


@tool(effect="read")
def survey(context: ToolContext) -> str:
    """Report progress, and send data of the product."""
    with context.progress.begin("Counting", "number"):
        context.emit("weather", {"sky": "clear", "celsius": 21})
    return "three"


@tool(effect="read")
def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


@record
class City:
    """The typed answer of `conformance_typed`."""

    name: str
    people: int


class Conformance(AgentConfig[None]):
    """The agent of the scenarios. Its tools are real: the calls are recorded, approved and resumed as any others."""

    name = "conformance"
    prompt = "You answer conformance scenarios."
    parts = (Approvals("refund", note="a refund"),)

    def __init__(self) -> None:
        helper = _Helper()
        described = "Works on a part of the task."
        self.tools = (lookup, search, refund, locate, survey, fail, delegate(helper, description=described))


class _Helper(AgentConfig[None]):
    name = "helper"
    prompt = "You help with conformance scenarios."
    tools = (lookup, refund)
    parts = (Approvals("refund", note="a refund"),)


class TypedConformance(AgentConfig[None]):
    """An agent with a typed answer: every message is answered with a `City`."""

    name = "conformance_typed"
    prompt = "You answer typed conformance scenarios."
    output_type = City


ScenarioScript = Callable[[Sequence[Message], UserMessage], Any]


class ConformanceModel(ScriptedModel):
    """Answers `conform:SCENARIO` in the last message of the user; anything else is repeated."""

    provider = "conformance"

    def __init__(self) -> None:
        super().__init__(name="conformance")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the answer of the scenario."""
        self._calls = sum(len(each.tool_calls) for each in request.messages if isinstance(each, AssistantMessage))
        if "conform:stop" in _asked(request).text or "conform:resume" in _asked(request).text:
            async for event in super().stream(request):
                yield event
                await asyncio.sleep(PAUSE)
        else:
            async for event in super().stream(request):
                yield event
        self.requests.clear()

    def _answer(self, request: ModelRequest) -> Answer:
        question = _asked(request)
        after = [each for each in request.messages[_position(request) + 1 :] if not isinstance(each, UserMessage)]
        step = _step(request, after, question)
        if isinstance(step, str):
            return Answer(text=step)
        return step if isinstance(step, Answer) else Answer(calls=tuple(step))


def _position(request: ModelRequest) -> int:
    asked = [i for i, each in enumerate(request.messages) if isinstance(each, UserMessage) and each.tool is None]
    return asked[-1]


def _asked(request: ModelRequest) -> UserMessage:
    message = request.messages[_position(request)]
    assert isinstance(message, UserMessage)
    return message


def _step(request: ModelRequest, after: Sequence[Message], question: UserMessage) -> Any:
    if request.output_schema is not None:
        return json.dumps({"name": "Lyon", "people": 520_000})
    scenario, _, detail = question.text.partition("conform:")[2].partition(" ")
    results = [each for each in after if isinstance(each, ToolMessage)]
    if not scenario:
        return f"You said: {question.text}"
    if results and scenario in _CALLS:
        return "; ".join(each.content for each in results)
    if scenario in _CALLS:
        return _CALLS[scenario](detail)
    if scenario in _TEXTS:
        return _TEXTS[scenario](question)
    return f"Unknown scenario {scenario!r}: choose from {', '.join(SCENARIOS)}"


def _media(question: UserMessage) -> Answer:
    received = ", ".join(f"{each.kind} {each.essence}" for each in question.media) or "nothing"
    return Answer(text=f"Received: {received}", media=(Media("image/png", data=base64.b64encode(_png()).decode()),))


def _png() -> bytes:
    """Return an image of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


_TEXTS: dict[str, Callable[[UserMessage], Any]] = {
    "text": lambda _: "Hello from the conformance model.",
    "reasoning": lambda _: Answer(reasoning="First I think. ", text="Then I answer."),
    "error-before": lambda _: Answer(error=BadRequestError("refused before the stream")),
    "error-during": lambda _: Answer(text="Half of an ", error=BadRequestError("refused during the stream")),
    "broken": lambda _: Answer(text="Half of an ", error=BrokenStreamError("the stream broke")),
    "stop": lambda _: " ".join(f"word{number}" for number in range(100_000)),
    "resume": lambda _: " ".join(f"word{number}" for number in range(WORDS)),
    "media": _media,
    "long": lambda _: " ".join(f"word{number}" for number in range(2_000)),
    "unicode": lambda _: UNICODE,
}
_CALLS: dict[str, Callable[[str], Any]] = {
    "parallel": lambda _: Answer(text="Looking. ", calls=(call("lookup", item="tea"), call("lookup", item="cake"))),
    "approval": lambda _: [call("refund", order="A1", euros=40), call("lookup", item="A1")],
    "denial": lambda _: [call("refund", order="A1", euros=40)],
    "tool-error": lambda _: [call("fail", text="no such item")],
    "sub-agent": lambda detail: [call("helper", query=f"conform:{detail or 'parallel'}")],
    "sources": lambda _: [call("search", query="tea")],
    "data": lambda _: [call("survey")],
    "client-tool": lambda _: [call("locate")],
}
SCENARIOS: tuple[str, ...] = (*_TEXTS, *_CALLS)
"""All scenarios, as in `conform:text`. `sub-agent` takes the scenario of the sub-agent: `conform:sub-agent long`."""
