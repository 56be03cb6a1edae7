"""Words, sentences, pages and questions: the pure parts that everything else stands on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.providers.extractive.pages import parse_page
from concertino.providers.extractive.questions import analyse, continued, needs_context
from concertino.providers.extractive.splitting import split_pieces, split_sentences
from concertino.providers.extractive.subquestions import split
from concertino.providers.extractive.words import forms, is_identifier, stem, stems

from .desk import page_text


@pytest.mark.parametrize(
    "words",
    [
        ("cancel", "cancels", "cancelled", "cancellation"),
        ("query", "queries"),
        ("cache", "caching", "cached"),
        ("replace", "replacement"),
        ("eligible", "eligibility"),
        ("serialise", "serialize", "serialization"),
        ("class", "classes"),
        ("f-string", "f-strings"),
    ],
)
def test_words_of_one_family_share_a_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


@pytest.mark.parametrize(("one", "other"), [("capital", "capitalize"), ("statement", "state"), ("class", "clash")])
def test_different_words_keep_different_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_a_name_is_met_under_its_parts() -> None:
    assert {"tools.teapot", "tool", "teapot"} <= set(forms("tools.Teapot"))
    assert {"warm", "pot"} <= set(forms("WarmPot"))
    assert {"warm", "pot"} <= set(forms("warm_pot"))


def test_numbers_and_scripts_without_blanks() -> None:
    assert stems("PEP-0012 costs $1,000.00 in 3.11") == ["pep-12", "pep", "12", "cost", "1000.00", "in", "3.11"]
    assert "茶碗" in stems("私の茶碗です")


@pytest.mark.parametrize(
    ("word", "expected"), [("os.path", True), ("TaskGroup", True), ("end.", False), ("e.g", False)]
)
def test_identifiers(word: str, expected: bool) -> None:
    assert is_identifier(word) is expected


def test_sentences_are_cut_where_they_end() -> None:
    text = (
        "Use e.g. Tea. It costs $5.00 in version 3.11. teapot.run() starts it. Ask Mr. J. Smith. Really? 茶です。はい。"
    )
    assert split_sentences(text) == [
        "Use e.g. Tea.",
        "It costs $5.00 in version 3.11.",
        "teapot.run() starts it.",
        "Ask Mr. J. Smith.",
        "Really?",
        "茶です。",
        "はい。",
    ]


@given(st.text())
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(split_pieces(text)) == text


def test_a_page_knows_where_its_sentences_stand() -> None:
    page = parse_page(page_text("lib/teapot.md"))
    assert page is not None
    assert page.title == "The Teapot Module"
    found = {sentence.text: sentence for sentence in page.sentences}
    assert found["Warm the pot."].kind == "item"
    assert found["Warm the pot."].marker == "1."
    assert found["Warm the pot."].heading == "Steps"


def test_program_text_belongs_to_the_sentence_before_it() -> None:
    body = "Example use:\n\n    first()\n\n    second()\n\nThe rest."
    page = parse_page(f"[s0123456789] Title\nplace\n\n{body}")
    assert page is not None
    assert [(sentence.text, sentence.code) for sentence in page.sentences] == [
        ("Example use:", "first()\n\nsecond()"),
        ("The rest.", ""),
    ]


def test_what_was_left_out_of_a_page_is_not_quoted() -> None:
    page = parse_page("[s0123456789] T\nplace\n\nOne.\n\n[... 12,345 characters left out ...]\n\nTwo.")
    assert page is not None
    assert [sentence.text for sentence in page.sentences] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("text", "kind", "focus"),
    [
        ("What is a teapot?", "definition", "teapot"),
        ("Why was the whistle added?", "why", "whistle"),
        ("How many cups does a kettle hold?", "amount", "kettle"),
        ("How long do I wait?", "when", ""),
        ("Who wrote pottery.Teapot?", "who", "pottery.Teapot"),
        ("How does a pot differ from a kettle?", "difference", "pot"),
        ("How do I warm the pot with Steam 3000?", "how", "Steam 3000"),
        ("Can I boil milk?", "yesno", "milk"),
    ],
)
def test_questions_are_understood(text: str, kind: str, focus: str) -> None:
    question = analyse(text)
    assert (question.kind, question.focus) == (kind, focus)


def test_a_follow_up_takes_what_it_leaves_out_from_before() -> None:
    question = analyse("And for teapots?")
    assert needs_context(question)
    whole = continued(question, ["How do I warm a kettle?"])
    assert {term.word for term in whole.terms} == {"teapots", "warm", "kettle"}
    assert whole.kind == "how"


def test_a_whole_question_needs_nothing_from_before() -> None:
    question = analyse("How do I silence the whistle of a kettle?")
    assert continued(question, ["What is a teapot?"]) is question


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "What is a teapot and why was it split from the kettle?",
            ["What is a teapot?", "Why was a teapot split from the kettle?"],
        ),
        ("What are the fees and rules for boats?", ["What are the fees for boats?", "What are the rules for boats?"]),
        (
            "What is the difference between pottery.Teapot and pottery.Kettle?",
            [
                "What is the difference between pottery.Teapot and pottery.Kettle?",
                "What is pottery.Teapot?",
                "What is pottery.Kettle?",
            ],
        ),
        ("How do I boil water? Who wrote the kettle module?", ["How do I boil water?", "Who wrote the kettle module?"]),
        ("1. How do I boil water\n2. How long does tea take", ["How do I boil water?", "How long does tea take?"]),
    ],
)
def test_questions_are_taken_apart(text: str, expected: list[str]) -> None:
    assert [part.text for part in split(text)] == expected


def test_a_single_question_gets_angles_from_its_own_words() -> None:
    parts = split("How do I warm pottery.Teapot?")
    assert [(part.text, part.asked) for part in parts] == [
        ("How do I warm pottery.Teapot?", True),
        ("What is pottery.Teapot?", False),
    ]


@given(st.text(), st.lists(st.text(), max_size=2))
def test_splitting_takes_any_text(text: str, earlier: list[str]) -> None:
    parts = split(text, earlier)
    assert len(parts) <= 5
    assert all(part.text.strip() for part in parts)
    assert len({part.text for part in parts}) == len(parts)


@given(st.text())
def test_pages_take_any_text(text: str) -> None:
    page = parse_page(f"[s0123456789] T\nplace\n\n{text}")
    assert page is not None
    flat = " ".join(text.split())
    assert all(" ".join(sentence.text.split()) in flat for sentence in page.sentences)
