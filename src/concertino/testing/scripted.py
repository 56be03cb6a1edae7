"""A scripted model: it returns the answers of a script, and fails the test on too many or too few requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from types import TracebackType
from typing import Any

from ..messages import (
    AssistantMessage,
    Media,
    MediaPart,
    MessagePart,
    Reasoning,
    StopReason,
    Text,
    ToolCall,
    UserMessage,
)
from ..orchestrator.model_call.summarize import ASKS
from ..providers.base import ModelEvent, ModelRequest, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..records import record
from ..usage import Tokens


@record
class _Call:
    name: str
    arguments: str


def call(name: str, /, _raw: str | None = None, **arguments: Any) -> _Call:
    """Return a call of the tool *name*; a second positional argument replaces the arguments by raw text."""
    return _Call(name, json.dumps(arguments) if _raw is None else _raw)


@record(kw_only=True)
class Answer:
    """A scripted answer with all its details."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[_Call, ...] = ()
    tokens: Tokens | None = field(default_factory=lambda: Tokens(prompt=10, completion=5))
    """Usage that the model reports; None to report none, so that the engine must estimate it."""
    stop_reason: StopReason | None = None
    error: BaseException | None = None
    """Exception to raise after the text, to simulate a broken stream."""
    before: Callable[[], Awaitable[Any]] | None = None
    """Awaited before the first piece, so that the test can control the timing."""
    midway: Callable[[], Awaitable[Any]] | None = None
    """Awaited after all pieces and calls, before the end of the stream."""
    media: tuple[Media, ...] = ()
    """Images and recordings that the model produces."""


def asks_for_summary(request: ModelRequest) -> bool:
    """Return whether *request* asks for a summary of older messages."""
    last = request.messages[-1] if request.messages else None
    return isinstance(last, UserMessage) and last.text.startswith(ASKS)


Script = Any
"""One step: text, calls, an exception or an `Answer`; or a function from the request to one of these."""


class ScriptedModel:
    """A `Model` that follows a script.

        with ScriptedModel(call("add", a=1, b=2), "It is 3.") as model:
            result = await ToolOrchestrator(Chat(model=model, message="1 + 2?"), agent).run()

    *scripts* contains scripts for single agents; each key is a part of the agent's system prompt. *summaries* are the
    answers to requests for a summary of older messages; without them, nothing is summarized. The end of the `with`
    block fails if steps are left; a request after the end of the script fails at once. `requests` records all requests.
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
        self.summarizes = summaries is not None
        self.requests: list[ModelRequest] = []
        self._scripts: dict[str, list[Script]] = {key: list(script) for key, script in (scripts or {}).items()}
        self._scripts[""] = list(steps)
        self._scripts[ASKS] = list(summaries or ())
        self._calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next step of the script for *request*."""
        self.requests.append(request)
        answer = self._answer(request)
        if answer.before is not None:
            await answer.before()
        if answer.reasoning:
            yield ReasoningChunk(answer.reasoning)
        for piece in _pieces(answer.text):
            yield TextChunk(piece)
        parts: list[MessagePart] = [Reasoning(answer.reasoning, provider=self.provider)] if answer.reasoning else []
        parts += [Text(answer.text)] if answer.text else []
        if answer.media:
            parts += [MediaPart(media, provider=self.provider) for media in answer.media]
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
        """Do nothing: there are no connections to close."""

    def _answer(self, request: ModelRequest) -> Answer:
        key = next((key for key in self._scripts if key and key in request.system), "")
        if self.summarizes and asks_for_summary(request):
            key = ASKS
        script = self._scripts[key]
        if not script:
            script_name = f"the script {key!r}" if key else "the script"
            raise AssertionError(f"request {len(self.requests)}: {script_name} has no step left")
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
                raise AssertionError(f"invalid step {step!r:.80}: use text, call(...), an exception or an Answer")

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = {key: len(script) for key, script in self._scripts.items() if script}
        if kind is None and left:
            raise AssertionError(f"unused steps of the script: {left}")


def _pieces(text: str) -> list[str]:
    """Split *text* after each space, as a stream would."""
    *head, last = text.split(" ")
    return [piece + " " for piece in head] + ([last] if last else [])
