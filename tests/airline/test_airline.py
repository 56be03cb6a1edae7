"""The 50 tasks of tau2's airline, with the gold calls made by a scripted model: the tools' results, the database at the
end and the usage are as recorded, and each request is one that all providers take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AssistantMessage,
    Chat,
    MemoryStore,
    Message,
    ModelRequest,
    Resources,
    RunResult,
    SqliteStore,
    ToolMessage,
    ToolOrchestrator,
    UserMessage,
)
from concertino.storage import Store
from concertino.testing import call
from concertino.usage import Tokens

from ..runtime.kit import Steady
from ..validity.judge import problems
from .airline import Airline
from .conftest import Published
from .desk import READS, Desk, DeskTool, agent

TASKS = [str(number) for number in range(50)]
SILENT = ["0", "10", "26", "28", "31", "34", "46"]
"""The tasks without a gold call: the agent must only talk."""
GOODBYE = "Thank you. Is there anything else?"


def made(name: str, arguments: dict[str, Any]) -> Any:
    """A scripted call."""
    return call(name, json.dumps(arguments))


def gold_model(steps: list[dict[str, Any]]) -> Steady:
    """Makes the gold calls one by one, as the policy wants it."""
    return Steady(*(made(step["name"], step["arguments"]) for step in steps), GOODBYE)


def chat_of(published: Published, task: str, model: Steady, desk: Desk, store: Store) -> dict[str, Any]:
    """Return the chat and the resources of a task, as arguments of an orchestrator."""
    return {
        "chat": Chat(published.asked(task), model=model),
        "resources": Resources(deps=desk, store=store),
    }


def refused(request: ModelRequest) -> dict[str, list[str]]:
    """What the vendors would refuse in *request*, by format."""
    return problems(replace(request, breakpoints=(len(request.messages) - 1,)))


def next_request(request: ModelRequest, messages: tuple[Message, ...]) -> ModelRequest:
    """The request that would come after the run, when the user goes on."""
    return replace(request, messages=[*messages, UserMessage("And something else.")])


def results(result: RunResult) -> Iterator[tuple[str, bool]]:
    return ((message.content, message.is_error) for message in result.messages if isinstance(message, ToolMessage))


@pytest.mark.parametrize("task", TASKS)
async def test_the_gold_calls_end_as_recorded(published: Published, task: str) -> None:
    steps = published.gold[task]["steps"]
    model, desk, store = gold_model(steps), Desk(Airline(published.database)), MemoryStore()
    config = agent(published.policy, published.tools)
    result = await ToolOrchestrator(config=config, **chat_of(published, task, model, desk, store)).run()
    assert (result.status, result.text) == ("completed", GOODBYE)
    assert list(results(result)) == [(step["content"], step["error"]) for step in steps]
    assert desk.airline.database == published.expected(task)
    assert len(desk.outcomes) == sum(step["name"] not in READS for step in steps)
    assert result.tool_call_count == len(steps)
    used = sum((record.tokens for record in result.usage), Tokens())
    assert used == Tokens(prompt=10 * (len(steps) + 1), completion=5 * (len(steps) + 1))
    for request in (*model.requests, next_request(model.requests[-1], result.messages)):
        assert refused(request) == {}


@pytest.mark.parametrize("task", TASKS)
async def test_all_calls_in_one_turn_end_the_same(published: Published, task: str) -> None:
    """One after another, as they stand, though the model asks for all of them at once."""
    steps = published.gold[task]["steps"]
    model = Steady(*([[made(step["name"], step["arguments"]) for step in steps]] if steps else []), GOODBYE)
    desk, store = Desk(Airline(published.database)), MemoryStore()
    config = agent(published.policy, published.tools, parallel=False)
    result = await ToolOrchestrator(config=config, **chat_of(published, task, model, desk, store)).run()
    assert list(results(result)) == [(step["content"], step["error"]) for step in steps]
    assert desk.airline.database == published.expected(task)
    assert refused(next_request(model.requests[-1], result.messages)) == {}


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize("task", [task for task in TASKS if task not in SILENT])
async def test_a_process_that_ends_in_a_call_changes_nothing(
    published: Published, task: str, after: bool, tmp_path: Path
) -> None:
    """Another process takes the run up over the same store, and all that was changed was changed once."""
    steps = published.gold[task]["steps"]
    writes = [place for place, step in enumerate(steps, 1) if step["name"] not in READS]
    desk = Desk(Airline(published.database), ends_at=writes[-1] if writes else len(steps), after=after)
    path = tmp_path / "runs.sqlite"
    config = agent(published.policy, published.tools)
    first_store = await SqliteStore.open(path)
    first = ToolOrchestrator(config=config, **chat_of(published, task, gold_model(steps), desk, first_store))
    running = asyncio.ensure_future(first.run())
    await asyncio.wait([running, asyncio.ensure_future(desk.reached.wait())], return_when=asyncio.FIRST_COMPLETED)
    first.park()
    await asyncio.wait([running])
    assert running.cancelled()
    await first_store.close()
    model, second_store = gold_model(steps), await SqliteStore.open(path)
    taken = chat_of(published, task, model, desk, second_store)
    taken["chat"] = replace(taken["chat"], message="")
    result = await ToolOrchestrator(config=config, run_id=first.run_id, resume=True, **taken).run()
    await second_store.close()
    assert (result.status, result.text) == ("completed", GOODBYE)
    assert list(results(result)) == [(step["content"], step["error"]) for step in steps]
    assert desk.airline.database == published.expected(task)
    assert len(desk.outcomes) == len(writes)
    assert sum(record.tokens.prompt for record in result.usage) == 10 * (len(steps) + 1)
    assert refused(next_request(model.requests[-1], result.messages)) == {}
    calls = [
        made for message in result.messages if isinstance(message, AssistantMessage) for made in message.tool_calls
    ]
    assert [asked.name for asked in calls] == [step["name"] for step in steps]


async def test_what_is_refused_changes_nothing(published: Published) -> None:
    """Each refusal is told to the model, and the conversation stays one that all providers take."""
    person = {"first_name": "A", "last_name": "B", "dob": "2000-01-01"}
    change = {
        "reservation_id": "XEHM4B",
        "cabin": "business",
        "flights": [{"flight_number": "HAT005", "date": "2024-05-20"}],
    }
    booking: dict[str, Any] = {
        "user_id": "sophia_silva_7557",
        "origin": "ORD",
        "destination": "PHL",
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [{"flight_number": "HAT271", "date": "2024-05-26"}],
        "passengers": [person],
        "payment_methods": [{"payment_id": "certificate_8045380", "amount": 174}],
        "total_baggages": 0,
        "nonfree_baggages": 0,
        "insurance": "no",
    }
    asked = {
        "no reservation NOBODY": call("cancel_reservation", reservation_id="NOBODY"),
        "no flight HAT999": call("get_flight_status", flight_number="HAT999", date="2024-05-20"),
        "no payment method gift_card_0": made("update_reservation_flights", {**change, "payment_id": "gift_card_0"}),
        "number of passengers": call("update_reservation_passengers", reservation_id="XEHM4B", passengers=[person]),
        "3 seats left": made("book_reservation", {**booking, "passengers": [person] * 4}),
        "price, which is 348": made("book_reservation", {**booking, "passengers": [person] * 2}),
        "price, which is 204": made("book_reservation", {**booking, "insurance": "yes"}),
        "price, which is 224": made("book_reservation", {**booking, "nonfree_baggages": 1}),
        "cannot be booked: landed": made(
            "book_reservation", {**booking, "flights": [{"flight_number": "HAT001", "date": "2024-05-01"}]}
        ),
        "has 500.0 dollars": made(
            "book_reservation", {**booking, "payment_methods": [{"payment_id": "certificate_8045380", "amount": 501}]}
        ),
        "cannot be calculated": call("calculate", expression="__import__('os')"),
        "cabin": made("book_reservation", {**booking, "cabin": "first"}),
        "date": call("search_direct_flight", origin="ORD", destination="PHL"),
    }
    model, desk = Steady(*asked.values(), GOODBYE), Desk(Airline(published.database))
    config = agent(published.policy, published.tools)
    result = await ToolOrchestrator(Chat(model=model, message="Please."), config, resources=Resources(deps=desk)).run()
    told = list(results(result))
    assert all(is_error for _, is_error in told)
    assert [words for (content, _), words in zip(told, asked, strict=True) if words not in content] == []
    assert desk.airline.database == published.database
    for request in (*model.requests, next_request(model.requests[-1], result.messages)):
        assert refused(request) == {}


async def test_the_tools_that_no_task_uses(published: Published) -> None:
    asked = [
        call("list_all_airports"),
        call("get_flight_status", flight_number="HAT001", date="2024-05-01"),
        call("search_onestop_flight", origin="JFK", destination="SEA", date="2024-05-24"),
        call("send_certificate", user_id="sophia_silva_7557", amount=100),
    ]
    model, desk = Steady(*asked, GOODBYE), Desk(Airline(published.database))
    config = agent(published.policy, published.tools)
    result = await ToolOrchestrator(Chat(model=model, message="Please."), config, resources=Resources(deps=desk)).run()
    airports, status, pairs, sent = (content for content, _ in results(result))
    assert {"JFK", "SEA"} < set(json.loads(airports))
    assert status == "landed"
    assert json.loads(pairs)
    for first, second in json.loads(pairs):
        assert (first["origin"], first["destination"], second["destination"]) == ("JFK", second["origin"], "SEA")
        ends = f"{first['date']} {first['scheduled_arrival_time_est']}"
        assert f"{second['date']} {second['scheduled_departure_time_est']}" >= ends or "+1" in ends
    name = sent.partition(" ")[0]
    assert desk.airline.users["sophia_silva_7557"]["payment_methods"][name]["amount"] == 100


def test_every_published_tool_is_served(published: Published) -> None:
    tools = [DeskTool(tool["function"]) for tool in published.tools]
    assert len(tools) == 14
    assert all(callable(getattr(Airline, tool.name)) for tool in tools)
    assert {tool.name for tool in tools} > READS
    assert [task for task in TASKS if not published.gold[task]["steps"]] == SILENT
