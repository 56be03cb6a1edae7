"""What a reader gets to see of reStructuredText, Markdown and plain text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.tools.corpus.passages import LONGEST, passages
from concertino.tools.corpus.reading import SUFFIXES, decode, read_blocks


def text_of(source: str, suffix: str) -> str:
    return "\n\n".join(block.text for block in read_blocks(source, suffix)[1])


RST = """\
Series: 7
Title: On `Ponds`__
Author: A. Gardener,
        B. Digger
Status: Final

.. _top:

Why ponds
=========

A pond, as :series:`3` and :pep:`484` say, is *good*
for ``newts`` and for `frogs <https://example.org>`_ [1]_.

.. code-block:: python
   :linenos:

   pond = Pond(depth=1)

Then::

    fill(pond)

.. note:: Keep children
   away from it.

.. image:: pond.png

- one item that is
  wrapped
- another

====== =====
fish   depth
====== =====
carp   2
====== =====

.. [1] A book on frogs.
"""


def test_restructured_text_becomes_prose() -> None:
    title, blocks = read_blocks(RST, ".rst")
    assert title == "Series 7: On Ponds"
    assert [block.text for block in blocks] == [
        "Series: 7\nTitle: On Ponds\nAuthor: A. Gardener, B. Digger\nStatus: Final",
        "Why ponds",
        "A pond, as 3 and PEP 484 say, is good for newts and for frogs [1].",
        "    pond = Pond(depth=1)",
        "Then:",
        "    fill(pond)",
        "Note: Keep children away from it.",
        "- one item that is wrapped\n- another",
        "    ====== =====\n    fish   depth\n    ====== =====\n    carp   2\n    ====== =====",
        "[1] A book on frogs.",
    ]


def test_roles_show_what_a_reader_would_see() -> None:
    assert text_of(":func:`~garden.beds.dig` and :class:`!Bed` and :ref:`the plan <plan>`.\n", ".rst") == (
        "dig and Bed and the plan."
    )
    assert text_of("Literal ``*args`` and 2 * 3 * 4 stay.\n", ".rst") == "Literal *args and 2 * 3 * 4 stay."


MARKS = "ab *_`:|=-.\n#>[](){}~+\\<1"

MARKDOWN = """\
---
title: "The shed"
---
<!-- hidden -->
Tools hang on
the **left** [wall](https://example.org/a_(b)), see `rake_it`.

Setext
------

```python
def rake():
    pass
```

| tool | hook |
|------|------|
| rake | 3    |

> Quoted
> words.

* first
  part
* second

![picture](x.png) and <https://example.org>

[ref]: https://example.org
"""


def test_markdown_becomes_prose() -> None:
    title, blocks = read_blocks(MARKDOWN, ".md")
    assert title == "The shed"
    assert [block.text for block in blocks] == [
        "Tools hang on the left wall, see rake_it.",
        "Setext",
        "    def rake():\n        pass",
        "    | tool | hook |\n    |------|------|\n    | rake | 3    |",
        "Quoted words.",
        "* first part\n* second",
        "picture and https://example.org",
    ]


def test_plain_text_keeps_what_its_lines_mean() -> None:
    source = (
        "The shed\n========\n\nA paragraph that was wrapped by someone who likes\nshort lines, and well-\n"
        "known for it.\n\n"
        "    >>> rake()\n    3\n\nrake\nhoe\nspade\n"
    )
    assert text_of(source, ".txt") == (
        "The shed\n\nA paragraph that was wrapped by someone who likes short lines, and well-known for it.\n\n"
        "    >>> rake()\n    3\n\nrake\nhoe\nspade"
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\r\ntext\r", "plain\ntext\n"),
        ("\ufeffmarked".encode(), "marked"),
        ("weit".encode("utf-16"), "weit"),
        (b"caf\xe9", "caf\ufffd"),
        (b"", ""),
    ],
)
def test_bytes_become_text(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_nested_quotes_without_end_are_read() -> None:
    assert "word" in text_of("\n\n".join(" " * depth + "word" for depth in range(500)), ".rst")
    assert "word" in text_of(">" * 5_000 + " word", ".md")


@settings(deadline=None)
@given(
    source=st.text(alphabet=st.sampled_from(MARKS), max_size=200),
    suffix=st.sampled_from(SUFFIXES[:4]),
)
def test_any_text_can_be_read(source: str, suffix: str) -> None:
    _title, blocks = read_blocks(source, suffix)
    assert all(block.text for block in blocks)
    for passage in passages(blocks):
        assert passage.body


@settings(deadline=None, max_examples=30)
@given(lengths=st.lists(st.integers(1, 4_000), min_size=1, max_size=12))
def test_passages_hold_everything_and_are_not_too_long(lengths: list[int]) -> None:
    words = (f"w{i}" for i in range(10_000))
    source = "\n\n".join(" ".join(next(words) for _ in range(1 + length // 60)) for length in lengths)
    cut = list(passages(read_blocks(source, ".md")[1]))
    assert " ".join(passage.body for passage in cut).split() == source.split()
    assert all(len(passage.body) <= LONGEST + 400 for passage in cut)


def test_a_long_sentence_without_end_is_cut(tmp_path: Path) -> None:
    _title, blocks = read_blocks("x" * 10_000, ".txt")
    assert "".join(passage.body for passage in passages(blocks)).replace("\n", "") == "x" * 10_000
