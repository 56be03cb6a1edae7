"""Which sentences answer, which do not, and how an answer is written down and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.providers.extractive.evidence import judge
from concertino.providers.extractive.pages import Page, parse_page
from concertino.providers.extractive.questions import analyse
from concertino.providers.extractive.quotes import Quote, read, write
from concertino.providers.extractive.report import Finding, compose, title_of
from concertino.providers.extractive.searching import first_queries, later_queries, pages_to_open
from concertino.providers.extractive.selection import select
from concertino.providers.extractive.subquestions import SubQuestion
from concertino.providers.extractive.transcript import Hit, hits

from .desk import PAGES, page_text, search, source_id

KETTLE, TEAPOT, FEES = PAGES


def opened(*locations: str) -> list[Page]:
    return [page for location in locations if (page := parse_page(page_text(location)))]


def answer(question: str, *locations: str) -> list[str]:
    return [quote.text for quote in select(judge(analyse(question), opened(*(locations or PAGES))))]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the kettle module?", "The kettle module boils water for any number of cups."),
        ("How much is a night for large boats?", "Large boats: $30.00 a night"),
        ("Why was brewing split from boiling?", "Brewing was split from boiling because tea masters wanted to reuse"),
        ("When must fees be paid?", "Fees must be paid within 14 days."),
        ("Who wrote the kettle module?", "It was written by Ada Quill in 2019."),
        ("How do I silence the whistle?", "Pass quiet=True to silence the whistle:"),
        ("How does the teapot module differ from the kettle module?", "Unlike the kettle module, a teapot never heats"),
    ],
)
def test_what_answers_is_quoted(question: str, expected: str) -> None:
    assert any(text.startswith(expected) for text in answer(question))


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of France?",
        "How do I bake sourdough bread in the kettle?",
        "What did the minister say in 2031?",
        "Why does the kettle module need a passport?",
        "Who wrote the lantern module?",
        "How much is a night for submarines?",
    ],
)
def test_what_only_looks_like_an_answer_is_not_quoted(question: str) -> None:
    assert answer(question) == []


def test_numbered_steps_are_quoted_whole_and_in_order() -> None:
    quotes = select(judge(analyse("What are the steps to warm the pot and add leaves?"), opened(TEAPOT)))
    assert [quote.marker for quote in quotes] == ["1.", "2.", "3."]


def test_program_text_comes_with_the_sentence_that_announces_it() -> None:
    quotes = select(judge(analyse("How do I boil water quietly with the whistle silenced?"), opened(KETTLE)))
    assert "kettle.boil(cups=2, quiet=True)" in [quote.code for quote in quotes]


def test_an_answer_can_be_read_back() -> None:
    quotes = [
        Quote("It boils.", ("s0123456789",), "Kettle", code="boil()\n\nagain()"),
        Quote("It whistles.", ("s0123456789", "sabcdef0123"), "Kettle"),
        Quote("Warm it.", ("sabcdef0123",), "Teapot", "item", marker="1."),
        Quote("Fill it.", ("sabcdef0123",), "Teapot", "item", marker="2."),
    ]
    assert read(write(quotes)) == quotes


def test_answers_of_other_models_can_be_read() -> None:
    found = read("## Tea\n\nTea is brewed [s0123456789]. Then\nit waits. [s0123456789]\n\nNo source here.")
    assert [quote.text for quote in found] == ["Tea is brewed", ". Then it waits."]


@given(st.text())
def test_reading_takes_any_text(text: str) -> None:
    assert all(quote.ids for quote in read(text))


def test_queries_come_from_the_question_alone() -> None:
    assert first_queries(analyse("How do I use tools.Teapot to brew tea?")) == ["tools.Teapot brew tea", "tools.Teapot"]
    assert first_queries(analyse("What are the fees for large boats?"))[0] == "fees large boats"


def test_a_second_search_does_not_repeat_the_first() -> None:
    question = analyse("How do I delete a teapot?")
    findings = judge(question, opened(FEES))
    first = first_queries(question)
    assert not set(first) & set(later_queries(question, findings, [], first))


def test_only_pages_that_may_answer_are_opened() -> None:
    question = analyse("How much is a night for small boats?")
    found = hits(search("night boats kettle"))
    assert [hit.location for hit in pages_to_open(question, found)] == [FEES]
    assert pages_to_open(question, found, found) == []


def test_hits_survive_a_cut() -> None:
    whole = search("kettle")
    torn = whole[: whole.rindex("}")]
    assert [hit.location for hit in hits(torn)] == [hit.location for hit in hits(whole)]
    assert hits("") == hits("[]") == hits('{"results": [1, {"id": 2}]}') == []


def test_a_report_has_what_was_found_and_what_was_not() -> None:
    cited = f"**Harbour Fees** — Fees must be paid within 14 days. [{source_id(FEES)}]"
    report = compose(
        analyse("When must fees be paid, and who collects them?"),
        [
            Finding(SubQuestion("When must fees be paid?"), cited),
            Finding(SubQuestion("Who collects fees?"), "The sources searched do not answer this."),
            Finding(SubQuestion("What is a fee?", asked=False), "The sources searched do not answer this."),
        ],
    )
    assert report.count("Fees must be paid within 14 days.") == 2  # in short, and in its section
    assert "## What the sources do not say\n\n- Who collects fees?" in report
    assert "What is a fee?" not in report


def test_a_report_on_nothing_says_so() -> None:
    report = compose(analyse("What is a lantern?"), [])
    assert "do not answer" in report
    assert "[" not in report


def test_a_title_is_the_question_without_its_mark() -> None:
    assert title_of("what is tea? ") == "What is tea"
    assert len(title_of("tea " * 200)) < 100


@given(st.text(), st.lists(st.text(), max_size=3))
def test_judging_takes_any_text(question: str, texts: list[str]) -> None:
    pages = [page for text in texts if (page := parse_page(f"[s0123456789] T\nplace\n\n{text}"))]
    given_text = " ".join(" ".join(texts).split())
    for quote in select(judge(analyse(question), pages)):
        assert " ".join(quote.text.split()) in given_text


def test_hits_without_a_location_are_not_opened() -> None:
    assert pages_to_open(analyse("tea"), [Hit("s0123456789", "Tea", "", "Tea is tea.", 0)]) == []
