"""Runs, their messages and journals, in every store, seen through the ports only."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino import OPERATOR, AnyScope, Scope
from concertino.errors import RunEndedError, RunExistsError, StaleClaimError, StorageError, UnknownRunError
from concertino.messages import (
    AssistantMessage,
    Message,
    MessagePart,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.storage import Claim, Entry, EntryMessage, StoredMessage, StoredText

from .kit import ANY_TEXT, SCOPE, Factory, FullStore, Tree, end, record, start, start_tree, wait, whole

PARTS: st.SearchStrategy[MessagePart] = st.one_of(
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
    lambda message, tokens, progress: whole(message, tokens=tokens, progress=tuple(progress)),
    MESSAGES,
    st.none() | st.integers(0, 2**62),
    STEPS,
)


@given(steps=st.lists(st.lists(STORED, max_size=4), max_size=3))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_messages_come_back_as_they_were(
    factory: Factory, tmp_path_factory: pytest.TempPathFactory, steps: list[list[EntryMessage]]
) -> None:
    async def scenario() -> None:
        store = await factory(tmp_path_factory.mktemp("round"))
        try:
            tree = await start_tree(store)
            for step in steps:
                await tree.append(messages=step)
            found = await store.messages(OPERATOR, "r1")
            journal = await store.load(OPERATOR, "r1")
        finally:
            await store.close()
        assert journal is not None
        assert [each for entry in journal.entries for each in entry.messages] == list(found)
        assert [len(entry.messages) for entry in journal.entries] == [0, *map(len, steps)]
        wanted = [plain(held) for step in steps for held in step]
        assert list(found) == wanted
        # What does not count in a comparison has to come back, too.
        assert [repr(stored.message) for stored in found] == [repr(stored.message) for stored in wanted]
        assert [sizes(stored.message) for stored in found] == [sizes(stored.message) for stored in wanted]

    asyncio.run(scenario())


def plain(held: EntryMessage) -> StoredMessage:
    return StoredMessage(message=held.message, tokens=held.tokens, progress=held.progress)


def sizes(message: Message) -> tuple[Any, ...]:
    """The fields of a tool's message that `repr` or a comparison leaves out."""
    return (message.whole, message.summary) if isinstance(message, ToolMessage) else ()


async def test_two_surrogates_stay_two(store: FullStore) -> None:
    text = "a\ud83d\ude00b\udead\U0001f600\\\ud800"
    message = AssistantMessage((Text(text), ToolCall("1", text, text)), model=text)
    await (await start_tree(store)).append(messages=[whole(message)])
    (found,) = await store.messages(OPERATOR, "r1")
    assert found.message == message


async def test_ten_megabytes(store: FullStore) -> None:
    message = ToolMessage("1", "read", "é" * 5_000_000, whole="x" * 10_000_000)
    await (await start_tree(store)).append(messages=[whole(message)])
    (found,) = await store.messages(OPERATOR, "r1")
    assert found.message == message


async def test_a_run_from_beginning_to_end(store: FullStore) -> None:
    child = start("r2", root_id="r1", parent_id="r1", parent_call="call-1", forked_from="r0")
    assert await store.run(OPERATOR, "r2") is None
    tree = await start_tree(store)
    await tree.begin(child)
    found = await store.run(OPERATOR, "r2")
    assert found is not None
    assert (found.start, found.end, found.state, found.entries) == (child, None, "running", 1)
    assert (found.epoch, found.owner, found.tries) == (1, "me", 0)
    ended = end(status="failed", answer="half\x00 Grüße 𐍈", error="gave up")
    await tree.append("ended", "r2", end=ended)
    found = await store.run(OPERATOR, "r2")
    assert found is not None
    assert (found.start, found.end, found.state, found.entries) == (child, ended, "failed", 2)


