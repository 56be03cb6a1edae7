"""The quality of retrieval, on a small manual of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from concertino.tools.documents import DocumentLibrary, open_documents
from concertino.tools.library import Hit

MANUAL = {
    "guide/boiling.md": """# Boiling water

A kettle boils water for any number of cups.

## How to boil

Call `kettle.boil` with the number of cups. The whistle sounds when the water is ready.

## Choosing a kettle

A steel kettle is heavy and lasts; a glass kettle is light and breaks. Take glass for the office, steel for the camp.

## When the kettle is dry

Boiling without water raises `DryKettleError`. Catch it, fill the kettle, and call `kettle.boil` again.
""",
    "guide/limits.md": """# Limits

How much a kettle takes.

## Volume of a kettle

A kettle takes at most 8 cups. Set `MAX_CUPS` to change the limit. The default is 4 cups.
""",
    "reference/kettle.rst": """Kettle API
==========

.. py:module:: kettle

.. py:class:: Kettle(volume=4)

   A kettle.

   .. py:method:: Kettle.boil(cups, *, quiet=False)

      Boil water. Raise :exc:`DryKettleError` without water.

      .. versionadded:: 2.0

   .. py:method:: Kettle.cool(seconds)

      Let the water cool down.
""",
    "CHANGES.md": """# Changes

## 2.1.0 (2024-03-02)

- Kettle volume: the limit of a kettle is 8 cups, the default limit is 4 cups, kettle limits apply to all kettles.
- `kettle.boil` no longer raises `DryKettleError` twice when the kettle is dry.

## 2.0.0 (2023-01-10)

- Quiet boiling.

## 1.9.0 (2022-11-11)

- First release with a lid.
""",
    "ko.md": "# 헌법\n\n대한민국은 민주공화국이다. 대한민국의 주권은 국민에게 있다.\n",
    "ja.md": "# 庭\n\n東京の庭園では桜が四月に咲きます。\n",
    "camel.md": "# Beds\n\nCall `FlowerBed` to start, or `water_pump_speed` for a sub-soil plough.\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("manual")
    for name, text in MANUAL.items():
        (root / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "docs" / name).write_text(text)
    return root


@pytest.fixture
async def library(folder: Path) -> AsyncIterator[DocumentLibrary]:
    library = await open_documents([folder / "docs"], cache_dir=folder / "cache")
    yield library
    await library.close()


def place(hit: Hit) -> str:
    return f"{hit.source.location.removeprefix('docs/')}#{hit.headings[-1]}"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("How do I boil water?", "guide/boiling.md#How to boil"),
        ("What is the default volume of a kettle?", "guide/limits.md#Volume of a kettle"),
        ("steel or glass kettle, pros and cons", "guide/boiling.md#Choosing a kettle"),
        ("What happens when the kettle is dry?", "guide/boiling.md#When the kettle is dry"),
        ("Which release has the lid?", "CHANGES.md#1.9.0 (2022-11-11)"),
        ("Kettle.cool", "reference/kettle.rst#Kettle.cool(seconds)"),
        ("kettle.Kettle.cool", "reference/kettle.rst#Kettle.cool(seconds)"),
        ("cool()", "reference/kettle.rst#Kettle.cool(seconds)"),
        ("cooling water", "reference/kettle.rst#Kettle.cool(seconds)"),
        ("flower bed", "camel.md#Beds"),
        ("FlowerBed", "camel.md#Beds"),
        ("pump speed", "camel.md#Beds"),
        ("subsoil", "camel.md#Beds"),
        ("민주공화국", "ko.md#헌법"),
        ("주권", "ko.md#헌법"),
        ("대한민국의 주권은 누구에게 있나요?", "ko.md#헌법"),
        ("桜はいつ咲きますか", "ja.md#庭"),
        ("桜", "ja.md#庭"),
    ],
)
async def test_the_passage_that_answers_comes_first(library: DocumentLibrary, query: str, first: str) -> None:
    assert place((await library.search(query))[0]) == first


async def test_guides_come_before_release_notes(library: DocumentLibrary) -> None:
    query = "limit and default volume of a kettle in cups"
    assert [place(hit).partition("#")[0] for hit in await library.search(query, 2)] == ["guide/limits.md", "CHANGES.md"]
    query = "Since which version is DryKettleError no longer raised twice?"
    assert place((await library.search(query))[0]) == "CHANGES.md#2.1.0 (2024-03-02)"


@pytest.mark.parametrize("folder", ["releases", "announce", "whatsnew"])
async def test_guides_come_before_folders_of_announcements(tmp_path: Path, folder: str) -> None:
    for name in (folder, "guide"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lids.md").write_text(f"# Lids\n\nA lid keeps water hot; it is in {name}.\n")
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    assert [hit.source.location.split("/")[-2] for hit in await library.search("lid keeps water hot")] == [
        "guide",
        folder,
    ]
    await library.close()


async def test_a_heading_matches_in_any_form_of_its_words(tmp_path: Path) -> None:
    for name, heading in (("a", "Slotted pots"), ("b", "Immutability"), ("c", "Pot")):
        (tmp_path / f"{name}.md").write_text(f"# {heading}\n\nA pot may be immutable, or it may not be.\n")
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    first, *_ = await library.search("immutable things")
    assert first.headings == ("Immutability",)
    await library.close()


async def test_coverage_tells_strong_from_weak_matches(library: DocumentLibrary) -> None:
    (strong, *_), (weak, *_) = [await library.search(query) for query in ("boil water", "boil eggs for the queen")]
    assert strong.coverage == 1.0
    assert weak.coverage is not None
    assert weak.coverage < 0.5


async def test_a_hit_knows_its_version_and_date(library: DocumentLibrary) -> None:
    (hit,) = await library.search("quiet boiling changes", 1)
    assert (hit.version, hit.date) == ("2.0.0", "2023-01-10")


async def test_the_same_text_is_found_once(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("# Heron\n\nThe heron waits.")
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    assert len(await library.search("heron")) == 1
    await library.close()


def test_the_order_is_the_same_in_every_process(folder: Path) -> None:
    async def places() -> list[str]:
        library = await open_documents([folder / "docs"], cache_dir=folder / "cache")
        found = [place(hit) for hit in await library.search("kettle water boil cups limit", 20)]
        await library.close()
        return found

    assert asyncio.run(places()) == asyncio.run(places())
