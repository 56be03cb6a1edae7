"""The documentation site builds without a warning, its links work, and a browser reads it without a network."""

from __future__ import annotations

import os
import subprocess
import zlib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from .conftest import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / ".site" / "bin" / "sphinx-build"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(1_800),  # the site takes a minute of CPU, of which a loaded machine gives little
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with the packages of `make site`. Without them, the test is skipped; in .ci/run it fails."""
    if not BUILDER.exists() and "CI" not in os.environ and "REQUIRE_DATA" not in os.environ:
        pytest.skip("needs .site: make site installs it")
    folder = tmp_path_factory.mktemp("site")
    command: list[str | Path] = [
        BUILDER,
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "-d",
        folder / "trees",
        ROOT / "docs",
        folder / "html",
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


class Page(HTMLParser):
    """The links, the anchors and the loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.loads: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "link" and values.get("rel") not in ("index", "search", "next", "prev"):
            self.loads.add(values["href"])
        self.loads.update({values["src"]} if "src" in values else ())


def test_links_and_files_of_the_pages_exist(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert site / "tutorial.html" in pages
    missing = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            to = urlsplit(link)
            if to.scheme in ("http", "https") and link in page.links:
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            known = pages[target].anchors if target in pages else {""}
            if to.scheme or not target.is_file() or unquote(to.fragment) not in known:
                missing.append(f"{path.relative_to(site)}: {link}")
    assert missing == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    lines = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    described = {line.split()[0] for line in lines}
    missing = []
    for page in (site / "api").glob("*.html"):
        if page.stem == "index":
            continue
        name = "concertino" if page.stem == "concertino" else f"concertino.{page.stem}"
        module = import_module(name)
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == name]
        public = {each for each in getattr(module, "__all__", own) if not each.startswith("_")}
        missing += [f"{name}.{each}" for each in public if not {f"{name}.{each}", f"concertino.{each}"} & described]
    assert missing == []
    assert "concertino.Runtime.approve" in described


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_reader_finds_a_page_without_a_network(site: Path, chromium: Any, width: int) -> None:
    context = await chromium.new_context(viewport={"width": width, "height": 844})
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for name in ("index", "tutorial", "comparison", "architecture", "api/concertino"):
        await page.goto((site / f"{name}.html").as_uri())
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} scrolls sideways"
    await page.goto((site / "search.html").as_uri() + "?q=budget")
    await page.locator("#search-results a", has_text="Durability").first.click()
    await page.wait_for_url("**/durability.html*")
    assert [url for url in requests if not url.startswith("file:")] == []
    await context.close()
