from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.npm import installed, require

from .kit import DeskModel, desk
from .server import listening

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 120_000
"""Milliseconds after which a state that a loaded machine has not reached counts as missing."""
STAYS = """
const timer = globalThis.setTimeout;
globalThis.setTimeout = (work, time, ...rest) => [1500, 4000, 8000].includes(time) ? 0 : timer(work, time, ...rest);
"""
"""Keeps confirmations and messages, which the page shows for some seconds, until a loaded machine has seen them."""


@pytest.fixture(scope="session")
def axe() -> Path:
    """Return the script that looks for problems of accessibility."""
    return installed(Path(__file__).parent / "package.json") / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
async def chromium() -> AsyncIterator[Any]:
    """Start Debian's browser. Without it, or without its driver, the test is skipped; in .ci/run it fails."""
    require("chromium")
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        if "CI" in os.environ or "REQUIRE_DATA" in os.environ:
            raise
        pytest.skip("needs playwright: make test-slow installs it")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        await browser.close()


class Desk:
    """A running help desk, and the browsers of its users."""

    def __init__(self, address: str, model: DeskModel, chromium: Any) -> None:
        self.address = address
        self.model = model
        self.problems: list[str] = []
        """Errors of scripts, violations of the content policy, dialogs, and requests to other servers."""
        self._chromium = chromium

    async def open(self, path: str = "/", **options: Any) -> Any:
        """Open a page in a browser of its own."""
        context = await self._chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(PATIENCE)
        await context.add_init_script(STAYS)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._printed)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        page.on("request", self._requested)
        await page.goto(self.address + path)
        return page

    def _printed(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", f"blob:{self.address}")):
            self.problems.append(f"request: {request.url}")


@pytest.fixture
async def shop(tmp_path: Path, chromium: Any) -> AsyncIterator[Desk]:
    """Serve a help desk. Its page must cause no problem in the browser."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(desk(tmp_path))
        address = await stack.enter_async_context(listening(app))
        made = Desk(address, app.state.model, chromium)
        yield made
        assert made.problems == []
        for context in chromium.contexts:
            await context.close()
