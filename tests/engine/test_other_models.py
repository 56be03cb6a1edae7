"""Models beside the chat's own: found by their ids, once, and shared by all that a chat leads to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Run, RunError, ToolOrchestrator, ToolRegistry
from concertino.agents import delegate
from concertino.testing import ScriptedModel, call


class Cheap(AgentConfig[None]):
    name = "cheap"
    prompt = "You are cheap."

    def get_model_id(self, run: Run[None]) -> str:
        return "scripted:cheap"


async def test_a_model_is_asked_for_once_in_a_run_and_in_all_below_it() -> None:
    asked = list[str]()
    child = delegate(Cheap(), description="Answers.")
    turn = call("cheap", query="1?")

    def models(wanted: str) -> ScriptedModel:
        asked.append(wanted)
        return cheap

    with ScriptedModel(turn, turn, "Both answered.") as model, ScriptedModel("one", "two", name="cheap") as cheap:
        chat = Chat(model=model, message="go", models=models)
        await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([child])).run()
    assert asked == ["scripted:cheap"]


async def test_another_function_is_asked_anew() -> None:
    first, second = ScriptedModel(name="cheap"), ScriptedModel(name="cheap")
    chat = Chat(model=ScriptedModel(), message="go", models=lambda _: first)
    assert chat.find_model("scripted:cheap") is first
    assert dataclasses.replace(chat, models=lambda _: second).find_model("scripted:cheap") is second
    assert chat.find_model("scripted:cheap") is first


@pytest.mark.parametrize("found", [None, "scripted:cheap"])
async def test_what_is_found_must_be_a_model(found: Any) -> None:
    chat = Chat(model=ScriptedModel(), message="go", models=lambda _: found)
    with pytest.raises(RunError, match=r"Chat\(models=\.\.\.\) returned .* for 'scripted:cheap'"):
        await ToolOrchestrator(chat, Cheap()).run()
