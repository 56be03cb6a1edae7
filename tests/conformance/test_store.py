"""What holds for every store, seen through the ports only. An adapter joins with a line in `ADAPTERS`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino.errors import StorageError
from concertino.messages import (
    AssistantMessage,
    Message,
    Part,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.storage.memory import MemoryStore
from concertino.storage.port import Batch, Memories, RunEnd, RunStart, Store, StoredMessage
from concertino.storage.sqlite import SqliteStore
from concertino.usage import Tokens, UsageRecord


class FullStore(Store, Memories, Protocol):
    """Both ports."""


Factory = Callable[[Path], Awaitable[FullStore]]


async def memory_store(_folder: Path) -> FullStore:
    return MemoryStore()


async def sqlite_store(folder: Path) -> FullStore:
    return await SqliteStore.open(folder / "store.db")


ADAPTERS: dict[str, Factory] = {"memory": memory_store, "sqlite": sqlite_store}


@pytest.fixture(params=ADAPTERS)
def factory(request: pytest.FixtureRequest) -> Factory:
    return ADAPTERS[request.param]


@pytest.fixture
async def store(factory: Factory, tmp_path: Path) -> Any:
    made = await factory(tmp_path)
    yield made
    await made.close()


def start(run_id: str = "r1", **changes: Any) -> RunStart:
    plain = RunStart(
        run_id=run_id,
        root_id=run_id,
        parent_id=None,
        parent_call=None,
        agent="supervisor",
        agent_path="supervisor",
        conversation_id="c1",
        user_id="u1",
        organization_id="o1",
        task="Find it.",
        started=1000.25,
    )
    return replace(plain, **changes)


def end(**changes: Any) -> RunEnd:
    return replace(RunEnd(status="completed", answer="Found.", error=None, ended=1001.5), **changes)


def say(text: str) -> StoredMessage:
    return StoredMessage(message=UserMessage(text))


def record(number: int = 1, run_id: str = "r1", **changes: Any) -> UsageRecord:
    plain = UsageRecord(
        id=f"{run_id}/{number}",
        run_id=run_id,
        agent_path="supervisor",
        provider="scripted",
        model="small",
        tokens=Tokens(10, 5, 4, 3, 2),
        source="estimated",
        how="by o200k",
        cost=Decimal("0.1000000000000000000000000001"),
        price_version="2026-01",
        tools=("search", "fetch"),
    )
    return replace(plain, **changes)


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
"""All of Unicode, lone surrogates included."""

PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, ANY_TEXT),
    st.builds(Reasoning, ANY_TEXT, st.none() | ANY_TEXT, st.none() | ANY_TEXT, ANY_TEXT),
    st.builds(ToolCall, ANY_TEXT, ANY_TEXT, ANY_TEXT, st.none() | ANY_TEXT),
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, ANY_TEXT),
    st.builds(UserMessage, ANY_TEXT),
    st.builds(
        AssistantMessage,
        st.lists(PARTS, max_size=4).map(tuple),
        st.sampled_from(["end", "tool_calls", "length", "filter", "broken"]),
        ANY_TEXT,
    ),
    st.builds(
        ToolMessage,
        ANY_TEXT,
        ANY_TEXT,
        ANY_TEXT,
        st.booleans(),
        st.none() | ANY_TEXT,
        st.none() | ANY_TEXT,
    ),
)
# Free JSON cannot tell two surrogates apart from the one character that they would be.
SAFE_TEXT = st.text(max_size=10)
STEPS = st.lists(
    st.dictionaries(SAFE_TEXT, st.none() | st.booleans() | st.integers() | SAFE_TEXT | st.lists(SAFE_TEXT), max_size=3),
    max_size=3,
)
STORED = st.builds(
    lambda message, tokens, progress: StoredMessage(message=message, tokens=tokens, progress=tuple(progress)),
    MESSAGES,
    st.none() | st.integers(0, 2**62),
    STEPS,
)


@given(batches=st.lists(st.lists(STORED, max_size=4), max_size=3))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_messages_come_back_as_they_were(
    factory: Factory, tmp_path_factory: pytest.TempPathFactory, batches: list[list[StoredMessage]]
) -> None:
    async def scenario() -> None:
        store = await factory(tmp_path_factory.mktemp("round"))
        try:
            await store.begin(start())
            for batch in batches:
                await store.append(Batch(run_id="r1", messages=batch))
            found = await store.messages("r1")
        finally:
            await store.close()
        wanted = [stored for batch in batches for stored in batch]
        assert list(found) == wanted
        # What does not count in a comparison has to come back, too.
        assert [repr(stored.message) for stored in found] == [repr(stored.message) for stored in wanted]
        assert [sizes(stored.message) for stored in found] == [sizes(stored.message) for stored in wanted]

    asyncio.run(scenario())


def sizes(message: Message) -> tuple[Any, ...]:
    """The fields of a tool's message that `repr` or a comparison leaves out."""
    return (message.whole, message.summary) if isinstance(message, ToolMessage) else ()


