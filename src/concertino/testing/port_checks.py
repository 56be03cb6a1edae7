"""Checks of a product's own tools and models against their ports."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, cast

from ..errors import ToolError, error_text
from ..messages import AssistantMessage, UserMessage
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.engine import ToolOrchestrator
from ..orchestrator.plain import as_text
from ..orchestrator.resources import Resources
from ..providers.base import Model, ModelEvent, ModelRequest, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..tools.base import Done, NotDone, Pending, Tool, ToolContext, ToolResult
from ..tools.base import check_tool as check_settings
from ..tools.registry import ToolRegistry
from .scripted import ScriptedModel, call


def check_tool(tool: Tool, arguments: Mapping[str, Any], *, deps: Any = None) -> None:
    """Call *tool* with *arguments* as the engine does, and check the contract of its port.

    The settings and the arguments must be valid. The call must succeed without changing the arguments. Its result must
    be text or JSON; only a remote tool may return `Pending`. An `idempotent` tool must return the same result for a
    second call with the same key. `probe` must return `Done`, `NotDone` or None, and not `Done` for a key that was
    never used. The tool runs as it is: give it the *deps* of your tests.

    Raises `AssertionError`, which names the rule, and `ConfigurationError` if the tool is invalid.
    """
    check_settings(tool)
    probing = _Probing(tool)
    script = ScriptedModel(call(tool.name.replace(".", "_"), **arguments), "done")
    agent: AgentConfig[None] = AgentConfig()
    orchestrator = ToolOrchestrator(
        Chat("Go.", model=script), agent, ToolRegistry([probing]), resources=Resources(deps=deps)
    )
    in_own_loop(orchestrator.run)
    _require(probing.called, tool.name, f"the arguments {dict(arguments)!r:.200} do not match its schema")
    if probing.problem:
        raise AssertionError(f"tool {tool.name!r}: {probing.problem}")


class _Probing(Tool):
    """Calls a tool, and notes the first rule that it breaks."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.timeout, self.effect, self.max_bytes = tool.timeout, tool.effect, tool.max_bytes
        self.called = False
        self.problem = ""

    def validate(self, arguments: dict[str, Any]) -> Any:
        return self._tool.validate(arguments)

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        self.called = True
        self.problem = await self._find_problem(arguments, context)
        return "checked"

    async def _find_problem(self, arguments: dict[str, Any], context: ToolContext) -> str:
        tool = self._tool
        probed = await tool.probe("never-used", context) if tool.effect == "once" else None
        if isinstance(probed, Done) or not isinstance(probed, NotDone | None):
            return f"probe returns {probed!r:.80} for a key that was never used; return NotDone() or None"
        try:
            return await self._problem_of_calls(arguments, context)
        except ToolError as error:
            return f"the call fails: {error}; give arguments with which it succeeds"
        except Exception as error:  # noqa: BLE001 - a tool may raise anything
            return f"the call raises {error_text(error)}; raise ToolError for what the model may read"

    async def _problem_of_calls(self, arguments: dict[str, Any], context: ToolContext) -> str:
        tool, given = self._tool, copy.deepcopy(arguments)
        first = await _value(tool.execute(arguments, context))
        if arguments != given:
            return f"it changes its arguments to {arguments!r:.80}; work on a copy"
        if isinstance(first, Pending) and not tool.remote:
            return "it returns Pending and is not remote: declare @tool(remote=True)"
        if tool.effect == "idempotent" and (again := await _value(tool.execute(given, context))) != first:
            return f"it is idempotent, and a second call with its key returns {again!r:.80}, not {first!r:.80}"
        as_text(first.content if isinstance(first, ToolResult) else first)
        return ""


async def _value(returned: Any) -> Any:
    if hasattr(returned, "__aiter__"):
        return [item async for item in returned][-1:]
    return await returned if inspect.isawaitable(returned) else returned


def check_model(open_model: Callable[[], Model], *, request: ModelRequest | None = None) -> None:
    """Send one *request* to the model, twice, and check the events of the answer.

    The answer ends with one `Reply`; the pieces of text and arguments before it make up its message; each call is
    announced once; token counts are not negative. A stream may be closed early, and the model twice.

    Raises `AssertionError`, which names the rule, and what the model raises.
    """

    async def check() -> None:
        model = open_model()
        name = f"{model.provider}:{model.name}"
        _require(bool(model.provider and model.name) and ":" not in model.provider, name, "invalid provider or name")
        asked = request or ModelRequest(model=model.name, system="Be brief.", messages=[UserMessage("Say hello.")])
        _check_events(name, [event async for event in model.stream(asked)])
        await model.close()
        await model.close()
        model = open_model()
        stream = cast("AsyncGenerator[ModelEvent, None]", model.stream(asked))
        await anext(stream)
        await stream.aclose()
        await model.close()

    in_own_loop(check)


def _check_events(name: str, events: list[ModelEvent]) -> None:
    reply = events[-1] if events else None
    assert isinstance(reply, Reply), f"model {name}: the stream does not end with a Reply"
    _require(sum(isinstance(each, Reply) for each in events) == 1, name, "the stream has several replies")
    message = reply.message
    _require(
        isinstance(message, AssistantMessage), name, f"the reply contains {message!r:.80}, not an AssistantMessage"
    )
    text = "".join(each.text for each in events if isinstance(each, TextChunk))
    _require(text == message.text, name, f"the pieces {text!r:.80} differ from the text {message.text!r:.80}")
    ready = [each.call for each in events if isinstance(each, ToolCallReady)]
    _require(
        sorted(c.id for c in ready) == sorted(c.id for c in message.tool_calls), name, "calls are not announced once"
    )
    for made in message.tool_calls:
        pieces = "".join(each.arguments for each in events if isinstance(each, ToolCallChunk) and each.id == made.id)
        _require(pieces in ("", made.arguments), name, f"the pieces of the call {made.id} differ from its arguments")
    counts = () if reply.tokens is None else (reply.tokens.prompt, reply.tokens.completion)
    _require(all(each >= 0 for each in counts), name, f"negative token counts {counts}")


def _require(valid: bool, name: str, problem: str) -> None:
    if not valid:
        raise AssertionError(f"{name}: {problem}")


def in_own_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Run *work* in an event loop in a thread of its own, so that a caller may have a running loop."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, name="concertino check")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
