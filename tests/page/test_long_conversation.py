"""A conversation of 10,000 messages in Chromium."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from concertino import Chat, ModelRequest, Runtime, Scope, ToolMessage
from concertino.testing import call

from .conftest import Desk
from .kit import DeskModel, desk
from .server import listening
from .test_browser import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TURNS = 2_500
"""Each has a question, a call, its result and an answer."""


class LookingUp(DeskModel):
    """Looks something up for each answer."""

    def _step(self, request: ModelRequest) -> Any:
        last = request.messages[-1]
        if not isinstance(last, ToolMessage):
            return call("noisy")
        asked = [each for each in request.messages if each.role == "user"][-1]
        return f"The answer to {asked.text}."


@pytest.fixture
async def shop(tmp_path: Path, chromium: Any) -> AsyncIterator[tuple[Desk, str]]:
    async with AsyncExitStack() as stack:
        model = LookingUp()
        app = await stack.enter_async_context(desk(tmp_path, model=model))
        runtime: Runtime = app.state.runtime
        conversation = await runtime.conversation(Scope("acme", "ann"), agent="desk")
        for number in range(TURNS):
            turn = await conversation.send(Chat(f"question {number}"))
            await turn.result()
        made = Desk(await stack.enter_async_context(listening(app)), model, chromium)
        yield made, conversation.id
        assert made.problems == []


async def test_it_opens_with_its_end_and_scrolls_back(shop: tuple[Desk, str]) -> None:
    made, conversation = shop
    page = await made.open(f"/c/{conversation}")
    turns = page.locator("article.turn")
    await expect(turns.last).to_contain_text(f"The answer to question {TURNS - 1}.")
    await expect(turns.last.locator(".answer")).to_be_in_viewport()
    assert await turns.count() < 60, "only the last pages are there"
    await turns.last.hover()
    oldest = await page.locator("article.turn .message").first.text_content()
    looked_at = page.get_by_text(oldest, exact=True)
    while not await looked_at.evaluate("each => each.getBoundingClientRect().top > 0"):
        await page.mouse.wheel(0, -200)
    await expect(page.locator("article.turn .message").first).not_to_have_text(oldest)
    await expect(looked_at).to_be_in_viewport()  # what was loaded above has moved nothing
    await page.evaluate(
        """async () => {
            while (document.querySelectorAll("article.turn").length < 240) {
                document.querySelector("article.turn").scrollIntoView();
                await new Promise((next) => setTimeout(next, 10));
            }
        }"""
    )
    found = await shown(page)
    ids = list(found)
    middle, quarter = (page.locator(f"#{ids[len(ids) // part]}") for part in (2, 4))
    await expect(middle.locator(".distant")).to_have_count(1)
    drawn = await page.locator("article.turn .question").count()
    assert drawn < 60, "turns far from the viewport are reduced to their text"
    assert await page.evaluate("document.querySelectorAll('#turns *').length") < 60 * 70 + 2 * TURNS
    height = await middle.evaluate("each => each.getBoundingClientRect().height")
    text = f"The answer to question {found[ids[len(ids) // 2]]}."
    assert await page.evaluate("text => find(text, false, false, true)", text), "a search in the page finds it"
    await middle.scroll_into_view_if_needed()
    await expect(middle.get_by_role("button", name="Copy answer")).to_be_in_viewport()
    assert abs(await middle.evaluate("each => each.getBoundingClientRect().height") - height) < 2
    await middle.get_by_role("button", name="Good answer").focus()
    await quarter.scroll_into_view_if_needed()
    await expect(quarter.get_by_role("button", name="Copy answer")).to_be_in_viewport()
    await expect(middle.get_by_role("button", name="Good answer")).to_be_focused()

    await page.get_by_role("button", name="Newest").click()
    await expect(turns.last.get_by_role("button", name="Copy answer")).to_be_in_viewport()
    await page.get_by_label("Message", exact=True).fill("one more")
    await page.keyboard.press("Enter")
    await expect(turns.last).to_contain_text("The answer to one more.")
    assert list((await shown(page)).values())[:-1] == list(range(TURNS - len(await shown(page)) + 1, TURNS))


async def shown(page: Any) -> dict[str, int | None]:
    """Return the numbers of the turns by id, in their order. Each is there once."""
    pairs = await page.evaluate(
        "[...document.querySelectorAll('article.turn')].map((each) => [each.id, each.textContent])"
    )
    assert len(dict(pairs)) == len(pairs)
    numbers = {id: re.search(r"question (\d+)", text) for id, text in pairs}
    return {id: int(found[1]) if found else None for id, found in numbers.items()}
