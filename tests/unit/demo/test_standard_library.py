"""The docstrings of the standard library as documents."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from concertino.demo.standard_library import StandardLibrary
from concertino.tools.documents import DocumentLibrary, open_documents


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stdlib")


@pytest.fixture
async def library(cache: Path) -> AsyncIterator[DocumentLibrary]:
    library = await open_documents(StandardLibrary(), cache_dir=cache)
    yield library
    await library.close()


async def test_the_library_is_not_imported_here(cache: Path) -> None:
    # First in the file, so that it makes the index that the other tests search.
    before = set(sys.modules)
    library = await open_documents(StandardLibrary(), cache_dir=cache)
    await library.close()
    assert not {"turtle", "smtplib", "imaplib", "wsgiref.validate", "this"} & (set(sys.modules) - before)


@pytest.mark.parametrize(
    ("query", "location"),
    [
        ("TaskGroup", "asyncio.TaskGroup"),
        ("asyncio.TaskGroup.create_task", "asyncio.TaskGroup"),
        ("How do asyncio task groups handle errors?", "asyncio.TaskGroup"),
        ("LRU cache decorator", "functools.lru_cache"),
        ("what is a context manager", "help:context-managers"),
        ("greatest common divisor", "math.gcd"),
        ("os.path.join", "os.path.join"),
        ("Counter.most_common", "collections.Counter"),
        ("How many backup files does RotatingFileHandler keep?", "logging.handlers.RotatingFileHandler"),
        ("Is dict order guaranteed?", "help:typesmapping"),
    ],
)
async def test_a_question_finds_its_docstring(library: DocumentLibrary, query: str, location: str) -> None:
    found = [hit.source.location for hit in await library.search(query, 5)]
    assert location in (found[:1] if " " not in query else found)


async def test_a_class_has_its_signature_and_methods(library: DocumentLibrary) -> None:
    page = await library.open("asyncio.Barrier")
    assert page.source.title == "asyncio.Barrier (class)"
    assert page.text.startswith("```python\nclass asyncio.Barrier(parties)\n```")
    assert "# Barrier.wait\n\n```python\nasync Barrier.wait(" in page.text


def test_the_index_is_made_once(cache: Path) -> None:
    lines: list[str] = []

    async def reopen() -> None:
        await (await open_documents(StandardLibrary(), cache_dir=cache)).close()
        await (await open_documents(StandardLibrary(), cache_dir=cache, report=lines.append)).close()

    asyncio.run(reopen())
    assert len(lines) == 1
    assert lines[0].endswith("the index is current")
