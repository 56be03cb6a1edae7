"""The program with a model that waits for ever, or asks back. Arguments: command, kind of model, database."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from concertino.cli.commands.chat import chat
from concertino.cli.commands.research import research
from concertino.cli.context import Means, Options
from concertino.cli.program import perform
from concertino.demo import DemoModel
from concertino.errors import BadRequestError
from concertino.messages import ToolMessage, UserMessage
from concertino.providers.base import Model, ModelEvent, ModelRequest
from concertino.testing import ScriptedModel, call
from concertino.testing.scripted import Answer
from concertino.wiring import token_counter


async def _wait() -> None:
    sys.stderr.write("waiting\n")
    sys.stderr.flush()
    await asyncio.Event().wait()


class Stubborn:
    """A model that does not let itself be cancelled."""

    provider, name = "demo", "stubborn"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while True:
            try:
                await _wait()
            except asyncio.CancelledError:
                sys.stderr.write("refusing\n")
                sys.stderr.flush()
        yield  # type: ignore[unreachable]

    async def close(self) -> None:
        pass


class Pausing:
    """The demo model, until a request that it never answers."""

    def __init__(self, at: int) -> None:
        self._model = DemoModel(token_counter().count)
        self.provider, self.name = self._model.provider, self._model.name
        self._left = at

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self._left -= 1
        if not self._left:
            await _wait()
        async for event in self._model.stream(request):
            yield event

    async def close(self) -> None:
        await self._model.close()


def _researcher(request: ModelRequest) -> Answer:
    """One searches and is done; the other one waits."""
    if "wait" in str(request.messages[0]):
        return Answer(before=_wait)
    results = [m.content for m in request.messages if isinstance(m, ToolMessage)]
    if not results:
        return Answer(calls=(call("read_document", location="pages/apples.md"),))
    source = results[0].partition("]")[0]
    return Answer(text=f"Apples are red {source}]. Nobody said this [s0000000000].")


def _asking() -> ScriptedModel:
    return ScriptedModel(
        call("feedback_questions", questions=["Which fruit?", "How long?"]),
        lambda request: call("report_generation", title="Report", markdown=f"You want {_said(request)}."),
    )


def _said(request: ModelRequest) -> str:
    return [message.text for message in request.messages if isinstance(message, UserMessage)][-1]


def _waiting() -> ScriptedModel:
    asked = (call("researcher", query="about apples"), call("researcher", query="wait"))
    return ScriptedModel(
        scripts={
            "You lead a research": [Answer(text="I ask two.", calls=asked)],
            "You are a researcher": [_researcher] * 3,
            "assistant in a chat": [Answer(text="So far so good. ", midway=_wait)],
        }
    )


def _failing() -> ScriptedModel:
    return ScriptedModel("I begin. ", Answer(text="So far. ", error=BadRequestError("the provider says\nno")))


_MODELS: dict[str, Callable[[], Model]] = {
    "waiting": _waiting,
    "asking": _asking,
    "failing": _failing,
    "stubborn": Stubborn,
    "pausing": lambda: Pausing(int(os.environ["PAUSE_AT"])),
}


async def _work(text: str | None, means: Means) -> int:
    model = _MODELS[sys.argv[2]]()
    command = {"research": research, "chat": chat}[sys.argv[1]]
    return await command(text, dataclasses.replace(means, model=model))


if __name__ == "__main__":
    options = Options(corpus=("pages",), model="demo", database=Path(sys.argv[3]), as_json="--json" in sys.argv)
    sys.exit(perform(_work, [os.environ.get("QUESTION", "What is it?")], options, needs_text=True))
