"""Questions of agents in Chromium: a form that can be filled with the keyboard, and sends nothing by surprise."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import MemoryStore, Resources, Runtime
from concertino.agents import HumanStep, Workflow, WorkflowAgent
from concertino.server import create_app
from concertino.server.page import page_routes
from concertino.testing import ScriptedModel

from .conftest import Desk
from .kit import DeskModel, authenticate
from .server import listening
from .test_browser import answer, answered, expect, send

pytestmark = pytest.mark.browser


async def asked(page: Any, kind: str) -> Any:
    await send(page, f"survey {kind}")
    card = page.get_by_role("region", name="A question for you")
    await expect(card).to_contain_text(f"Which {kind} <b>?")
    return card


async def test_enter_answers_a_question_of_one_text(shop: Desk) -> None:
    page = await shop.open()
    card = await asked(page, "name")
    field = card.get_by_role("textbox", name="Answer", description="Which name <b>?")
    await field.press("Enter")
    await expect(card.get_by_role("button", name="Answer")).to_be_enabled()
    await field.fill("Ann")
    await field.press("Shift+Enter")
    await page.keyboard.type("Lee")
    await field.press("Enter")
    await answered(page)
    await expect(card).to_have_count(0)
    await expect(answer(page)).to_contain_text("Done: Ann")


async def test_a_choice_is_made_with_the_keyboard(shop: Desk) -> None:
    page = await shop.open()
    card = await asked(page, "colour")
    await expect(card.get_by_role("group", name="Answer", description="Which colour <b>?")).to_be_visible()
    await card.get_by_role("radio", name="red <i>").focus()
    await page.keyboard.press("Space")
    await page.keyboard.press("ArrowDown")
    await expect(card.get_by_role("radio", name="blue")).to_be_checked()
    await page.keyboard.press("Tab")
    await expect(card.get_by_role("button", name="Answer")).to_be_focused()
    await page.keyboard.press("Enter")
    await answered(page)
    await expect(answer(page)).to_contain_text("Done: blue")


async def test_a_form_is_sent_by_its_button_only(shop: Desk) -> None:
    page = await shop.open()
    sent: list[Any] = []
    page.on("request", lambda each: sent.append(each.post_data_json) if "/api/questions/" in each.url else None)
    card = await asked(page, "form")
    name = card.get_by_label("Your name", exact=True)
    await name.fill("Ann")
    await card.get_by_role("radio", name="Fish").check()
    await name.press("Enter")
    await card.get_by_label("Seats (optional)").fill("9")
    await card.get_by_role("button", name="Answer").click()
    assert await card.get_by_label("Seats (optional)").evaluate("(each) => each.validity.rangeOverflow")
    assert sent == []
    await card.get_by_label("Seats (optional)").fill("2")
    await card.get_by_role("checkbox", name="Monday").check()
    await card.get_by_role("combobox").select_option("c")
    await card.get_by_role("button", name="Answer").click()
    await answered(page)
    (given,) = [each["answer"] for each in sent]
    assert given.pop("__proto__") == "c"
    assert given == {"name": "Ann", "seats": 2, "size": 1.5, "window": True, "meal": "f", "days": ["mo"]}


async def test_a_nested_answer_is_json(shop: Desk) -> None:
    page = await shop.open()
    card = await asked(page, "nested")
    field = card.get_by_label("Answer as JSON")
    await field.fill("[1]")
    await card.get_by_role("button", name="Answer").click()
    await expect(card.get_by_role("alert")).to_contain_text("not a JSON object")
    await expect(field).to_be_focused()
    await field.fill('{"where": {"floor": 2}}')
    await card.get_by_role("button", name="Answer").click()
    await answered(page)
    await expect(answer(page)).to_contain_text('"floor": 2')


async def test_an_answer_keeps_all_digits(shop: Desk) -> None:
    page = await shop.open()
    card = await asked(page, "number")
    await card.get_by_role("spinbutton").first.fill("9007199254740993")
    await card.get_by_role("spinbutton").last.fill(".5")
    await card.get_by_role("button", name="Answer").click()
    await answered(page)
    await expect(answer(page)).to_contain_text('"id": 9007199254740993, "share": 0.5')
    card = await asked(page, "nested")
    await card.get_by_label("Answer as JSON").fill('{"where": {"floor": 9007199254740993}}')
    await card.get_by_role("button", name="Answer").click()
    await answered(page, 2)
    await expect(answer(page)).to_contain_text('"floor": 9007199254740993')


async def test_a_question_is_declined_after_a_second_thought(shop: Desk) -> None:
    page = await shop.open()
    card = await asked(page, "name")
    await card.get_by_role("textbox", name="Answer").press("Escape")
    await card.get_by_role("button", name="Decline").click()
    await page.keyboard.press("Escape")
    await expect(card).to_be_visible()
    await card.get_by_role("button", name="Decline").click()
    await page.get_by_role("dialog").get_by_role("button", name="Decline").click()
    await answered(page)
    await expect(answer(page)).to_contain_text("Done: None")


async def test_a_page_that_was_opened_is_confirmed(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "visit")
    card = page.get_by_role("region", name="An agent asks you to open a page")
    await card.get_by_role("button", name="Done").click()
    await answered(page)
    await expect(card).to_have_count(0)


@pytest.mark.parametrize("decision", ["answer", "deny"])
async def test_a_question_of_a_workflow_is_approved_with_an_answer(chromium: Any, decision: str) -> None:
    flow = Workflow(name="release", steps=[HumanStep(id="ask", question="Release <b>?", output="when")], answer="$when")
    runtime = Runtime([WorkflowAgent(flow)], Resources(model=ScriptedModel(), store=MemoryStore()), sweep=0.05)
    async with runtime, listening(create_app(runtime, authenticate, routes={"": page_routes()})) as address:
        desk = Desk(address, DeskModel(), chromium)
        page = await desk.open()
        await send(page, "ship it")
        card = page.get_by_role("region", name="A question for you")
        await expect(card).to_contain_text("Release <b>?")
        await expect(card.get_by_role("button", name="Edit arguments")).to_have_count(0)
        field = card.get_by_label("Answer (optional)")
        await field.fill("on Monday")
        await field.press("Enter")
        if decision == "answer":
            await card.get_by_role("button", name="Approve").click()
        else:
            await card.get_by_role("button", name="Deny").click()
            await expect(field).to_be_hidden()
            await card.get_by_label("Reason (optional; the agent reads it)").press("Enter")
        await expect(card).to_have_count(0)
        shown = "on Monday" if decision == "answer" else "no reason was given"
        await expect(answer(page)).to_contain_text(shown)
        assert desk.problems == []
