"""A scripted model: it says what the test tells it to say, and fails the test if it is asked too much or too little."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ..messages import AssistantMessage, Part, Reasoning, StopReason, Text, ToolCall, UserMessage
from ..orchestrator.model_call.summarize import ASKS
from ..providers.base import ModelEvent, ModelRequest, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..usage import Tokens


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: str


def call(name: str, /, _raw: str | None = None, **arguments: Any) -> _Call:
    """A call of the tool *name*; with a second positional argument, its arguments are that very text."""
    return _Call(name, json.dumps(arguments) if _raw is None else _raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A scripted answer in full."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[_Call, ...] = ()
    tokens: Tokens | None = field(default_factory=lambda: Tokens(prompt=10, completion=5))
    """What the model reports; None: nothing, so that the engine must estimate."""
    stop_reason: StopReason | None = None
    error: BaseException | None = None
    """Raised after the text has been streamed: a stream that breaks."""
    before: Callable[[], Awaitable[Any]] | None = None
    """Awaited before the first piece: a gate that the test opens."""
    midway: Callable[[], Awaitable[Any]] | None = None
    """Awaited between the pieces, with all calls ready, and the end."""


Script = Any
"""One step: what to say, what to call, what to raise; or a function of the request that gives one of these."""


class ScriptedModel:
    """A `Model` that follows a script.

        with ScriptedModel(call("add", a=1, b=2), "It is 3.") as model:
            result = await ToolOrchestrator(Chat(model=model, message="1 + 2?"), agent).run()

    *scripts* gives agents their own: each key is a part of the agent's system prompt. *summaries* are what it says when
    it is asked for a summary of older messages; without them nothing is summarised. Leaving the `with` block fails if a
    step was not used; a request past the end of the script fails at once. `requests` holds all requests.
    """

    provider = "scripted"

    def __init__(
        self,
        *steps: Script,
        scripts: Mapping[str, Sequence[Script]] | None = None,
        name: str = "script",
        summaries: Sequence[Script] | None = None,
    ) -> None:
        self.name = name
        self.summarises = summaries is not None
        self.requests: list[ModelRequest] = []
        self._scripts: dict[str, list[Script]] = {key: list(script) for key, script in (scripts or {}).items()}
        self._scripts[""] = list(steps)
        self._scripts[ASKS] = list(summaries or ())
        self._calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The next step of the script that fits the request."""
        self.requests.append(request)
        answer = self._answer(request)
        if answer.before is not None:
            await answer.before()
        if answer.reasoning:
            yield ReasoningChunk(answer.reasoning)
        for piece in _pieces(answer.text):
            yield TextChunk(piece)
        parts: list[Part] = [Reasoning(answer.reasoning, provider=self.provider)] if answer.reasoning else []
        parts += [Text(answer.text)] if answer.text else []
        for scripted in answer.calls:
            self._calls += 1
            made = ToolCall(f"call_{self._calls}", scripted.name, scripted.arguments)
            parts.append(made)
            yield ToolCallChunk(made.id, made.name, made.arguments)
            yield ToolCallReady(made)
        if answer.midway is not None:
            await answer.midway()
        if answer.error is not None:
            raise answer.error
        stop = answer.stop_reason or ("tool_calls" if answer.calls else "end")
        yield Reply(AssistantMessage(tuple(parts), stop, self.name), answer.tokens)

    async def close(self) -> None:
        """Nothing to release."""

    def _answer(self, request: ModelRequest) -> Answer:
        key = next((key for key in self._scripts if key and key in request.system), "")
        last = request.messages[-1] if request.messages else None
        if isinstance(last, UserMessage) and last.text.startswith(ASKS):
            key = ASKS
        script = self._scripts[key]
        if not script:
            raise AssertionError(f"request {len(self.requests)}: the script {key!r} has no step left for it")
        step = script.pop(0)
        while callable(step):
            step = step(request)
        match step:
            case Answer():
                return step
            case str():
                return Answer(text=step)
            case _Call():
                return Answer(calls=(step,))
            case BaseException():
                return Answer(error=step)
            case list() | tuple():
                return Answer(calls=tuple(step))
            case _:
                raise AssertionError(f"{step!r:.80} is no step of a script: use text, call(...), an error or an Answer")

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = {key: len(script) for key, script in self._scripts.items() if script}
        if kind is None and left:
            raise AssertionError(f"steps of the script were not used: {left}")


def _pieces(text: str) -> list[str]:
    """Words with the space behind them: what a stream looks like."""
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + ([words[-1]] if words[-1] else [])
