"""The standard library's own docstrings as a corpus."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from concertino.tools.corpus import Corpus, open_corpus


class Made:
    """An index that was made once for all tests here, and the modules that this imported."""

    def __init__(self, folder: Path) -> None:
        before = set(sys.modules)
        self.folder = folder
        asyncio.run(self._make())
        self.imported = [sys.modules[name] for name in set(sys.modules) - before if name in sys.stdlib_module_names]

    async def _make(self) -> None:
        corpus = await open_corpus(None, cache_dir=self.folder)
        await corpus.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("stdlib"))


@pytest.fixture
async def corpus(made: Made) -> AsyncIterator[Corpus]:
    corpus = await open_corpus(None, cache_dir=made.folder)
    yield corpus
    await corpus.close()


@pytest.mark.parametrize(
    ("query", "location"),
    [
        ("TaskGroup", "asyncio.TaskGroup"),
        ("asyncio.TaskGroup", "asyncio.TaskGroup"),
        ("How do asyncio task groups handle errors?", "asyncio.TaskGroup"),
        ("difference between deepcopy and copy", "copy.deepcopy"),
        ("parse command line arguments with subcommands", "argparse"),
        ("LRU cache decorator", "functools.lru_cache"),
        ("what is a context manager", "help:context-managers"),
        ("greatest common divisor", "math.gcd"),
        ("os.path.join", "os.path.join"),
        ("dict", "builtins.dict"),
        ("thread pool executor", "concurrent.futures.ThreadPoolExecutor"),
        ("Counter.most_common", "collections.Counter"),
        ("cached_property", "functools.cached_property"),
    ],
)
async def test_what_people_ask_for_is_near_the_top(corpus: Corpus, query: str, location: str) -> None:
    hits = await corpus.search(query, 5)
    places = [hit.source.location for hit in hits]
    assert location in (places[:1] if " " not in query else places)


async def test_a_document_begins_with_how_it_is_called(corpus: Corpus) -> None:
    page = await corpus.open("textwrap.shorten")
    assert page.source.title == "textwrap.shorten (function)"
    assert page.text.startswith("    textwrap.shorten(text, width, **kwargs)\n\nCollapse and truncate")


async def test_a_class_holds_its_methods(corpus: Corpus) -> None:
    page = await corpus.open("asyncio.Barrier")
    assert "\n\nasync Barrier.wait()\n\n" in page.text


async def test_a_module_lists_what_is_in_it(corpus: Corpus) -> None:
    page = await corpus.open("heapq")
    assert "\nheapq.heappush: Push item onto heap" in page.text


async def test_a_docstring_that_is_assigned_is_read_too(corpus: Corpus) -> None:
    assert "sha256()" in (await corpus.open("hashlib")).text


def test_modules_with_source_are_not_imported(made: Made) -> None:
    imported = {module.__name__ for module in made.imported}
    assert imported.isdisjoint({"antigravity", "this", "turtle", "tkinter", "idlelib", "http.server", "smtplib", "cgi"})


async def test_the_index_is_made_once(made: Made, corpus: Corpus) -> None:
    lines: list[str] = []
    again = await open_corpus(None, cache_dir=made.folder, report=lines.append)
    await again.close()
    assert len(lines) == 1
    assert lines[0].startswith("index is up to date: ")
