"""Memories, in every store."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino import Scope

from .kit import ANY_TEXT, Factory, FullStore


async def test_the_same_text_is_the_same_memory(store: FullStore) -> None:
    first = await store.remember(Scope("o1", "ann"), "likes tea")
    assert await store.remember(Scope("o1", "ann"), "likes tea") == first
    other = await store.remember(Scope("o1", "bob"), "likes tea")
    assert other.id != first.id
    assert list(await store.recall(Scope("o1", "ann"), "")) == [first]


async def test_recall_ranks_by_match_and_then_by_age(store: FullStore) -> None:
    for text in (
        "drinks green tea daily",
        "owns a red bicycle",
        "drinks black coffee daily",
        "trees in Ghent",
    ):
        await store.remember(Scope("o1", "ann"), text)

    async def texts(query: str, limit: int = 5) -> list[str]:
        return [memory.text for memory in await store.recall(Scope("o1", "ann"), query, limit)]

    assert (await texts("which tea is green?"))[0] == "drinks green tea daily"
    assert await texts("DRINKS") == ["drinks black coffee daily", "drinks green tea daily"]
    assert await texts("drinks", 1) == ["drinks black coffee daily"]
    assert await texts("violin") == []
    assert await texts("") == await texts(" !?") == (await texts("", 9))
    assert await texts("", 2) == ["trees in Ghent", "drinks black coffee daily"]
    assert await texts("drinks", 0) == await texts("", -1) == []
    assert len(await texts("", 2**63)) == 4


FOUND_BY = [
    ("boit du CAFÉ au lait", "cafe"),
    ("我喜欢咖啡", "咖啡"),
    ("我喜欢茶", "茶"),
    ("ชอบกาแฟ", "กาแฟ"),
    ("Straße", "STRASSE"),
]


@pytest.mark.parametrize(("text", "query"), FOUND_BY)
async def test_recall_in_any_script(store: FullStore, text: str, query: str) -> None:
    await store.remember(Scope("o1", "ann"), text)
    await store.remember(Scope("o1", "ann"), "something else")
    assert [memory.text for memory in await store.recall(Scope("o1", "ann"), query)] == [text]


async def test_memories_are_private(store: FullStore) -> None:
    owners = ["ann", "ann ", "Ann", 'an"n', "ann OR bob", "*", "ånn"]
    for owner in owners:
        await store.remember(Scope("o1", owner), f"secret of {owner!r}")
    for owner in owners:
        for query in ("secret", "", "secret of ann", "scope OR secret"):
            assert [memory.text for memory in await store.recall(Scope("o1", owner), query)] == [f"secret of {owner!r}"]
    assert (
        list(await store.recall(Scope("o1", "eve"), "secret")) == list(await store.recall(Scope("o1", "eve"), "")) == []
    )


@given(queries=st.lists(ANY_TEXT | st.text("\"'*^:(){}-+.ANDORNEAT \x00"), max_size=20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_raises(factory: Factory, tmp_path_factory: pytest.TempPathFactory, queries: list[str]) -> None:
    async def scenario() -> None:
        store = await factory(tmp_path_factory.mktemp("queries"))
        try:
            for query in ["x " * 10_000, "{words} : a NEAR(b c, 1) *", *queries]:
                await store.recall(Scope("o1", "ann"), query)
                kept = await store.remember(Scope("o1", "ann"), query)
                assert kept in await store.recall(Scope("o1", "ann"), "", 100)
        finally:
            await store.close()

    asyncio.run(scenario())