async def test_surrogates_that_would_melt_into_one_character_stay_two(store: FullStore) -> None:
    text = "a\ud83d\ude00b\udead\U0001f600\\\ud800"
    message = AssistantMessage((Text(text), ToolCall("1", text, text)), model=text)
    await store.begin(start())
    await store.append(Batch(run_id="r1", messages=[StoredMessage(message=message)]))
    (found,) = await store.messages("r1")
    assert found.message == message


async def test_ten_megabytes(store: FullStore) -> None:
    message = ToolMessage("1", "read", "é" * 5_000_000, whole="x" * 10_000_000)
    await store.begin(start())
    await store.append(Batch(run_id="r1", messages=[StoredMessage(message=message)]))
    (found,) = await store.messages("r1")
    assert found.message == message


async def test_a_run_from_beginning_to_end(store: FullStore) -> None:
    child = start("r2", root_id="r1", parent_id="r1", parent_call="call-1", agent_path="supervisor/searcher")
    assert await store.run("r2") is None
    await store.begin(child)
    found = await store.run("r2")
    assert found is not None
    assert (found.start, found.end) == (child, None)
    ended = end(status="failed", answer="half\x00 Grüße 𐍈", error="gave up")
    await store.append(Batch(run_id="r2", end=ended))
    found = await store.run("r2")
    assert found is not None
    assert (found.start, found.end) == (child, ended)


async def test_beginning_again_changes_nothing(store: FullStore) -> None:
    await store.begin(start())
    await store.append(Batch(run_id="r1", messages=[say("a")], end=end()))
    await store.begin(start(task="something else"))
    found = await store.run("r1")
    assert found is not None
    assert (found.start, found.end) == (start(), end())
    assert len(await store.messages("r1")) == 1


async def test_what_is_no_unicode_is_replaced_outside_messages(store: FullStore) -> None:
    await store.begin(start(task="a\ud83d"))
    await store.append(Batch(run_id="r1", usage=[record(how="\udead")], end=end(answer="b\ud83d", error="\ude00")))
    found = await store.run("r1")
    assert found is not None
    assert found.end is not None
    assert (found.start.task, found.end.answer, found.end.error) == ("a\ufffd", "b\ufffd", "\ufffd")
    assert [booked.how for booked in await store.usage("r1")] == ["\ufffd"]


