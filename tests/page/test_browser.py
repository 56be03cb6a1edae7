"""The page in Chromium: what people do with it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from .conftest import PATIENCE, Desk
from .kit import PIXEL

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")


def expect(locator: Any) -> Any:
    from playwright.async_api import expect

    expect.set_options(timeout=PATIENCE)
    return expect(locator)


async def send(page: Any, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def answer(page: Any, number: int = -1) -> Any:
    return page.locator("article.turn").nth(number).locator(".answer")


async def answered(page: Any, count: int = 1) -> None:
    await expect(page.get_by_role("button", name="Copy answer")).to_have_count(count)


async def test_a_chat_streams_and_stops(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "slow please")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    await expect(page.get_by_text("Writing", exact=True)).to_be_visible()
    await expect(page).to_have_url(re.compile(r"/c/conv_"))
    await page.get_by_role("button", name="Stop the answer").click()
    await expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    await expect(page.get_by_role("button", name="Stop the answer")).to_be_hidden()
    await expect(page.locator("#conversations").get_by_text("slow please")).to_be_visible()


async def test_markdown_and_code_are_shown_and_copied(shop: Desk) -> None:
    page = await shop.open(permissions=["clipboard-read", "clipboard-write"])
    await send(page, "markdown")
    await answered(page)
    await expect(answer(page).locator("table td").first).to_have_text("1")
    await answer(page).get_by_role("button", name="Copy", exact=True).click()
    await expect(answer(page).get_by_role("button", name="Copy", exact=True)).to_have_class(re.compile("done"))
    await expect(page.get_by_role("status").filter(has_text="Copied.")).to_have_count(1)
    assert "def rows(path)" in await page.evaluate("navigator.clipboard.readText()")
    await page.get_by_role("button", name="Copy answer").click()
    await page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('Here is **how**'))")


async def test_an_answer_is_made_again_and_a_message_edited(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "first")
    await answered(page)
    await page.get_by_role("button", name="Answer again").click()
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await answered(page)
    await page.locator(".question").hover()
    await page.get_by_role("button", name="Edit message").click()
    await page.get_by_label("Edited message").fill("second")
    await page.locator(".edit-form").get_by_role("button", name="Send").click()
    await expect(page.get_by_text("You said: second")).to_be_visible()
    await expect(page.get_by_text("3 of 3")).to_be_visible()
    await page.get_by_role("button", name="Previous version").click()
    await expect(page.get_by_text("You said: first")).to_be_visible()
    await expect(page.get_by_text("2 of 3")).to_be_visible()
    await answered(page)
    await send(page, "third")
    await answered(page, 2)
    await page.get_by_role("button", name="Continue from here in a new branch").first.click()
    await expect(page.locator("article.turn")).to_have_count(1)
    await send(page, "fourth")
    await answered(page, 2)
    await expect(answer(page)).to_contain_text("You said: fourth")
    await expect(page.locator("article.turn").last.get_by_text("2 of 2")).to_be_visible()


async def test_a_call_is_allowed_with_other_arguments(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "refund")
    card = page.get_by_role("region", name="Allow refund?")
    await expect(card.locator("pre")).to_contain_text('"order": "A-17 <b>"')
    await expect(card.locator("pre")).to_contain_text('"euros": 120')
    await card.get_by_role("button", name="Edit arguments").click()
    field = card.get_by_label("These arguments will be used, as JSON")
    await field.fill("{")
    await card.get_by_role("button", name="Allow").click()
    await expect(card.get_by_role("alert")).to_contain_text("not a JSON object")
    await field.fill('{"order": "A-17", "euros": 20}')
    await card.get_by_role("button", name="Allow").click()
    await answered(page)
    await expect(answer(page)).to_contain_text("20 euros for order A-17")
    await expect(card).to_have_count(0)


@pytest.mark.parametrize("edited", [False, True])
async def test_arguments_keep_all_digits(shop: Desk, *, edited: bool) -> None:
    page = await shop.open()
    sent: list[Any] = []
    page.on("request", lambda each: sent.append(each.post_data_json) if "/api/approvals/" in each.url else None)
    await send(page, "large")
    card = page.get_by_role("region", name="Allow refund?")
    await card.get_by_role("button", name="Edit arguments").click()
    if edited:
        await card.get_by_label("These arguments will be used, as JSON").press("ControlOrMeta+End")
        await page.keyboard.type(" ")
    await card.get_by_role("button", name="Allow").click()
    await answered(page)
    await expect(answer(page)).to_contain_text("9007199254740993 euros for order A-17")
    assert [set(each) for each in sent] == [{"decision", "remember"} | ({"arguments"} if edited else set())]


async def test_a_call_is_denied_with_a_reason_on_the_page_of_approvals(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "refund")
    await expect(page.get_by_role("region", name="Allow refund?")).to_be_visible()
    other = await shop.open("/approvals")
    card = other.get_by_role("region", name="Allow refund?")
    await card.get_by_role("button", name="Deny").click()
    await card.get_by_label("Reason (optional; the agent reads it)").fill("too late")
    await card.get_by_role("button", name="Deny").click()
    await expect(card).to_have_count(0)
    await answered(page)
    await expect(answer(page)).to_contain_text("too late")


async def test_enter_in_the_reason_denies(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "refund")
    card = page.get_by_role("region", name="Allow refund?")
    await card.get_by_role("button", name="Deny").click()
    await expect(card.get_by_role("button", name="Allow")).to_be_hidden()
    await page.keyboard.press("Escape")
    await expect(card.get_by_role("button", name="Allow")).to_be_visible()
    await expect(card.get_by_role("button", name="Deny")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.type("too late")
    await page.keyboard.press("Enter")
    await answered(page)
    await expect(answer(page)).to_contain_text("too late")
    await expect(answer(page)).not_to_contain_text("120 euros for order")


async def test_escape_leaves_a_dialog_or_a_form_and_not_the_answer(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "slow")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    stopped: list[str] = []
    page.on("request", lambda request: stopped.append(request.url) if request.url.endswith("/stop") else None)
    await page.get_by_role("button", name="Rename chat").click()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_label("While an answer is in progress").focus()
    await page.keyboard.press("Escape")
    shop.model.gate.set()
    await answered(page)
    await send(page, "refund")
    await page.get_by_role("button", name="Edit arguments").click()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Edit arguments")).to_be_focused()
    await page.get_by_role("button", name="Allow").click()
    await answered(page, 2)
    assert stopped == []


async def test_agents_their_timeline_and_their_cost(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "research")
    await answered(page)
    await answer(page).get_by_text("3 agents").click()
    await expect(answer(page).locator(".agent-tree")).to_contain_text("What do threads cost?")
    await page.get_by_role("button", name=re.compile("Details")).click()
    panel = page.get_by_role("complementary", name="Details of a run")
    await expect(panel.get_by_role("heading", name="Tokens per agent")).to_be_visible()
    await expect(panel.get_by_role("img", name="Helper 2 in time")).to_be_visible()
    assert await panel.locator("svg.chart").count() >= 6
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await expect(page.get_by_role("button", name=re.compile("Details"))).to_be_focused()


async def test_the_panel_follows_a_turn_in_progress(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "slow")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    await page.get_by_role("button", name=re.compile("Details")).click()
    panel = page.get_by_role("complementary", name="Details of a run")
    await expect(panel.get_by_text("running").first).to_be_visible()
    shop.model.gate.set()
    await expect(panel.locator("dd").first).to_have_text("completed")


async def test_files_are_sent_and_pictures_shown(shop: Desk) -> None:
    page = await shop.open()
    hostile = "long " * 45 + '<img src=x onerror=alert(1)>".png'
    files = [
        {"name": hostile, "mimeType": "image/png", "buffer": PIXEL},
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"notes"},
    ]
    await page.locator("#file-input").set_input_files(files)
    await expect(page.locator("#files li:not(.uploading)")).to_have_count(2)
    await page.get_by_role("button", name="Remove notes.txt").click()
    await send(page, "picture of this")
    await answered(page)
    images = page.locator("article img")
    await expect(images).to_have_count(2)
    for index in range(2):
        assert await images.nth(index).evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    assert await images.first.get_attribute("alt") == hostile[-200:]


async def test_what_strangers_write_is_text(shop: Desk) -> None:
    page = await shop.open()
    for number, text in enumerate(("hostile <img src=x onerror=alert(1)>", "noisy", "fail"), 1):
        await send(page, text)
        await answered(page, number)
    await answer(page, 1).locator("summary").first.click()
    await expect(answer(page, 1).locator(".call-content")).to_contain_text("<script>")
    await page.get_by_role("button", name=re.compile("Details")).last.click()
    await expect(page.locator("#panel")).to_contain_text('<i>"model"</i>')
    assert "owned" not in await page.title()
    assert await page.locator("article img, article script").count() == 0
    await page.reload()
    await answered(page, 3)
    assert "owned" not in await page.title()


async def test_two_browsers_show_the_same(shop: Desk) -> None:
    first = await shop.open()
    await send(first, "hello")
    await answered(first)
    second = await shop.open(first.url.removeprefix(shop.address))
    await answered(second)
    await send(second, "slow")
    await expect(first.get_by_text("The beginning of an answer.")).to_be_visible()
    await send(first, "later")
    await expect(second.get_by_text("Queued")).to_be_visible()
    shop.model.gate.set()
    for page in (first, second):
        await answered(page, 3)
        await expect(page.get_by_text("You said: later")).to_be_visible()
    await first.get_by_role("button", name="Rename chat").click()
    await first.get_by_label("Title of this chat").last.fill("Renamed <b>")
    await first.get_by_role("button", name="Rename", exact=True).click()
    await expect(second.locator("#title")).to_have_text("Renamed <b>")


async def test_a_queued_message_is_withdrawn_and_another_one_steers(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "slow")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    await send(page, "never")
    withdraw = page.get_by_role("button", name="Withdraw")
    assert await withdraw.evaluate("button => getComputedStyle(button).opacity") == "1"
    await withdraw.click()
    await expect(page.get_by_text("never", exact=True)).to_have_count(0)
    await page.get_by_label("While an answer is in progress").select_option("steer")
    await send(page, "and be brief")
    await expect(page.get_by_text("The agent reads your message before its next step.")).to_be_visible()
    shop.model.gate.set()
    await answered(page)
    await expect(page.locator(".line.steered")).to_contain_text("and be brief")


async def test_a_lost_connection_loses_nothing(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "slow")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    await page.context.set_offline(True)
    await send(page, "while offline")
    await expect(page.get_by_text("The server does not answer.")).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("while offline")
    shop.model.gate.set()
    shop.problems.clear()
    await page.context.set_offline(False)
    await page.keyboard.press("Enter")
    await answered(page, 2)
    await expect(page.get_by_text("You said: while offline")).to_be_visible()
    shop.problems[:] = [each for each in shop.problems if "ERR_INTERNET_DISCONNECTED" not in each]


async def test_a_slow_connection(shop: Desk) -> None:
    page = await shop.open()
    session = await page.context.new_cdp_session(page)
    limits = {"offline": False, "latency": 300, "downloadThroughput": 50_000, "uploadThroughput": 20_000}
    await session.send("Network.emulateNetworkConditions", limits)
    await send(page, "markdown")
    await answered(page)
    await page.reload()
    await answered(page)


async def test_the_keyboard_is_enough(shop: Desk) -> None:
    page = await shop.open()
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await page.keyboard.type("refund")
    await page.keyboard.press("Enter")
    allow = page.get_by_role("button", name="Allow")
    await expect(allow).to_be_visible()
    for _ in range(40):
        if await allow.evaluate("button => button === document.activeElement"):
            break
        await page.keyboard.press("Shift+Tab")
    await expect(allow).to_be_focused()
    await page.keyboard.press("Enter")
    await answered(page)
    await expect(page.get_by_role("status").filter(has_text="The answer is complete.")).to_have_count(1)
    await page.get_by_label("Message", exact=True).focus()
    await page.keyboard.type("slow")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    await page.goto(f"{shop.address}/usage")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()


async def test_the_focus_stays_in_the_turn_that_is_drawn_again(shop: Desk) -> None:
    page = await shop.open()

    async def press(name: str) -> None:
        await page.get_by_role("button", name=name).last.focus()
        await page.keyboard.press("Enter")

    async def in_last_turn() -> None:
        await page.wait_for_function(
            "[...document.querySelectorAll('article')].at(-1).contains(document.activeElement)"
        )

    await send(page, "refund")
    await press("Allow")
    await answered(page)
    await expect(page.locator("article.turn")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Edit message")).to_be_focused()
    await send(page, "hello")
    await answered(page, 2)
    await press("Good answer")
    await expect(page.locator("article.turn").last).to_have_attribute("data-version", re.compile("up"))
    await expect(page.get_by_role("button", name="Good answer").last).to_be_focused()
    await press("Answer again")
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await in_last_turn()
    await press("Edit message")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Edit message").last).to_be_focused()
    await press("Edit message")
    await page.keyboard.type("again")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("3 of 3")).to_be_visible()
    await in_last_turn()


async def test_what_the_reader_opens_stays_in_view(shop: Desk) -> None:
    page = await shop.open("/", viewport={"width": 1280, "height": 500})
    for number in range(1, 4):
        await send(page, "noisy")
        await answered(page, number)
    call = answer(page).locator("summary").first
    await call.click()
    await page.get_by_label("Message", exact=True).fill("a\n" * 20)  # the chat becomes lower
    await expect(call).to_be_in_viewport()
    await page.get_by_label("Message", exact=True).fill("")
    await page.get_by_role("button", name="Newest").click()
    await page.evaluate("document.querySelector('article.turn').scrollIntoView()")  # as a search in the page does
    await page.get_by_label("Message", exact=True).fill("b\n" * 20)
    await expect(page.locator("article.turn").first).to_be_in_viewport()
    await send(page, "slow")
    await expect(page.get_by_text("The beginning of an answer.")).to_be_in_viewport()


async def test_an_open_approval_is_counted(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "refund")
    await expect(page.get_by_role("link", name="Approvals 1")).to_be_visible()
    await page.get_by_role("button", name="Allow").click()
    await answered(page)
    await expect(page.get_by_role("link", name="Approvals", exact=True)).to_be_visible()


async def test_a_worker_is_given_a_goal(shop: Desk) -> None:
    page = await shop.open("/workers")
    await page.get_by_role("link", name=re.compile("Analyst")).click()
    await page.get_by_role("button", name="Which orders are late?").click()
    await page.get_by_role("button", name="Give the goal").click()
    await answered(page)
    document = page.get_by_role("region", name="Living document")
    await expect(document).to_contain_text("Two orders are late <script>")
    await expect(page.locator(".line.note").first).to_contain_text("Pass 1 of")


async def test_a_goal_that_ends_before_its_stream_opens_shows_its_document(shop: Desk) -> None:
    page = await shop.open("/workers/analyst")
    ended = asyncio.Event()

    async def later(route: Any) -> None:
        await ended.wait()
        await route.continue_()

    await page.route("**/live?*", later)
    await page.get_by_label("A new goal").fill("slow")
    await page.get_by_role("button", name="Give the goal").click()
    await page.wait_for_url(re.compile("/c/"))
    shop.model.gate.set()
    conversation = page.url.replace("/c/", "/api/conversations/")
    turns = await (await page.request.get(f"{conversation}/turns")).json()
    await page.request.get(f"{conversation}/turns/{turns['items'][0]['id']}/events")
    ended.set()
    await expect(page.get_by_role("region", name="Living document")).to_contain_text("Two orders are late")


async def test_no_part_of_an_ended_turn_is_older_than_its_end(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "hello")
    await answered(page)
    ended = asyncio.Event()

    async def later(route: Any) -> None:
        await ended.wait()
        await route.continue_()

    at_work = asyncio.Event()

    def received(message: Any) -> None:
        if "The beginning" in message["data"]:
            at_work.set()

    await page.route("**/c/*/turns*", later)
    page.on("requestfailed", lambda request: at_work.set())  # the stream that was open before the message
    session = await page.context.new_cdp_session(page)
    session.on("Network.eventSourceMessageReceived", received)
    await session.send("Network.enable")
    await send(page, "delegate")
    await at_work.wait()
    shop.model.gate.set()
    path = page.url.replace("/c/", "/api/conversations/") + "/turns"
    turn = (await (await page.request.get(path)).json())["items"][0]["id"]
    await page.request.get(f"{path}/{turn}/events")
    ended.set()
    await answered(page, 2)
    await expect(answer(page).locator(".call-state")).to_have_text("done")
    await expect(answer(page).locator(".agent-activity")).to_have_text(["completed", "completed"])


async def test_a_chat_is_deleted(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "hello")
    await answered(page)
    await page.get_by_role("button", name="Delete chat").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("Your chats appear here.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_axe_finds_nothing_serious(shop: Desk, axe: Path, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 780}, "color_scheme": scheme, "bypass_csp": True}
    page = await shop.open("/", **options)
    found = await _violations(page, axe)
    for number, text in enumerate(("markdown", "research", "fail", "noisy"), 1):
        await send(page, text)
        await answered(page, number)
    await send(page, "refund")
    await page.get_by_role("button", name="Edit arguments").click()
    found += await _violations(page, axe)
    chat = page.url
    other = await shop.open("/", **options)
    await send(other, "survey form")
    await expect(other.get_by_role("region", name="A question for you")).to_be_visible()
    found += await _violations(other, axe)
    await page.get_by_role("button", name=re.compile("Details")).first.click()
    await expect(page.get_by_role("heading", name="Tokens per agent")).to_be_visible()
    found += await _violations(page, axe)
    if width < 600:
        await page.get_by_role("button", name="Close details").click()
        await page.get_by_role("button", name="Open menu").click()
        found += await _violations(page, axe)
    for path in ("/usage", "/workers", "/workers/analyst", "/approvals", "/search?text=markdown", "/c/nothing"):
        await page.goto(shop.address + path)
        found += await _violations(page, axe)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    await page.goto(chat)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert found == []
    shop.problems[:] = [each for each in shop.problems if "404" not in each]


async def _violations(page: Any, axe: Path) -> list[str]:
    await page.add_script_tag(path=str(axe))
    await page.evaluate("Promise.all(document.getAnimations().map((each) => each.finish?.call && each.cancel()))")
    result = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{page.url}: {each['id']}: {node['target']} {node['failureSummary']}"
        for each in result["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


async def test_the_end_of_a_long_conversation_is_shown_first(shop: Desk) -> None:
    page = await shop.open()
    await send(page, "message 0")
    await answered(page)
    path = page.url.removeprefix(shop.address).replace("/c/", "/api/conversations/") + "/turns"
    for number in range(1, 40):
        made = await page.request.post(f"{shop.address}{path}", data={"text": f"message {number}"})
        turn = (await made.json())["id"]
        await page.request.get(f"{shop.address}{path}/{turn}/events")
    await page.reload()
    await expect(page.get_by_text("You said: message 39")).to_be_in_viewport()
    assert await page.locator("article.turn").count() < 39
    while await page.locator("article.turn").count() < 40:
        await page.locator("#scroll").hover()
        await page.mouse.wheel(0, -3000)
        await asyncio.sleep(0)
    first = page.get_by_text("You said: message 0", exact=True)
    await first.scroll_into_view_if_needed()
    await expect(first).to_be_in_viewport()
    await page.get_by_role("button", name="Newest").click()
    await expect(page.get_by_text("You said: message 39")).to_be_in_viewport()
