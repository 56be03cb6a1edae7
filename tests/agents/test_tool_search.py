"""`ToolSearch`: most tools are deferred, found, and called like any tool."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    Resources,
    Runtime,
    Scope,
    ToolOrchestrator,
    ToolRegistry,
)
from concertino.agents import Approvals, ToolSearch
from concertino.errors import ConfigurationError
from concertino.testing import ScriptedModel, call
from concertino.tools import Tool

ANN = Scope("acme", "ann")
WORDS = ("invoice", "customer", "shipment", "ticket", "calendar", "contract", "payment", "stock", "employee", "budget")
VERBS = ("create", "delete", "list", "update", "export")


class _Named(Tool):
    effect = "idempotent"
    parameters = {"type": "object", "properties": {"id": {"type": "string", "description": "The id of the record"}}}

    def __init__(self, verb: str, word: str) -> None:
        self.name = f"{word}s.{verb}_{word}"
        self.description = f"{verb.title()} one {word} of the company, with all its details and its history"

    def execute(self, arguments: dict[str, Any], context: Any) -> str:
        return f"{self.name} was called"


def registry() -> ToolRegistry:
    return ToolRegistry([_Named(verb, word) for word in WORDS for verb in VERBS])


def clerk(**settings: Any) -> AgentConfig[Any]:
    class Clerk(AgentConfig[Any]):
        name = "clerk"
        parts = (ToolSearch(**settings), Approvals("payments.delete_payment"))

    return Clerk()


def sent(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in model.requests]


async def test_found_tools_are_sent_and_called() -> None:
    steps = [call("find_tools", query="remove an invoice"), call("invoices_delete_invoice", id="1"), "Done."]
    with ScriptedModel(*steps) as model:
        result = await ToolOrchestrator(
            Chat("Go.", model=model), clerk(share=0.001, keep=["stocks.list_stock"], limit=3), registry()
        ).run()
    first, second, third = sent(model)
    assert sorted(first) == ["find_tools", "stocks_list_stock"]
    assert "invoices_delete_invoice" in second
    assert len(second) == 5
    assert third == second
    assert "invoices_delete_invoice: Delete one invoice" in result.messages[2].content  # type: ignore[union-attr]
    assert result.messages[4].content == "invoices.delete_invoice was called"  # type: ignore[union-attr]


async def test_below_the_share_nothing_changes() -> None:
    with ScriptedModel("Done.") as model:
        await ToolOrchestrator(Chat("Go.", model=model), clerk(), registry()).run()
    assert len(sent(model)[0]) == 50
    assert "find_tools" not in sent(model)[0]


async def test_the_share_is_one_of_the_models_context() -> None:
    with ScriptedModel("Done.") as model:
        limits = Limits(context=20_000, output=1_000)
        resources = Resources(limits=lambda *_: limits)
        await ToolOrchestrator(Chat("Go.", model=model), clerk(), registry(), resources=resources).run()
    assert sent(model)[0] == ["find_tools"]


async def test_the_next_run_of_the_conversation_still_has_what_was_found() -> None:
    agent = clerk(share=0, limit=1)
    with ScriptedModel(call("find_tools", query="create ticket"), call("tickets_create_ticket"), "Done.") as model:
        first = await ToolOrchestrator(Chat("Go.", model=model), agent, registry()).run()
    with ScriptedModel("Done.") as model:
        await ToolOrchestrator(Chat("Again.", model=model, history=first.messages), agent, registry()).run()
    assert sent(model)[0] == ["tickets_create_ticket", "find_tools"]


async def test_an_approval_of_a_found_tool_is_answered_by_another_process() -> None:
    store = MemoryStore()
    steps = [call("find_tools", query="delete payment"), call("payments_delete_payment", id="7")]
    first = Runtime([(clerk(share=0, limit=1), registry())], Resources(model=ScriptedModel(*steps)), store=store)
    run = await first.start(Chat("Go.", scope=ANN), "clerk")
    (wait,) = (await run.result()).waiting
    last = ScriptedModel("Done.")
    second = Runtime([(clerk(share=0, limit=1), registry())], Resources(model=last), store=store)
    await second.approve(ANN, wait.key)
    result = await (await second.resume(ANN, run.id)).result()
    assert result.messages[4].content == "payments.delete_payment was called"  # type: ignore[union-attr]
    assert sorted(sent(last)[0]) == ["find_tools", "payments_delete_payment"]


async def test_a_search_without_a_match_names_the_areas() -> None:
    with ScriptedModel(call("find_tools", query="xylophone"), "Done.") as model:
        result = await ToolOrchestrator(Chat("Go.", model=model), clerk(share=0), registry()).run()
    assert result.messages[2].content.startswith("No tool matches. There are tools of: ")  # type: ignore[union-attr]
    assert "invoices" in result.messages[2].content  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", [{"share": 2}, {"share": "a"}, {"limit": 0}, {"keep": "name"}])
def test_an_invalid_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=rf"ToolSearch\({next(iter(settings))}="):
        ToolSearch(**settings)
