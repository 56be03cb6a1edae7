"""What the readers of reStructuredText, Markdown, HTML and plain text make of documents: Markdown in chunks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.tools.documents import open_documents
from concertino.tools.documents.markdown import LONGEST, Chunk, Document, chunks, read_markdown
from concertino.tools.documents.rst import read_rst
from concertino.tools.library import Hit

RST = """\
Series: 7
Title: On Ponds
Author: A. Gardener,
        B. Digger
Created: 2024-05-01

.. _top:

Why ponds
=========

A pond, as :series:`three` and :pep:`484` say, is *good*
for ``newts`` and for `frogs <https://example.org>`_ [1]_, see :func:`~garden.beds.dig` or :ref:`the plan <plan>`.

.. code-block:: python
   :linenos:

   pond = Pond(depth=1)

Then::

    fill(pond)

.. note:: Keep children
   away from it.

.. versionadded:: 2.1
   Frogs.

.. image:: pond.png

- one item that is
  wrapped
- another

====== =====
fish   depth
====== =====
carp   2
====== =====

.. py:method:: Pond.fill(litres, *, slowly=True)

   Fill the pond.

   :param litres: how much

.. tab-item:: Clay

   Clay holds water.

.. toctree::

   other

.. [1] A book on frogs.
"""

MARKDOWN = """\
---
title: "The shed"
version: 2.1
date: 2025-02-03
---
<!-- hidden -->
Tools hang on
the **left** [wall](https://example.org/a), see `rake_it`.

Setext
------

```python
def rake():
    pass
```

| tool | hook |
|------|------|
| rake | 3    |

!!! warning "Sharp"
    Mind the [teeth](x.md).

    They bite.

* first
  part
* second

:::{note}
Oil it.
:::

![picture](x.png)

[ref]: https://example.org
"""


def found(document: Document, location: str = "docs/a.md") -> list[Chunk]:
    return list(chunks(document, location))


def test_restructured_text_becomes_markdown() -> None:
    document = read_rst(RST)
    assert (document.title, document.date) == ("SERIES 7: On Ponds", "2024-05-01")
    header, why, method = found(document)
    assert header.body.startswith("- Series: 7\n- Title: On Ponds\n- Author: A. Gardener, B. Digger")
    assert why.headings == ("Why ponds",)
    assert why.body == (
        "A pond, as `three` and PEP 484 say, is good for `newts` and for frogs [1], see `garden.beds.dig` or the plan."
        "\n\n````\npond = Pond(depth=1)\n````\n\nThen:\n\n````\nfill(pond)\n````\n\n"
        "**Note:** Keep children away from it.\n\nAdded in version 2.1: Frogs.\n\n"
        "- one item that is wrapped\n- another\n\n| fish | depth |\n|---|---|\n| carp | 2 |"
    )
    assert method.headings == ("Why ponds", "Pond.fill(litres, *, slowly=True)")
    assert method.body.startswith("Fill the pond.\n\n- **param litres**: how much\n\n**Clay**\n\nClay holds water.")


def test_markdown_keeps_its_blocks() -> None:
    document = read_markdown(MARKDOWN)
    assert (document.title, document.version, document.date) == ("The shed", "2.1", "2025-02-03")
    first, second = found(document)
    assert first.body == "Tools hang on\nthe **left** wall, see `rake_it`."
    assert second.headings == ("Setext",)
    assert second.body == (
        "```python\ndef rake():\n    pass\n```\n\n| tool | hook |\n|------|------|\n| rake | 3    |\n\n"
        "**Sharp**\n\nMind the teeth.\n\nThey bite.\n\n* first\n  part\n* second\n\n**Note**\n\nOil it.\n\npicture"
    )


def test_directives_and_roles_of_myst_become_text() -> None:
    source = """(top)=
# Frogs

See {func}`~garden.dig` and {ref}`the plan <plan>`.

````{warning}
:class: big

Keep *quiet*:

```{code-block} python
:linenos:

frog.hop()
```
````

```{versionadded} 2.1
Newts.
```

```{toctree}
other
```
"""
    (chunk,) = chunks(read_markdown(source), "frogs.md")
    assert chunk.headings == ("Frogs",)
    assert chunk.body == (
        "See `garden.dig` and the plan.\n\n**Warning**\n\nKeep *quiet*:\n\n```\nfrog.hop()\n```\n\n"
        "**Added in version 2.1**\n\nNewts."
    )


def test_directives_of_any_depth_are_read() -> None:
    fences = ["`" * length for length in range(300, 2, -1)]
    source = "\n".join([*(f"{fence}{{note}}" for fence in fences), "deep", *reversed(fences)])
    assert any("deep" in chunk.body for chunk in chunks(Document(source), "deep.md"))


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Ponds\n=====\n\nSee :func:`dig`.\n\n.. note:: Deep.\n", "See `dig`.\n\n**Note:** Deep."),
        ("Ponds\n=====\n\nAt 10:30: `dig`, see ..\n", "At 10:30: `dig`, see .."),
    ],
)
async def test_plain_text_is_read_by_its_markup(tmp_path: Path, text: str, body: str) -> None:
    (tmp_path / "ponds.txt").write_text(text)
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    assert [hit.snippet for hit in await library.search("dig")] == [body]
    await library.close()


async def test_html_is_read_for_its_main_text(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        "<html><head><title>Ponds | Garden</title><meta name=date content=2025-01-02>"
        "<style>p {color: red}</style></head><body><nav>Home</nav><article><h1>Ponds</h1>"
        "<p>A pond needs shade for half of the day, or algae take over.</p>"
        "<h2>Fish</h2><p>Goldfish survive winters in ponds that are deeper than a metre.</p></article></body></html>"
    )
    (tmp_path / "scrap.htm").write_text("<p>Just newts.</p>")
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    hit: Hit = (await library.search("goldfish in winter"))[0]
    assert (hit.source.title, hit.headings, hit.date) == ("Ponds", ("Ponds", "Fish"), "2025-01-02")
    assert "Home" not in (await library.open(hit.source.location)).text
    assert (await library.search("newts"))[0].snippet == "Just newts."
    await library.close()


CHANGES = """\
# Garden history

## Version 3.0.0

Released 2023-09-30

- The gate opens by itself.

## 2.4.1 (2022-01-15)

- The hose leaks less.

## Unreleased
"""


@pytest.mark.parametrize(
    "location", ["CHANGES.md", "docs/changelog.md", "docs/whatsnew/3.0.md", "docs/release-notes.md"]
)
def test_release_notes_have_versions_and_dates(location: str) -> None:
    new, old = found(read_markdown(CHANGES), location)
    assert (new.version, new.date, new.is_change) == ("3.0.0", "2023-09-30", True)
    assert (old.version, old.date, old.is_change) == ("2.4.1", "2022-01-15", True)


def test_a_numbered_section_is_not_a_release() -> None:
    (chunk,) = found(read_markdown("# Guide\n\n## 1.2 Installing the pump\n\nDig first."))
    assert (chunk.version, chunk.is_change) == ("", False)


def test_a_paragraph_that_ends_in_a_colon_stays_with_its_code() -> None:
    filler = "A sentence about water in the garden. " * 45
    code = "pump.start()\n" * 30
    text = f"# Pump\n\n{filler}\n\nStart it like this:\n\n```\n{code}```\n\nThe end."
    assert any("like this:\n\n```\npump.start()" in chunk.body for chunk in found(Document(text)))


@settings(deadline=None, max_examples=30)
@given(lengths=st.lists(st.integers(1, 6_000), min_size=1, max_size=10))
def test_chunks_have_all_text_and_are_not_too_long(lengths: list[int]) -> None:
    words = (f"w{number}" for number in range(10_000))
    source = "\n\n".join(" ".join(next(words) for _ in range(1 + length // 6)) for length in lengths)
    cut = found(Document(source))
    assert " ".join(chunk.body for chunk in cut).split() == source.split()
    assert all(len(chunk.body) <= 4 * LONGEST for chunk in cut)


@settings(deadline=None)
@given(source=st.text(alphabet=st.sampled_from("ab *_`:|=-.\n#>[](){}~+\\<1!"), max_size=200))
def test_any_text_can_be_read(source: str) -> None:
    for document in (read_markdown(source), read_rst(source)):
        assert all(chunk.body for chunk in chunks(document, "a.md"))
