"""The part `EndWith`: a run ends by a tool call, which the model is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Chat, Fail, Part, RunResult, ToolOrchestrator, tool
from concertino.agents import EndWith, ToolGuardrail
from concertino.errors import ConfigurationError, RunError, ToolError
from concertino.events import Notice, ToolFailed
from concertino.messages import ForcedTool, ToolMessage
from concertino.testing import ScriptedModel, call

FIELDS = {"title": "one line", "body": "Markdown"}


@tool(effect="once")
async def ship(order: int) -> str:
    """Ship an order."""
    if order < 0:
        raise ToolError("unknown order")
    return f"shipped {order}"


@tool(effect="read")
async def look(order: int) -> str:
    """Look an order up."""
    return f"order {order}"


def agent(*parts: EndWith) -> AgentConfig[None]:
    class Desk(AgentConfig[None]):
        name = "desk"
        tools = (ship, look)

    desk = Desk()
    desk.parts = parts
    return desk


async def play(part: EndWith, *answers: Any) -> tuple[RunResult, list[Notice], ScriptedModel]:
    with ScriptedModel(*answers) as model:
        run = ToolOrchestrator(Chat("Go.", model=model), agent(part))
        notices = [event async for event in run.stream() if isinstance(event, Notice)]
    assert run.result is not None
    return run.result, notices, model


async def test_a_call_ends_the_run() -> None:
    result, _, model = await play(EndWith("ship"), call("look", order=1), call("ship", order=1))
    assert (result.status, result.text, len(model.requests)) == ("completed", "shipped 1", 2)


async def test_a_call_that_failed_does_not() -> None:
    result, _, _ = await play(EndWith("ship"), call("ship", order=-1), call("ship", order=2))
    assert result.text == "shipped 2"


async def test_the_first_of_several_calls_counts() -> None:
    both = [call("look", order=7), call("ship", order=1), call("ship", order=2)]
    result, _, _ = await play(EndWith("ship"), both)
    assert result.text == "shipped 1"


async def test_an_answer_without_the_call_is_not_the_end() -> None:
    result, _, model = await play(EndWith("ship"), "I am done.", "Really.", call("ship", order=3))
    assert result.text == "shipped 3"
    assert [request.tool_choice for request in model.requests] == ["auto", ForcedTool("ship"), ForcedTool("ship")]
    _, _, model = await play(EndWith("ship", "look"), "I am done.", call("look", order=3))
    assert model.requests[1].tool_choice == "required"


async def test_an_answer_may_end_it_if_the_call_is_not_required() -> None:
    result, _, _ = await play(EndWith("ship", required=False), "I am done.")
    assert result.text == "I am done."


async def test_some_of_the_tools_may_be_required_and_others_end_the_run_too() -> None:
    part = EndWith("ship", "look", required=["ship"])
    result, _, model = await play(part, "I am done.", call("ship", order=3))
    assert (result.text, model.requests[1].tool_choice) == ("shipped 3", ForcedTool("ship"))
    result, _, model = await play(part, call("look", order=3))
    assert (result.status, len(model.requests)) == ("completed", 1)


@pytest.mark.parametrize("required", [["fly"], "ship", 1, ["ship", 1]])
def test_only_tools_of_the_part_may_be_required(required: Any) -> None:
    with pytest.raises(ConfigurationError, match="use True, False, or a list of some of ship"):
        EndWith("ship", required=required)


async def test_a_model_that_never_calls_is_limited() -> None:
    model = ScriptedModel(*["I am done."] * 200)
    result = await ToolOrchestrator(Chat("Go.", model=model), agent(EndWith("ship"))).run()
    assert result.text == "I am done."
    assert len(model.requests) < 100


async def test_a_whole_result() -> None:
    result, notices, model = await play(EndWith(fields=FIELDS), call("submit_result", title="Tea", body="Hot."))
    assert result.text == '{"title": "Tea", "body": "Hot."}'
    assert (result.data["submit_result"], notices) == ({"title": "Tea", "body": "Hot."}, [])
    (offered,) = [each for each in model.requests[0].tools if each.name == "submit_result"]
    assert offered.parameters["properties"]["title"] == {"description": "one line"}


async def test_a_result_that_lacks_a_field_is_used_with_a_notice() -> None:
    result, notices, _ = await play(EndWith(fields=FIELDS), call("submit_result", title=["Tea"], more=1))
    assert result.text == '{"title": ["Tea"], "body": null}'
    assert [(each.code, each.text) for each in notices] == [("result_incomplete", "the submitted result lacks: body")]


@pytest.mark.parametrize("text", ["withheld", "[]"])
async def test_a_result_that_a_guardrail_replaces_is_used(text: str) -> None:
    desk = agent()
    desk.parts = (EndWith(fields=FIELDS), ToolGuardrail(results=lambda _run, _call, _result: text))
    with ScriptedModel(call("submit_result", title="Tea", body="Hot.")) as model:
        result = await ToolOrchestrator(Chat("Go.", model=model), desk).run()
    assert (result.status, result.text) == ("completed", text)


async def test_a_failure_stays_one() -> None:
    class Strict(Part):
        def after_step(self, run: Any, outcome: Any) -> Fail:
            return Fail("not today")

    desk = agent()
    desk.parts = (Strict(), EndWith("ship"))
    with ScriptedModel(call("ship", order=1)) as model, pytest.raises(RunError, match="not today"):
        await ToolOrchestrator(Chat("Go.", model=model), desk).run()


def test_it_needs_a_tool() -> None:
    for given in ((), ("",), (ship,)):
        with pytest.raises(ConfigurationError, match="name tools that end the run"):
            EndWith(*given)  # type: ignore[arg-type]


async def test_the_first_of_two_results_in_a_step_counts() -> None:
    twice = [call("submit_result", title="one"), call("submit_result", title="two"), call("ship", order=1)]
    with ScriptedModel(twice) as model:
        run = ToolOrchestrator(Chat("Go.", model=model), agent(EndWith(fields=FIELDS)))
        events = [event async for event in run.stream()]
    result = run.result
    assert result is not None
    assert result.text == '{"title": "one", "body": null}'
    assert result.data["submit_result"] == {"title": "one", "body": None}
    answers = [(each.is_error, each.content) for each in result.messages if isinstance(each, ToolMessage)]
    refused = "refused: a result was already submitted in this step, and counts"
    assert answers == [(False, result.text), (True, refused), (False, "shipped 1")], "the other calls run"
    assert [event.error for event in events if isinstance(event, ToolFailed)] == [refused]
