"""Models beside the chat's own: found by their ids, once, and shared by all that a chat leads to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Resources, Retry, RunContext, RunError, ToolOrchestrator, ToolRegistry
from concertino.agents import delegate
from concertino.errors import MissingKeyError, OverloadedError, UnknownModelError
from concertino.events import AttemptFailed, Notice
from concertino.testing import ScriptedModel, call


class Cheap(AgentConfig[None]):
    name = "cheap"
    prompt = "You are cheap."

    def get_model_id(self, run: RunContext[None]) -> str:
        return "scripted:cheap"


async def test_a_model_is_asked_for_once_in_a_run_and_in_all_below_it() -> None:
    asked = list[str]()
    child = delegate(Cheap(), description="Answers.")
    turn = call("cheap", query="1?")

    def models(wanted: str) -> ScriptedModel:
        asked.append(wanted)
        return cheap

    with ScriptedModel(turn, turn, "Both answered.") as model, ScriptedModel("one", "two", name="cheap") as cheap:
        chat = Chat(model=model, message="go")
        await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([child]), resources=Resources(models=models)).run()
    assert asked == ["scripted:cheap"]


async def test_another_function_is_asked_anew() -> None:
    first, second = ScriptedModel(name="cheap"), ScriptedModel(name="cheap")
    assert Resources(models=lambda _: first).find_model("scripted:cheap") is first
    assert Resources(models=lambda _: second).find_model("scripted:cheap") is second


@pytest.mark.parametrize("found", [None, "scripted:cheap"])
async def test_what_is_found_must_be_a_model(found: Any) -> None:
    chat = Chat(model=ScriptedModel(), message="go")
    with pytest.raises(RunError, match=r"Resources\(models=\.\.\.\) returned .* for 'scripted:cheap'"):
        await ToolOrchestrator(chat, Cheap(), resources=Resources(models=lambda _: found)).run()


async def fallen_back(model: Any, fallback: list[str], models: Any) -> tuple[ToolOrchestrator, list[str], list[str]]:
    """A run that needs its fallback: the run, what it was told of models that cannot be opened, and what came next."""
    chat = Chat(model=model, message="go")
    orchestrator = ToolOrchestrator(
        chat, AgentConfig(), resources=Resources(retry=Retry(attempts=2, first=0.0), fallback=fallback, models=models)
    )
    events = [event async for event in orchestrator.stream()]
    told = [event.text for event in events if isinstance(event, Notice)]
    return orchestrator, told, [event.next_model for event in events if isinstance(event, AttemptFailed)]


async def test_a_fallback_that_cannot_be_opened_is_passed_over() -> None:
    def models(wanted: str) -> ScriptedModel:
        if wanted == "openai:gpt-6":
            raise MissingKeyError("no API key: set OPENAI_API_KEY")
        return last

    busy = [OverloadedError("busy")] * 2
    with ScriptedModel(*busy) as model, ScriptedModel("from the last one", name="last") as last:
        orchestrator, told, went = await fallen_back(model, ["openai:gpt-6", "scripted:last"], models)
    assert orchestrator.result is not None
    assert orchestrator.result.text == "from the last one"
    assert told == ["not sent to openai:gpt-6, which cannot be opened: no API key: set OPENAI_API_KEY"]
    assert went == ["scripted:script", "scripted:last"]


async def test_where_no_fallback_can_be_opened_the_first_failure_stands() -> None:
    def models(wanted: str) -> ScriptedModel:
        raise UnknownModelError(f"there is no {wanted}")

    with ScriptedModel(*[OverloadedError("busy")] * 2) as model:
        orchestrator, told, _ = await fallen_back(model, ["x:a", "x:b"], models)
    assert orchestrator.result is not None
    assert orchestrator.result.error == "OverloadedError: busy"
    assert len(told) == 2


async def test_a_chat_may_fall_back_on_its_own_model_without_others() -> None:
    chat = Chat(model=ScriptedModel("hello"), message="go")
    assert (
        await ToolOrchestrator(chat, AgentConfig(), resources=Resources(fallback=["scripted:script"])).run()
    ).text == "hello"


async def test_resources_that_replace_the_function_open_their_own_models() -> None:
    first, second = ScriptedModel("of the first tenant"), ScriptedModel("of the second tenant")
    shared = Resources(models=lambda _: first)
    own = dataclasses.replace(shared, models=lambda _: second)
    for resources, text in ((shared, "of the first tenant"), (own, "of the second tenant")):
        result = await ToolOrchestrator(Chat("go", model="scripted:script"), AgentConfig(), resources=resources).run()
        assert result.text == text