async def test_a_journal_comes_back_whole(store: FullStore) -> None:
    tree = await start_tree(store)
    texts = [StoredText(id=f"t{n}", body=f"text {n}\x00é") for n in range(3)]
    await tree.append(body={"texts": {"system": "t0", "other": "t9"}, "n": [1, {"a": None}]}, texts=texts, step=1)
    await tree.append("model_answered", body={"texts": ["t1"]}, content={"calls": ["x"]}, usage=[record(1)], step=1)
    await tree.append("suspended")
    journal = await store.load(OPERATOR, "r1")
    assert journal is not None
    assert [entry.seq for entry in journal.entries] == [0, 1, 2, 3]
    assert [entry.kind for entry in journal.entries] == ["started", "model_requested", "model_answered", "suspended"]
    assert [entry.step for entry in journal.entries] == [0, 1, 1, 0]
    assert [entry.epoch for entry in journal.entries] == [1] * 4
    assert journal.entries[1].body == {"texts": {"system": "t0", "other": "t9"}, "n": [1, {"a": None}]}
    assert [(entry.content, entry.erased) for entry in journal.entries[1:3]] == [
        (None, False),
        ({"calls": ["x"]}, False),
    ]
    assert [list(entry.usage) for entry in journal.entries] == [[], [], [record(1)], []]
    assert journal.texts == {"t0": "text 0\x00é", "t1": "text 1\x00é"}
    assert journal.run == await store.run(OPERATOR, "r1")
    assert journal.run.state == "suspended"
    assert await store.load(OPERATOR, "r9") is None