async def test_runs_newest_first(store: FullStore) -> None:
    for number, conversation in enumerate(["c1", "c2", "c1", "c1"]):
        await store.begin(start(f"r{number}", conversation_id=conversation, started=float(number // 2)))
    await store.begin(start("child", root_id="r0", conversation_id="c1", started=9.0))

    async def ids(**asked: Any) -> list[str]:
        return [run.start.run_id for run in await store.runs(**asked)]

    assert await ids() == ["child", "r3", "r2", "r1", "r0"]
    assert await ids(limit=2) == ["child", "r3"]
    assert await ids(limit=0) == await ids(limit=-1) == []
    assert await ids(conversation_id="c1") == ["child", "r3", "r2", "r0"]
    assert await ids(conversation_id="c1", limit=1) == ["child"]
    assert await ids(root_id="r0") == ["child", "r0"]
    assert await ids(root_id="r1", conversation_id="c2") == ["r1"]
    assert await ids(root_id="r1", conversation_id="c1") == []


async def test_usage_of_a_tree_in_the_order_of_booking(store: FullStore) -> None:
    await store.begin(start("r1"))
    await store.begin(start("r2", root_id="r1"))
    await store.begin(start("other"))
    booked = [record(9), record(1, "r2", cost=None), record(5, cost=Decimal("1E-9")), record(0, "r2")]
    for each in booked:
        await store.append(Batch(run_id=each.run_id, usage=[each]))
    await store.append(Batch(run_id="other", usage=[record(1, "other")]))
    found = await store.usage("r1")
    assert list(found) == booked
    assert [str(each.cost) for each in found] == [str(each.cost) for each in booked]
    assert list(await store.usage("nobody")) == []


async def test_a_batch_may_book_for_other_runs(store: FullStore) -> None:
    await store.begin(start("r1"))
    await store.begin(start("r2", root_id="r2"))
    await store.append(Batch(run_id="r1", usage=[record(1, "r2")]))
    assert [each.id for each in await store.usage("r2")] == ["r2/1"]


async def test_usage_is_booked_once(store: FullStore) -> None:
    await store.begin(start())
    await store.append(Batch(run_id="r1", usage=[record(1), record(1)]))
    again = record(1, model="other")
    await store.append(Batch(run_id="r1", messages=[say("a")], usage=[again, record(2)]))
    assert list(await store.usage("r1")) == [record(1), record(2)]
    assert len(await store.messages("r1")) == 1


NO_MESSAGE: Any = object()
NO_TEXT: Any = b"bytes"
SHOWN = StoredMessage(message=UserMessage("b"), progress=[{"x": object()}])
BAD = {
    "no message": Batch(run_id="r1", messages=[say("a"), StoredMessage(message=NO_MESSAGE)], end=end()),
    "no text": Batch(run_id="r1", messages=[say("a"), say(NO_TEXT)], usage=[record()]),
    "no part": Batch(run_id="r1", messages=[StoredMessage(message=AssistantMessage((NO_MESSAGE,)))]),
    "no JSON": Batch(run_id="r1", messages=[say("a"), SHOWN], usage=[record()], end=end()),
    "usage of no run": Batch(run_id="r1", messages=[say("a")], usage=[record(), record(2, "never")]),
    "no run": Batch(run_id="never", messages=[say("a")], usage=[record()], end=end()),
    "no run, nothing": Batch(run_id="never"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_member_spoils_the_whole_batch(store: FullStore, bad: Batch) -> None:
    await store.begin(start())
    with pytest.raises(StorageError):
        await store.append(bad)
    assert len(await store.messages("r1")) == len(await store.usage("r1")) == 0
    found = await store.run("r1")
    assert found is not None
    assert found.end is None
    assert await store.run("never") is None
    await store.append(Batch(run_id="r1", messages=[say("a")]))
    assert len(await store.messages("r1")) == 1


async def test_after_the_end_only_usage_is_taken(store: FullStore) -> None:
    await store.begin(start())
    await store.append(Batch(run_id="r1", end=end()))
    late = (
        Batch(run_id="r1", messages=[say("a")], usage=[record(1)]),
        Batch(run_id="r1", end=end(answer="x")),
    )
    for batch in late:
        with pytest.raises(StorageError, match="ended"):
            await store.append(batch)
    await store.append(Batch(run_id="r1", usage=[record(2)]))
    assert list(await store.messages("r1")) == []
    assert list(await store.usage("r1")) == [record(2)]
    found = await store.run("r1")
    assert found is not None
    assert found.end == end()


async def test_what_was_handed_over_can_no_longer_change(store: FullStore) -> None:
    step: dict[str, Any] = {"id": 1, "parts": [1]}
    await store.begin(start())
    await store.append(Batch(run_id="r1", messages=[StoredMessage(message=UserMessage("a"), progress=[step])]))
    step["parts"].append(2)
    (found,) = await store.messages("r1")
    found.progress[0]["parts"].append(3)
    (found,) = await store.messages("r1")
    assert list(found.progress) == [{"id": 1, "parts": [1]}]


async def test_appends_at_once_keep_their_order(store: FullStore) -> None:
    await store.begin(start())
    batches = [Batch(run_id="r1", messages=[say(f"{n}a"), say(f"{n}b")]) for n in range(30)]
    await asyncio.gather(*(store.append(batch) for batch in batches))
    found = [stored.message for stored in await store.messages("r1")]
    assert found == [UserMessage(f"{n}{half}") for n in range(30) for half in "ab"]


async def test_a_cancelled_append_is_whole_or_not_at_all(store: FullStore) -> None:
    await store.begin(start())
    batch = Batch(run_id="r1", messages=[say("a"), say("b")], usage=[record()])
    task = asyncio.ensure_future(store.append(batch))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = (len(await store.messages("r1")), len(await store.usage("r1")))
    assert found in ((2, 1), (0, 0))
    await store.append(Batch(run_id="r1", messages=[say("c")]))


async def test_closing_twice(store: FullStore) -> None:
    await store.close()
    await store.close()


async def test_the_same_text_is_the_same_memory(store: FullStore) -> None:
    first = await store.remember("ann", "likes tea")
    assert await store.remember("ann", "likes tea") == first
    other = await store.remember("bob", "likes tea")
    assert other.id != first.id
    assert list(await store.recall("ann", "")) == [first]


async def test_recall_finds_the_best_and_of_equals_the_newest(store: FullStore) -> None:
    for text in (
        "drinks green tea daily",
        "owns a red bicycle",
        "drinks black coffee daily",
        "lives in Ghent",
    ):
        await store.remember("ann", text)

    async def texts(query: str, limit: int = 5) -> list[str]:
        return [memory.text for memory in await store.recall("ann", query, limit)]

    assert (await texts("which tea is green?"))[0] == "drinks green tea daily"
    assert await texts("DRINKS") == ["drinks black coffee daily", "drinks green tea daily"]
    assert await texts("drinks", 1) == ["drinks black coffee daily"]
    assert await texts("violin") == []
    assert await texts("") == await texts(" !?") == (await texts("", 9))
    assert await texts("", 2) == ["lives in Ghent", "drinks black coffee daily"]
    assert await texts("drinks", 0) == await texts("", -1) == []


FOUND_BY = [
    ("boit du CAFÉ au lait", "cafe"),
    ("我喜欢咖啡", "咖啡"),
    ("我喜欢茶", "茶"),
    ("ชอบกาแฟ", "กาแฟ"),
    ("Straße", "STRASSE"),
]


@pytest.mark.parametrize(("text", "query"), FOUND_BY)
async def test_recall_in_any_script(store: FullStore, text: str, query: str) -> None:
    await store.remember("ann", text)
    await store.remember("ann", "something else")
    assert [memory.text for memory in await store.recall("ann", query)] == [text]


async def test_nobody_sees_the_memories_of_another(store: FullStore) -> None:
    owners = ["ann", "ann ", "Ann", 'an"n', "", "ann OR bob", "*", "ånn"]
    for owner in owners:
        await store.remember(owner, f"secret of {owner!r}")
    for owner in owners:
        for query in ("secret", "", "secret of ann", "owner_key OR secret"):
            assert [memory.text for memory in await store.recall(owner, query)] == [f"secret of {owner!r}"]
    assert list(await store.recall("eve", "secret")) == list(await store.recall("eve", "")) == []


@given(queries=st.lists(ANY_TEXT | st.text("\"'*^:(){}-+.ANDORNEAT \x00"), max_size=20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_raises(factory: Factory, tmp_path_factory: pytest.TempPathFactory, queries: list[str]) -> None:
    async def scenario() -> None:
        store = await factory(tmp_path_factory.mktemp("queries"))
        try:
            for query in ["x " * 10_000, "{words} : a NEAR(b c, 1) *", *queries]:
                await store.recall("ann", query)
                kept = await store.remember("ann", query)
                assert kept in await store.recall("ann", "", 100)
        finally:
            await store.close()

    asyncio.run(scenario())
