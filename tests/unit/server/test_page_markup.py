"""Markdown as the page renders it: safe for any text, and the same however its pieces arrive."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from concertino.server.page.markup import Citations, MarkdownBlocks, markdown_html, plain_text, without_sources

TAGS = {
    *("a", "blockquote", "br", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES = {"href", "target", "rel", "class", "dir", "title", "tabindex", "start", "data-language"}
PIECES = [
    *("# ", "## ", "- ", "1. ", "> ", "```py\n", "~~~\n", "\n", "\n\n", "    ", "| a | b |\n| - | - |\n", "---\n"),
    *("**", "_", "`", "~~", "[x](", "](", "![", "<b>", "<script>", "javascript:", "https://a.example/", ")", "\\"),
    *(
        "&amp;",
        "&lt;",
        '"',
        "'",
        "onclick=",
        "word ",
        "[s0123456789abcdef]",
        "[S1]",
        "[s0123456789abcdef, s99999999999]",
    ),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map("".join)
SOURCE = "s0123456789abcdef"


def citations() -> Citations:
    made = Citations("turn")
    made.add(SOURCE, '<b>"title"', "https://a.example/")
    return made


class Checker(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        href = dict(attrs).get("href")
        assert href is None or re.match(r"https?://|mailto:|#turn-", href, re.IGNORECASE), href


@given(TEXTS)
def test_any_text_becomes_safe_html(text: str) -> None:
    checker = Checker()
    checker.feed(markdown_html(text, citations()))
    checker.close()


@example("**```py\n#0", 1)
@example("| a | b |\n| - | - |\n**", 1)
@given(TEXTS, st.integers(1, 9))
def test_a_text_in_pieces_becomes_the_same_html(text: str, size: int) -> None:
    if re.search(r"\]:", text):
        return  # a definition of a link changes what is above it: the end of the stream shows the whole text again
    text = text.replace("\r", "")
    blocks = MarkdownBlocks(citations())
    changed = 0
    for end in range(size, len(text) + size, size):
        changed += len(list(blocks.write(text[:end])))
    assert "".join(blocks.blocks) == str(markdown_html(text, citations()))


def test_final_blocks_are_not_drawn_again() -> None:
    blocks = MarkdownBlocks(citations())
    text = "".join(f"Paragraph {number}.\n\n" for number in range(200))
    drawn = sum(len(list(blocks.write(text[:end]))) for end in range(0, len(text) + 1, 7))
    assert len(blocks.blocks) == 200
    assert drawn < 800
    assert list(blocks.write("Another text.")) == [0]
    assert len(blocks.blocks) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](/api/data)", "[x](/api/data)"),
        ("![p](https://evil.example/p.png)", '<a href="https://evil.example/p.png" target="_blank"'),
        ("![p](data:image/png;base64,AAAA)", "![p](data:image/png;base64,AAAA)"),
        ("# One", "<h3>One</h3>"),
        ("##### Five", "<h6>Five</h6>"),
        ("~~old~~", "<s>old</s>"),
        ("```python\nreturn 1\n```", '<span class="hl-k">return</span>'),
        ("```unknown\n<b>\n```", "&lt;b&gt;"),
        (f"x [{SOURCE}]", '<a class="cite" href="#turn-1"'),
        ("x [s99999999999].", "<p>x.</p>"),
        ("x [S7]", "<p>x [S7]</p>"),
        (f"`[{SOURCE}]`", f"<code>[{SOURCE}]</code>"),
    ],
)
def test_markdown(text: str, shown: str) -> None:
    assert shown in markdown_html(text, citations())


def test_lists_quotations_and_tables_have_the_direction_of_their_text() -> None:
    html = markdown_html("- a\n\n1. b\n\n> c\n\n| d |\n| - |\n| e |\n")
    assert [each for each in ("ul", "ol", "blockquote", "table") if f'<{each} dir="auto">' not in html] == []


def test_a_long_code_block_is_shown_without_colors() -> None:
    html = markdown_html("```python\n" + "return 1\n" * 10_000 + "```")
    assert "<span" not in html
    assert html.count("return 1") == 10_000


def test_the_sources_of_a_report_are_read() -> None:
    made = Citations("turn")
    body = without_sources("# R\n\nThreads [S1].\n\n## Sources\n\n- [S1] A \u2014 title \u2014 a/b\n", made)
    assert "Sources" not in body
    assert 'title="A \u2014 title"' in markdown_html(body, made)
    assert made.cited == [{"number": 1, "title": "A \u2014 title", "location": "a/b"}]
    for text in ("## Sources\n\nnone", "x\n\n## Sources\n\nA text about sources."):
        assert without_sources(text, made) == text


def test_plain_text_has_no_marks() -> None:
    assert plain_text(f"# A\n\n**b** `c` & <d> [{SOURCE}]") == "A b c & <d>"
