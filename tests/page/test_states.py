"""States of the page in Chromium that a reader meets seldom: slow requests, narrow screens, errors."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from .conftest import Desk
from .test_browser import answered, expect, send

pytestmark = pytest.mark.browser
PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 700}, "is_mobile": True, "has_touch": True}


async def test_a_message_is_shown_before_the_server_has_it(shop: Desk) -> None:
    page = await shop.open()
    created, taken = asyncio.Event(), asyncio.Event()

    async def later(route: Any) -> None:
        await (taken if route.request.url.endswith("/turns") else created).wait()
        await route.continue_()

    await page.route("**/api/conversations**", later)
    await page.route("**/api/conversations/*/turns", later)
    await send(page, "first")
    unsent = page.locator("#outbox .message")
    await expect(unsent).to_have_text("first")
    await expect(page.locator(".welcome")).to_be_hidden()
    created.set()
    await send(page, "second")
    await expect(unsent).to_have_text(["first", "second"])
    taken.set()
    await answered(page, 2)
    await expect(unsent).to_have_count(0)
    await expect(page.locator("article.turn .message")).to_have_text(["first", "second"])


async def test_a_message_that_was_not_sent_is_no_longer_shown(shop: Desk) -> None:
    page = await shop.open()
    await page.route("**/api/conversations", lambda route: route.abort())
    await send(page, "first")
    await expect(page.get_by_text("The server does not answer.")).to_be_visible()
    await expect(page.locator("#outbox .message")).to_have_count(0)
    await expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    shop.problems[:] = [each for each in shop.problems if "ERR_FAILED" not in each]


async def test_a_chat_with_a_worker_shows_its_living_document(shop: Desk) -> None:
    page = await shop.open()
    document = page.get_by_role("region", name="Living document")
    await expect(document).to_be_hidden()
    await page.get_by_role("radio", name="Analyst <b>").check(force=True)
    await send(page, "all orders")
    await answered(page)
    await expect(document).to_contain_text("Two orders are late <script>")


async def test_a_chat_whose_first_turn_ends_before_it_is_listed_shows_its_document(shop: Desk) -> None:
    page = await shop.open()
    ended = asyncio.Event()

    async def later(route: Any) -> None:
        await ended.wait()
        await route.continue_()

    await page.route(re.compile("/c/[^/]+/turns"), later)
    await page.get_by_role("radio", name="Analyst <b>").check(force=True)
    async with page.expect_response("**/api/conversations/*/turns") as taken:
        await send(page, "all orders")
    response = await taken.value
    await page.request.get(f"{response.url}/{(await response.json())['id']}/events")
    ended.set()
    await expect(page.get_by_role("region", name="Living document")).to_contain_text("Two orders are late")


async def test_edited_arguments_stand_in_place_of_the_original_ones(shop: Desk) -> None:
    page = await shop.open(**PHONE)
    await send(page, "refund")
    card = page.get_by_role("region", name="Allow refund?")
    await card.get_by_role("button", name="Edit arguments").click()
    await expect(card.get_by_text("These exact arguments will be used")).to_be_hidden()
    await expect(card.get_by_role("textbox", name="These arguments will be used, as JSON")).to_be_focused()
    await expect(card.get_by_role("button", name="Allow")).to_be_in_viewport(ratio=1)
    await card.get_by_role("button", name="Use the original").click()
    await expect(card.get_by_text("These exact arguments will be used")).to_be_visible()


async def test_controls_keep_their_size_on_a_phone(shop: Desk) -> None:
    page = await shop.open(**PHONE)
    await send(page, "refund")
    await expect(page.get_by_role("region", name="Allow refund?")).to_be_visible()
    for name in ("Stop the answer", "Send"):
        box = await page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box["width"] == box["height"], name
    await page.goto(shop.address + "/usage")
    label = page.locator(".days-axis li", has_text="15")
    assert (await label.bounding_box())["height"] >= 16


async def test_nothing_behind_an_open_menu_or_panel_takes_the_focus(shop: Desk) -> None:
    page = await shop.open(**PHONE)
    await send(page, "Hi")
    await answered(page)
    for opener, closed in (("Open menu", "Close menu"), ("Details", "Close details")):
        await page.get_by_role("button", name=opener).click()
        await expect(page.get_by_role("button", name=closed)).to_be_visible()
        for _ in range(25):
            await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.closest('main, .skip')") is None
        await page.set_viewport_size({"width": 1200, "height": 700})
        await expect(page.locator("main")).not_to_have_attribute("inert", "")
        await page.get_by_label("Message", exact=True).focus()
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.set_viewport_size(PHONE["viewport"])
        await page.get_by_role("button", name=closed).click()
        await expect(page.get_by_role("button", name=opener)).to_be_focused()


async def test_the_state_of_a_call_is_not_cut_off(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "research")
    await answered(page)
    state = page.locator(".call-state").first
    await state.evaluate("(each) => (each.previousElementSibling.textContent = 'long '.repeat(100))")
    assert await state.evaluate("(each) => each.scrollWidth <= each.clientWidth")


async def test_stop_at_the_end_of_an_answer_shows_the_answer(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "slow")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()

    async def later(route: Any) -> None:
        shop.model.gate.set()
        await page.request.get(f"{route.request.url.removesuffix('/stop')}/events")
        await route.continue_()

    await page.route("**/stop", later)
    async with page.expect_response("**/stop") as stopped:
        await page.get_by_role("button", name="Stop the answer").click()
    assert (await stopped.value).status == 409
    await answered(page)
    await page.evaluate("() => fetch('/api/agents').then((found) => found.json())")  # the error has arrived by now
    assert await page.locator(".toast").count() == 0
    await expect(page.locator("#announce")).to_have_text("The answer is complete.")
    shop.problems[:] = [each for each in shop.problems if "409" not in each]


async def test_a_long_name_of_a_tool_does_not_widen_a_phone(shop: Desk) -> None:
    page = await shop.open(**PHONE)
    await send(page, "research")
    await answered(page)
    name = page.locator(".call-name").first
    await name.evaluate("(each) => (each.textContent = 'a_long_name_'.repeat(6))")
    scroll = page.locator("#scroll")
    assert await scroll.evaluate("(each) => each.scrollWidth <= each.clientWidth")
    assert await page.locator(".call-state").first.evaluate("(each) => each.scrollWidth <= each.clientWidth")


async def test_an_edited_message_has_the_width_of_the_column(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "Hi")
    await answered(page)
    await page.get_by_role("button", name="Edit message").click()
    box = await page.get_by_label("Edited message").bounding_box()
    assert box["width"] > 500
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Edit message")).to_be_focused()


async def test_an_address_that_does_not_exist_is_a_page(shop: Desk) -> None:
    page = await shop.open("/nothing")
    await page.get_by_role("link", name="Start a new chat").click()
    await expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    shop.problems[:] = [each for each in shop.problems if "404" not in each]


async def test_texts_have_their_own_direction(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "\u0645\u0631\u062d\u0628\u0627 \u0627\u0644\u0639\u0627\u0644\u0645")
    await answered(page)
    edges = """each => {
        const range = document.createRange();
        range.selectNodeContents(each);
        const [text, box] = [range.getBoundingClientRect(), each.getBoundingClientRect()];
        return [text.left - box.left, box.right - text.right];
    }"""
    title = page.locator("#conversations .conversation-title")
    left, right = await title.evaluate(edges)
    assert right < 1 < left, "it begins at the right"
    left, right = await page.locator(".answer .prose p").evaluate(edges)
    assert left < 1 < right, "an English text begins at the left"


async def test_a_chosen_theme_is_there_before_the_page_is_drawn(shop: Desk) -> None:
    page = await shop.open()
    await page.get_by_role("button", name="Theme: system").click()
    await page.get_by_role("button", name="Theme: light").click()
    await page.route("**/app.js", lambda route: route.abort())
    await page.goto(shop.address + "/usage")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    shop.problems[:] = [each for each in shop.problems if "ERR_FAILED" not in each]


async def test_a_window_has_the_title_of_its_chat(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "Where is my <b>order</b>?")
    await expect(page).to_have_title("Where is my <b>order</b>? \u00b7 Desk")


async def test_older_chats_are_listed_on_demand(shop: Desk) -> None:
    page = await shop.open()
    for number in range(45):
        made = await (await page.request.post(f"{shop.address}/api/conversations", data={})).json()
        await page.request.patch(f"{shop.address}/api/conversations/{made['id']}", data={"title": f"chat {number}"})
    await page.reload()
    chats = page.locator("#conversations a")
    await expect(chats).to_have_count(40)
    await page.get_by_role("button", name="Show older chats").press("Enter")
    await expect(chats).to_have_count(45)
    await expect(chats.nth(40)).to_be_focused()
    await send(page, "hello")
    await answered(page)
    await expect(chats).to_have_count(46)


async def test_enter_sends_an_edited_message(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "first")
    await answered(page)
    await page.get_by_role("button", name="Edit message").click()
    await page.get_by_label("Edited message").fill("second")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("line")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await expect(page.locator("article.turn .message")).to_have_text("second\nline")


async def test_the_end_of_an_answer_is_announced_even_if_its_stream_opens_later(shop: Desk) -> None:
    page = await shop.open()
    announced = page.locator("#announce")
    ended = asyncio.Event()

    async def later(route: Any) -> None:
        await ended.wait()
        await route.continue_()

    await page.route(re.compile("/c/[^/]+/turns"), later)
    async with page.expect_response("**/api/conversations/*/turns") as taken:
        await send(page, "hello")
    response = await taken.value
    await page.request.get(f"{response.url}/{(await response.json())['id']}/events")
    ended.set()
    await expect(announced).to_have_text("The answer is complete.")
    await send(page, "fail")
    await expect(announced).to_have_text("The answer failed.")
    for text in ("refund", "refund"):
        await send(page, text)
        await expect(announced).to_have_text("Waiting for your approval")
        await page.get_by_role("button", name="Allow").click()
        await expect(announced).to_have_text("The answer is complete.")
