"""What is shown where nothing answers, and how other spellings of the same thing are found."""

from __future__ import annotations

import pytest

from concertino.providers.extractive.evidence import Findings, judge
from concertino.providers.extractive.pages import Page, parse_page
from concertino.providers.extractive.questions import analyse
from concertino.providers.extractive.quotes import CLOSEST, write
from concertino.providers.extractive.report import Finding, compose
from concertino.providers.extractive.selection import select
from concertino.providers.extractive.subquestions import SubQuestion, split

LANTERN = """[s00000000aa] lantern (module)
lantern

Lantern keeps the light of a candle from the wind.

The lantern module opens with the lid and closes by itself. Each lantern burns for about four hours.

All rights reserved.

See the manual for more.
"""
COPYING = """[s00000000bb] mirror (module)
mirror

Tools for mirrors.

The difference between a flat copy and a deep copy matters for nested boxes only.

- A flat copy takes the box and leaves what is in it.

- A deepmirror takes the box and copies all that is in it, too.
"""
DIGEST = """[s00000000cc] digester (module)
digester

Digester makes digests: sha256() gives the digest of a text.
"""


def opened(text: str) -> Page:
    page = parse_page(text)
    assert page is not None
    return page


def judged(question: str, *pages: str) -> Findings:
    return judge(analyse(question), [opened(page) for page in pages])


def test_what_is_about_the_subject_and_does_not_answer_is_related() -> None:
    findings = judged("How does the lantern module decide whether a visitor is announced?", LANTERN)
    assert not findings.answers
    question = "How does a lantern keep a candle polished in the wind?"
    findings = judged(question, LANTERN)
    assert findings.related
    assert not findings.answers
    assert select(findings)


@pytest.mark.parametrize("question", ["Why was the lantern painted?", "Who painted the lantern?", "How to bake bread?"])
def test_something_close_is_no_help_with_a_fact_or_another_subject(question: str) -> None:
    assert select(judged(question, LANTERN)) == []


def test_the_report_says_that_nothing_answers_directly() -> None:
    question = "How does a lantern keep a candle polished in the wind?"
    findings = judged(question, LANTERN)
    answer = f"{CLOSEST}\n\n{write(select(findings))}"
    report = compose(analyse(question), [Finding(SubQuestion(question), answer)])
    assert "do not answer “How does a lantern keep a candle polished in the wind?” directly" in report
    assert f"*{CLOSEST}*" in report
    assert "[s00000000aa]" in report


def test_what_cannot_be_read_alone_is_never_quoted() -> None:
    texts = [quote.text for quote in select(judged("What does the lantern module do?", LANTERN))]
    assert any("candle" in text for text in texts)
    assert not any("rights reserved" in text or text.startswith("See") for text in texts)


def test_a_compound_is_found_where_it_is_written_apart() -> None:
    findings = judged("What is a deepcopy?", COPYING)
    assert not findings.missing


def test_a_name_with_a_hyphen_is_found_as_programs_write_it() -> None:
    findings = judged("What gives the SHA-256 digest of a text?", DIGEST)
    assert not any(term.named for term in findings.missing)


def test_a_clause_that_leaves_open_of_what_gets_the_subject() -> None:
    parts = [
        part.text for part in split("What problem does lantern folding solve, and what alternatives were rejected?")
    ]
    assert parts[1] == "What alternatives were rejected (lantern folding)?"


def test_which_one_is_answered_by_naming_one() -> None:
    page = """[s00000000dd] RULE 9: Lantern folding
rules/9

Lantern folding is fun and was introduced with great care for lanterns.

Lantern folding was introduced by RULE 4.
"""
    quotes = select(judged("Which RULE introduced lantern folding?", page))
    assert "Lantern folding was introduced by RULE 4." in [quote.text for quote in quotes]
