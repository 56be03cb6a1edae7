"""The field of a chat in Chromium: messages are sent in order, and none is lost, however slow the server is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .conftest import Desk
from .test_browser import answer, answered, expect, send

pytestmark = pytest.mark.browser


async def test_a_message_is_sent_while_the_title_of_the_first_is_stored(shop: Desk) -> None:
    page = await shop.open()
    stored = asyncio.Event()

    async def later(route: Any) -> None:
        if route.request.method == "PATCH":
            await stored.wait()
        await route.continue_()

    await page.route("**/api/conversations/*", later)
    await send(page, "first")
    await answered(page)
    await send(page, "second")
    await answered(page, 2)
    stored.set()
    await expect(page.get_by_role("heading", name="first")).to_be_visible()


async def test_messages_written_while_one_is_sent_follow_it(shop: Desk) -> None:
    page = await shop.open()
    reached, taken = asyncio.Event(), asyncio.Event()

    async def later(route: Any) -> None:
        reached.set()
        await taken.wait()
        await route.continue_()

    await page.route("**/turns", later)
    await send(page, "first")
    await reached.wait()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
    await send(page, "second")
    await page.keyboard.press("Enter")  # an empty field sends nothing
    await page.get_by_label("Message", exact=True).fill("not yet sent")
    taken.set()
    await answered(page, 2)
    await expect(page.locator("article.turn .message")).to_have_text(["first", "second"])
    await expect(page.get_by_label("Message", exact=True)).to_have_value("not yet sent")


async def test_a_message_that_was_not_sent_returns_with_its_files(shop: Desk) -> None:
    page = await shop.open()
    file = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"notes"}
    await page.locator("#file-input").set_input_files([file])
    await page.route("**/turns", lambda route: route.abort())
    await send(page, "read this")
    await expect(page.get_by_text("The server does not answer.")).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("read this")
    await expect(page.locator("#files li")).to_have_count(1)
    await page.unroute("**/turns")
    await page.keyboard.press("Enter")
    await answered(page)
    await expect(page.locator("article.turn")).to_contain_text("notes.txt")
    shop.problems[:] = [each for each in shop.problems if "ERR_FAILED" not in each]


async def test_a_double_click_counts_once(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "first")
    await answered(page)
    await page.get_by_role("button", name="Edit message").click()
    await page.get_by_label("Edited message").fill("second")
    await page.get_by_role("button", name="Send", exact=True).first.dblclick()
    await expect(answer(page)).to_contain_text("You said: second")
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await page.goto(shop.address + "/workers/analyst")
    await page.get_by_label("A new goal").fill("all orders")
    await page.evaluate(
        "const form = document.getElementById('goal-form'); form.requestSubmit(); form.requestSubmit();"
    )
    await answered(page)
    await expect(page.locator("#conversations a")).to_have_count(2)
