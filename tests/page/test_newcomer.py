"""`concertino serve` without a key: a newcomer's first minutes in the browser."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Desk
from .kit import DeskModel
from .test_browser import answer, answered, expect, send

pytestmark = pytest.mark.browser


@pytest.fixture
async def served(tmp_path: Path, chromium: Any) -> AsyncIterator[Desk]:
    """Serve two documents with the built-in model."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "apples.md").write_text("# Apples\n\nApples are red fruits. They grow on trees.\n")
    (corpus / "pears.md").write_text("# Pears\n\nPears are green fruits. They are sweeter than apples.\n")
    command = ("-m", "concertino.cli", "serve", "--port", "0", "--json", "--corpus", str(corpus))
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment = kept | {"XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--db", str(tmp_path / "runs.db"), stdout=pipe, env=environment
    )
    assert process.stdout is not None
    address = json.loads(await process.stdout.readline())["url"]
    made = Desk(address, DeskModel(), chromium)
    yield made
    for context in chromium.contexts:
        await context.close()
    process.terminate()
    assert await process.wait() == 0
    assert made.problems == []


async def test_a_cited_research_run_an_approval_and_a_branch(served: Desk) -> None:
    page = await served.open()
    await page.get_by_role("radio", name="Research").check(force=True)
    await send(page, "What are apples? And what are pears?")
    await answered(page)
    await expect(answer(page)).to_contain_text("Apples are red fruits.")
    await expect(answer(page).locator(".call-head.failed")).to_have_count(0)
    await expect(answer(page).locator(".sources li")).to_have_count(2)
    await answer(page).locator("a.cite").first.click()
    await expect(answer(page).locator(".sources li").first).to_be_in_viewport()

    await page.get_by_role("link", name="New chat").click()
    await page.get_by_role("button", name="Remember that I prefer short examples.").click()
    card = page.get_by_role("region", name="Allow store_memory?")
    await expect(card.locator("pre")).to_contain_text('"text": "I prefer short examples."')
    await card.get_by_role("button", name="Allow").click()
    await answered(page)
    await expect(answer(page)).to_contain_text("I will remember this: I prefer short examples.")

    await send(page, "What are apples?")
    await answered(page, 2)
    await page.get_by_role("button", name="Answer again").last.click()
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await answered(page, 2)
    await page.get_by_role("link", name="Usage").click()
    await expect(page.get_by_role("row", name="demo:quotes")).to_be_visible()
