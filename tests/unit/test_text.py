"""Text segmentation for full-text search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.text import bigrams, fold, index_terms, query_terms

PARTS = {
    "대한민국헌법": "헌법",
    "東京都に住んでいます": "東京",
    "ใช้ภาษาไทยได้": "ภาษา",
    "日本国憲法": "憲法",
    "コンチェルティーノ": "チェル",
    "豈更車": "更車",  # compatibility forms
    "prefers Κρήτη": "ΚΡΗΤΗ",  # noqa: RUF001
    "lives in Straße 12": "STRASSE",
    "drew 20 ㎃": "MA",
}


@pytest.mark.parametrize(("text", "part"), PARTS.items())
def test_a_part_of_a_text_is_found_in_its_index(text: str, part: str) -> None:
    assert set(query_terms(part)) <= set(index_terms(text))


@pytest.mark.parametrize("text", ["대한민국헌법", "東京都", "ไทย"])
def test_a_single_character_of_an_unspaced_script_is_found(text: str) -> None:
    assert set(query_terms(text[0])) <= set(index_terms(text))


def test_a_spaced_word_is_found_only_as_a_whole() -> None:
    assert index_terms("Concertino orchestrates") == ["concertino", "orchestrates"]
    assert not set(query_terms("concert")) & set(index_terms("Concertino"))


def test_query_terms_are_distinct_and_limited() -> None:
    assert query_terms("b a b a") == ["b", "a"]
    assert len(query_terms(" ".join(map(str, range(100))))) == 64
    assert query_terms("a b c", limit=2) == ["a", "b"]


def test_bigrams_of_a_single_character_are_empty() -> None:
    assert bigrams("字") == []


@given(st.text())
def test_every_text_finds_itself(text: str) -> None:
    assert set(query_terms(text)) <= set(index_terms(text))
    assert fold(fold(text)) == fold(text)
