"""Agents whose model answers with JSON in each turn, and which answer the user with text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from typing_extensions import TypedDict

from concertino import (
    AgentConfig,
    AssistantMessage,
    Chat,
    MemoryStore,
    NextStep,
    Resources,
    RunContext,
    RunError,
    Text,
    ToolCall,
    ToolOrchestrator,
    Turn,
    delegate,
    tool,
)
from concertino.events import PartialOutput, RunEvent, TextDelta, TurnCompleted
from concertino.testing import Answer, ScriptedModel, call
from concertino.usage import total


class Step(TypedDict, total=False):
    look_up: str
    say: str


@tool(effect="read")
async def price(item: str) -> float:
    """The price of an item."""
    return 3.5


class Decider(AgentConfig[None]):
    name = "decider"
    tools = (price,)
    audience = "internal"
    turn_type = Step

    def should_send_tools(self, run: RunContext[None]) -> bool:
        return False

    def interpret_response(self, run: RunContext[None], message: AssistantMessage) -> Turn:
        step = json.loads(message.text)
        if "say" in step:
            return Turn(AssistantMessage((Text(step["say"]),)), (), audience="answer")
        return Turn(message, (ToolCall("c1", "price", json.dumps({"item": step["look_up"]})),))


class Plain(ScriptedModel):
    """A model that enforces no schema."""

    def takes_schema(self, *_: Any, **__: Any) -> bool:
        return False


SCRIPT = ('{"look_up": "tea"}', '{"say": "It costs 3.50 euros, and that is all that I can say about it today."}')


async def run(agent: AgentConfig[Any], model: ScriptedModel, **resources: Any) -> tuple[list[RunEvent], Any]:
    orchestrator = ToolOrchestrator(Chat("Tea?", model=model), agent, resources=Resources(**resources))
    events = [event async for event in orchestrator.stream()]
    return events, orchestrator.result


async def test_each_turn_is_asked_for_the_type_and_the_answer_is_text() -> None:
    with ScriptedModel(*SCRIPT) as model:
        events, result = await run(Decider(), model, store=MemoryStore())
    assert result.status == "completed"
    assert result.text.startswith("It costs 3.50 euros")
    assert result.output is None
    assert [request.output_schema.name for request in model.requests if request.output_schema] == ["Step", "Step"]
    values = [event.value for event in events if isinstance(event, PartialOutput)]
    assert values[-1]["say"].startswith("It costs")


async def test_a_model_without_schemas_reads_the_type_in_the_system_prompt() -> None:
    with Plain(*SCRIPT) as model:
        await run(Decider(), model)
    assert all(request.output_schema is None and '"look_up"' in request.system for request in model.requests)


async def test_the_user_gets_the_message_as_a_whole_and_no_piece_of_the_json() -> None:
    with ScriptedModel(*SCRIPT) as model:
        events, result = await run(Decider(), model)
    answers = [event.text for event in events if isinstance(event, TextDelta) and event.audience == "answer"]
    assert answers == [result.text]
    completed = [(event.audience, event.message.text) for event in events if isinstance(event, TurnCompleted)]
    assert completed == [("internal", SCRIPT[0]), ("answer", result.text)]


async def test_the_answer_of_a_sub_agent_is_a_draft() -> None:
    above = AgentConfig[None]()
    above.tools = (delegate(Decider(), description="Knows prices."),)
    model = ScriptedModel(call("decider", query="Tea?"), *SCRIPT, "3.50.")
    events, _ = await run(above, model)
    assert [event.audience for event in events if isinstance(event, TurnCompleted)] == [
        "answer",
        "internal",
        "draft",
        "answer",
    ]


class Thrifty(AgentConfig[None]):
    """Stops after half a dollar."""

    def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        spent = total(run.usage)
        self.seen.append((spent.tokens.total, spent.cost))
        return super().should_continue_loop(run)  # type: ignore[return-value]

    def __init__(self) -> None:
        self.tools = (price, delegate(Decider(), description="Knows prices."))
        self.seen: list[Any] = []


@pytest.mark.parametrize("cost", [Decimal("0.25"), None])
async def test_a_hook_sees_what_the_run_and_its_sub_agents_have_spent(cost: Decimal | None) -> None:
    agent = Thrifty()
    model = ScriptedModel(call("decider", query="Tea?"), *SCRIPT, "3.50.")
    await run(agent, model, price=lambda *_: (cost, "flat"))
    assert agent.seen == [(0, Decimal(0)), (45, cost and 3 * cost)]


class Internal(Decider):
    def interpret_response(self, run: RunContext[None], message: AssistantMessage) -> Turn:
        return Turn(message, (), audience="internal")


async def test_an_internal_message_is_never_the_answer() -> None:
    _, result = await run(Internal(), ScriptedModel(SCRIPT[0]))
    assert (result.status, result.text) == ("completed", "")


async def test_a_run_that_breaks_off_has_no_json_as_its_text() -> None:
    broken = Answer(text=SCRIPT[0], error=RuntimeError("broken"))
    for agent, text in ((Decider(), ""), (AgentConfig[None](), SCRIPT[0])):
        orchestrator = ToolOrchestrator(Chat("Tea?", model=ScriptedModel(broken)), agent)
        with pytest.raises(RunError):
            await orchestrator.run()
        assert orchestrator.result is not None
        assert orchestrator.result.text == text
