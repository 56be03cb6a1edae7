"""The checks of tools and models find what breaks their ports, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from concertino import Done, ModelRequest, Pending, ToolError, tool
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.testing import ScriptedModel, call, check_model, check_tool

from .kit import look, pay

NUMBERS = itertools.count()


@tool(effect="idempotent")
async def counts(place: str) -> int:
    """Count."""
    return next(NUMBERS)


@tool(effect="read")
async def adds(places: list[str]) -> str:
    """Add a place."""
    places.append("here")
    return "added"


@tool
async def waits(place: str) -> Pending:
    """Wait."""
    return Pending()


@tool
async def fails(place: str) -> str:
    """Fail."""
    raise ToolError("there is no such place")


async def always(key: str) -> Done:
    return Done("paid")


@tool(probe=always)
async def pays(place: str) -> str:
    """Pay."""
    return "paid"


class Longer(ScriptedModel):
    """Its pieces are not its message."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextChunk("More. ")
        async for event in super().stream(request):
            yield event


class Silent(ScriptedModel):
    """It ends without a reply."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if not isinstance(event, Reply):
                yield event


class Unannounced(ScriptedModel):
    """Its calls come with the reply only."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if isinstance(event, Reply | TextChunk):
                yield replace(event)


async def test_good_tools_and_models_pass_also_inside_a_running_loop() -> None:
    check_tool(look, {"place": "home"})
    check_tool(pay, {"account": "A", "euros": 3})
    check_model(lambda: ScriptedModel("Hello you."))
    check_model(lambda: ScriptedModel(call("look", place="home")))


@pytest.mark.parametrize(
    ("faulty", "arguments", "problem"),
    [
        (counts, {"place": "x"}, "a second call with its key returns 1, not 0"),
        (adds, {"places": ["x"]}, "it changes its arguments"),
        (waits, {"place": "x"}, "declare @tool"),
        (fails, {"place": "x"}, "there is no such place"),
        (pays, {"place": "x"}, "never used"),
        (look, {"wrong": 1}, "do not match its schema"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_faulty_tools_are_found(faulty: Any, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_tool(faulty, arguments)


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (lambda: Longer("Hello."), "differ from the text"),
        (lambda: Silent("Hello."), "does not end with a Reply"),
        (lambda: Unannounced(call("look", place="x")), "not announced once"),
        (lambda: ScriptedModel("Hello.", name=""), "invalid provider or name"),
    ],
    ids=["longer", "silent", "unannounced", "nameless"],
)
def test_faulty_models_are_found(model: Any, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_model(model)