async def test_a_journal_is_read_from_its_last_snapshot(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(
        messages=[whole("a")], usage=[record(1)], body={"texts": ["t"]}, texts=[StoredText(id="t", body="x")]
    )
    await tree.append(body={"snapshot": {"entries": [], "messages": [2]}})
    await tree.append(messages=[whole("b")], content={"edits": 1})
    await tree.append(messages=[whole("c"), whole("d")])
    named = {"entries": [3], "messages": [4, 1], "state": 1}
    await tree.append(messages=[whole("e")], body={"snapshot": named}, usage=[record(2)])
    await tree.append("model_answered", messages=[whole("f")], usage=[record(3)])
    found, complete = [await store.load(OPERATOR, "r1", from_snapshot=asked) for asked in (True, False)]
    assert found is not None and complete is not None
    assert (found.snapshot, complete.snapshot) == (5, 0)
    assert [entry.seq for entry in found.entries] == [0, 3, 5, 6]
    assert [entry.content for entry in found.entries] == [None, {"edits": 1}, None, None]
    earlier = {seq: [stored.message for stored in messages] for seq, messages in found.earlier.items()}
    assert earlier == {1: [UserMessage("a")], 4: [UserMessage("c"), UserMessage("d")]}
    assert [len(entry.messages) for entry in found.entries] == [0, 0, 1, 1]
    assert found.entries[2].messages == complete.entries[5].messages
    assert await store.usage(OPERATOR, "r1", after=5) == (record(3),)
    assert not any(entry.usage for entry in found.entries)
    assert (found.run, found.texts) == (complete.run, {})
    assert await store.load(OPERATOR, "r9", from_snapshot=True) is None


@pytest.mark.parametrize(
    "bad",
    [
        *(None, [], {}, {"messages": [0]}, {"entries": []}),
        *({"entries": bad, "messages": [0]} for bad in (None, ["x"], [2], [-1])),
        *({"entries": [], "messages": bad} for bad in (None, [], ["x"], [3], [1, -1], [1, 2], [1, "x"])),
    ],
)
async def test_a_damaged_snapshot_is_not_used(store: FullStore, bad: Any) -> None:
    tree = await start_tree(store)
    await tree.append(messages=[whole("a")])
    await tree.append(body={"snapshot": bad})
    found, complete = [await store.load(OPERATOR, "r1", from_snapshot=asked) for asked in (True, False)]
    assert found == complete


async def test_a_text_is_stored_once(store: FullStore) -> None:
    tree = await start_tree(store)
    for body in ("first", "second"):
        await tree.append(body={"texts": ["t"]}, texts=[StoredText(id="t", body=body)])
    journal = await store.load(OPERATOR, "r1")
    assert journal is not None
    assert journal.texts == {"t": "first"}


async def test_starting_twice_is_refused(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(messages=[whole("a")])
    with pytest.raises(RunExistsError, match="'r1'"):
        await start_tree(store, task="something else")
    found = await store.run(OPERATOR, "r1")
    assert found is not None
    assert (found.start, found.entries) == (start(), 2)


async def test_surrogates_outside_messages_are_replaced(store: FullStore) -> None:
    tree = await start_tree(store, task="a\ud83d")
    await tree.append("ended", usage=[record(how="\udead", model="m\udead")], end=end(answer="b\ud83d", error="\ude00"))
    found = await store.run(OPERATOR, "r1")
    assert found is not None
    assert found.end is not None
    assert (found.start.task, found.end.answer, found.end.error) == ("a\ufffd", "b\ufffd", "\ufffd")
    assert [(booked.how, booked.model) for booked in await store.usage(OPERATOR, "r1")] == [("\ufffd", "m\ufffd")]


async def test_runs_newest_first(store: FullStore) -> None:
    trees = {}
    for number, conversation in enumerate(["c1", "c2", "c1", "c1"]):
        user = f"u{number % 2}"
        begins = float(number // 2)
        trees[number] = await start_tree(
            store, f"r{number}", conversation_id=conversation, started=begins, scope=Scope("o1", user)
        )
    await trees[0].child("child", conversation_id="c1", started=9.0, scope=Scope("o1", "u0"))
    await trees[3].end()

    async def ids(scope: AnyScope = OPERATOR, **asked: Any) -> list[str]:
        return [run.start.run_id for run in await store.runs(scope, **asked)]

    assert await ids() == ["child", "r3", "r2", "r1", "r0"]
    assert await ids(limit=2) == ["child", "r3"]
    assert await ids(limit=0) == await ids(limit=-1) == []
    assert len(await ids(limit=2**63)) == 5
    assert await ids(conversation_id="c1") == ["child", "r3", "r2", "r0"]
    assert await ids(conversation_id="c1", limit=1) == ["child"]
    assert await ids(root_id="r0") == ["child", "r0"]
    assert await ids(root_id="r1", conversation_id="c2") == ["r1"]
    assert await ids(root_id="r1", conversation_id="c1") == []
    assert await ids(roots=True) == ["r3", "r2", "r1", "r0"]
    assert await ids(Scope("o1", "u0")) == ["child", "r2", "r0"]
    assert await ids(state="completed") == ["r3"]
    assert await ids(Scope("o1", "u0"), state="running", roots=True) == ["r2", "r0"]


SHOWN = EntryMessage(message=UserMessage("b"), keep=None, progress=[{"x": object()}])
NO_MESSAGE: Any = object()
NO_TEXT: Any = b"bytes"
BAD: dict[str, dict[str, Any]] = {
    "no message": {"messages": [whole("a"), whole(NO_MESSAGE)], "kind": "ended", "end": end()},
    "no text": {"messages": [whole("a"), whole(UserMessage(NO_TEXT))], "usage": [record()]},
    "no part": {"messages": [whole(AssistantMessage((NO_MESSAGE,)))]},
    "no JSON": {"messages": [whole("a"), SHOWN], "usage": [record()]},
    "no JSON in the body": {"messages": [whole("a")], "body": {"x": object()}},
    "no JSON in what is held": {"messages": [whole("a")], "content": {"x": object()}},
    "usage of no run": {"messages": [whole("a")], "usage": [record(), record(2, "never")]},
    "the wait of another run": {"messages": [whole("a")], "waits": [wait(run_id="r9")]},
    "an end of another kind": {"messages": [whole("a")], "end": end()},
    "no end": {"messages": [whole("a")], "kind": "ended"},
    "an end with another status": {"kind": "ended", "end": end(status="suspended")},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_an_invalid_part_rejects_the_whole_entry(store: FullStore, bad: dict[str, Any]) -> None:
    tree = await start_tree(store)
    before = await store.load(OPERATOR, "r1")
    with pytest.raises((StorageError, UnknownRunError)):
        await tree.append(**bad)
    assert len(await store.messages(OPERATOR, "r1")) == len(await store.usage(OPERATOR, "r1")) == 0
    assert await store.load(OPERATOR, "r1") == before
    await tree.append(messages=[whole("a")])
    assert len(await store.messages(OPERATOR, "r1")) == 1


async def test_an_unknown_run_is_refused(store: FullStore) -> None:
    tree = Tree(store, Claim(root_id="r1", scope=SCOPE, epoch=1, owner="me", seconds=9.0))
    tree.next["r1"] = 1
    for asked in (store.claim(OPERATOR, "r1", "me", 1.0), store.send(OPERATOR, "r1", "stop")):
        with pytest.raises(UnknownRunError, match="'r1'"):
            await asked
    for written in (tree.append(), store.renew(tree.claim, 1.0), tree.child("r2")):
        with pytest.raises(StaleClaimError, match="unknown run 'r1'"):
            await written
    await store.release(tree.claim)
    assert await store.run(OPERATOR, "r1") is await store.run(OPERATOR, "r2") is None
    assert not await store.messages(OPERATOR, "r1")
    assert not await store.commands(OPERATOR, "r1")


async def test_after_the_end_only_usage_is_taken(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.end()
    late: list[dict[str, Any]] = [
        {"kind": "usage_booked", "messages": [whole("a")], "usage": [record(1)]},
        {"kind": "model_requested", "usage": [record(1)]},
        {"kind": "ended", "end": end(answer="x")},
        {"kind": "resumed"},
    ]
    for more in late:
        with pytest.raises(RunEndedError, match="ended"):
            await tree.append(**more)
    await tree.append("usage_booked", usage=[record(2)])
    await store.release(tree.claim)
    await tree.append("usage_booked", usage=[record(3)])
    assert list(await store.messages(OPERATOR, "r1")) == []
    assert list(await store.usage(OPERATOR, "r1")) == [record(2), record(3)]
    found = await store.run(OPERATOR, "r1")
    assert found is not None
    assert (found.end, found.state) == (end(), "completed")
    with pytest.raises(RunEndedError):
        await tree.child("r2")
    with pytest.raises(RunEndedError):
        await store.send(OPERATOR, "r1", "stop")


async def test_stored_values_are_copies(store: FullStore) -> None:
    step: dict[str, Any] = {"id": 1, "parts": [1]}
    await (await start_tree(store)).append(messages=[whole("a", progress=[step])], body=step, content=step)
    step["parts"].append(2)
    for _ in range(2):
        (found,) = await store.messages(OPERATOR, "r1")
        journal = await store.load(OPERATOR, "r1")
        assert journal is not None
        wanted = {"id": 1, "parts": [1]}
        assert list(found.progress) == [wanted]
        assert (journal.entries[1].body, journal.entries[1].content) == (wanted, wanted)
        found.progress[0]["parts"].append(3)
        journal.entries[1].body["parts"].append(3)


async def test_concurrent_appends_keep_their_order(store: FullStore) -> None:
    tree = await start_tree(store)
    entries = []
    for number in range(1, 31):
        messages = [whole(f"{number}a"), whole(f"{number}b")]
        entries.append(Entry(run_id="r1", seq=number, claim=tree.claim, kind="model_requested", messages=messages))
    await asyncio.gather(*(store.append(entry) for entry in entries))
    found = [stored.message for stored in await store.messages(OPERATOR, "r1")]
    assert found == [UserMessage(f"{n}{half}") for n in range(1, 31) for half in "ab"]


async def test_a_cancelled_append_is_whole_or_not_at_all(store: FullStore) -> None:
    tree = await start_tree(store)
    entry = tree.entry(messages=[whole("a"), whole("b")], usage=[record()])
    task = asyncio.ensure_future(store.append(entry))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    run = await store.run(OPERATOR, "r1")
    assert run is not None
    found = (run.entries, len(await store.messages(OPERATOR, "r1")), len(await store.usage(OPERATOR, "r1")))
    assert found in ((2, 2, 1), (1, 0, 0))
    tree.next["r1"] = run.entries
    await tree.append(messages=[whole("c")])


async def test_closing_twice(store: FullStore) -> None:
    await store.close()
    await store.close()
