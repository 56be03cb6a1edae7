"""Erasing, in every store: what the data policy forbids is gone, for readers and in the bytes of the files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, Budget, Scope
from concertino.errors import StorageError
from concertino.messages import ToolMessage, UserMessage
from concertino.storage import EntryMessage, StoredText

from .kit import FullStore, Tree, record, result_of, start_tree, traces, wait, whole


def held(text: str, keep: str | None, **more: Any) -> EntryMessage:
    return EntryMessage(message=UserMessage(text), keep=None if keep is None else UserMessage(keep), **more)


async def fill(tree: Tree, run_id: str, canary: str) -> None:
    """A run with *canary* in everything that may hold content."""
    texts = [StoredText(id=f"{run_id}-t", body=f"text {canary}", run_id=run_id)]
    shown = ({"id": 1, "parts": [canary]},)
    messages = [
        held(canary, None, progress=shown),
        held(f"{canary} all", "[reduced]", progress=shown, keep_progress=False),
        EntryMessage(message=ToolMessage("1", "t", canary * 2000), keep=ToolMessage("1", "t", "[used]")),
        whole("stays", progress=({"id": 2},)),
    ]
    body = {"texts": [f"{run_id}-t"]}
    await tree.append("model_requested", run_id, messages=messages, content={"calls": canary}, texts=texts, body=body)
    waits = [wait(f"{run_id}-{n}", run_id, arguments=canary, note=canary) for n in range(2)]
    await tree.append("suspended", run_id, waits=waits)
    resolution = result_of(canary, arguments=canary)
    await tree.store.resolve(OPERATOR, f"{run_id}-0", resolution)
    await tree.store.send(OPERATOR, run_id, "steer", canary)


async def check_erased(store: FullStore, run_id: str) -> None:
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    (entry,) = [entry for entry in journal.entries if entry.kind == "model_requested"]
    assert (entry.content, entry.erased) == (None, True)
    assert not journal.entries[0].erased
    kept: list[Any] = [UserMessage("[reduced]"), ToolMessage("1", "t", "[used]"), UserMessage("stays")]
    assert [each.message for each in entry.messages] == kept
    assert [list(each.progress) for each in entry.messages] == [[], [], [{"id": 2}]]
    assert [each.message for each in await store.messages(OPERATOR, run_id)] == kept
    assert journal.texts == {}
    for each in await store.waits(OPERATOR, run_id=run_id, open=False):
        assert each.resolution is not None
        assert (each.arguments, each.note, each.resolution.content, each.resolution.arguments) == ("", "", "", None)
    assert [each.text for each in await store.commands(OPERATOR, run_id)] == [""]


async def test_history_shows_the_kept_form_and_the_journal_everything(store: FullStore) -> None:
    tree = await start_tree(store)
    await fill(tree, "r1", "canary")
    kept = ["[reduced]", "[used]", "stays"]
    shown: list[Any] = [each.message for each in await store.messages(OPERATOR, "r1")]
    assert [getattr(each, "text", None) or each.content for each in shown] == kept
    assert [list(each.progress) for each in await store.messages(OPERATOR, "r1")] == [[], [], [{"id": 2}]]
    journal = await store.load(OPERATOR, "r1")
    assert journal is not None
    messages: list[Any] = [each.message for each in journal.entries[1].messages]
    assert messages[:2] == [UserMessage("canary"), UserMessage("canary all")]
    assert messages[2].content == "canary" * 2000
    assert [list(each.progress) for each in journal.entries[1].messages][:2] == [[{"id": 1, "parts": ["canary"]}]] * 2
    assert journal.entries[1].content == {"calls": "canary"}
    assert journal.texts == {"r1-t": "text canary"}


async def test_the_end_erases_at_once(store: FullStore, tmp_path: Path) -> None:
    tree = await start_tree(store)
    await fill(tree, "r1", "canary-one")
    other = await start_tree(store, "r2")
    await fill(other, "r2", "canary-two")
    await tree.end(erase_after=0)
    await check_erased(store, "r1")
    assert traces(tmp_path, "canary-one") == []
    found = await store.load(OPERATOR, "r2")
    assert found is not None
    assert found.entries[1].content == {"calls": "canary-two"}


async def test_nothing_is_erased_by_default(store: FullStore) -> None:
    tree = await start_tree(store)
    await fill(tree, "r1", "canary")
    await tree.end()
    assert await store.sweep(OPERATOR) == 0
    journal = await store.load(OPERATOR, "r1")
    assert journal is not None
    assert journal.entries[1].content == {"calls": "canary"}


async def test_a_sweep_erases_what_is_due(store: FullStore, tmp_path: Path) -> None:
    trees = {run_id: await start_tree(store, run_id) for run_id in ("soon", "late", "never")}
    for run_id, tree in trees.items():
        await fill(tree, run_id, f"canary-{run_id}")
    await trees["soon"].end(erase_after=1e-6)
    await trees["late"].end(erase_after=3600.0)
    assert await store.sweep(OPERATOR) == 1
    assert await store.sweep(OPERATOR) == 0
    await check_erased(store, "soon")
    assert traces(tmp_path, "canary-soon") == []
    for run_id in ("late", "never"):
        journal = await store.load(OPERATOR, run_id)
        assert journal is not None
        assert journal.entries[1].content == {"calls": f"canary-{run_id}"}


@pytest.mark.parametrize("erase_after", [0, 1e-6, 3600.0, None])
async def test_kept_messages_expire(store: FullStore, tmp_path: Path, erase_after: float | None) -> None:
    tree = await start_tree(store)
    messages = [
        held("first", "canary-kept", keep_seconds=0.0),
        held("second", "second", keep_seconds=3600.0),
        whole("canary-whole", keep_seconds=0.0),
        whole("fourth"),
    ]
    await tree.append(messages=messages)
    assert await store.sweep(OPERATOR) == 0
    await tree.end(erase_after=erase_after)
    assert await store.sweep(OPERATOR) == (erase_after == 1e-6), "messages for 0 seconds expire with the end"
    assert [each.message for each in await store.messages(OPERATOR, "r1")] == [
        UserMessage("second"),
        UserMessage("fourth"),
    ]
    assert await store.sweep(OPERATOR) == 0
    assert traces(tmp_path, "canary") == []


async def test_a_user_is_erased_and_the_ledger_stays(store: FullStore, tmp_path: Path) -> None:
    canary = "canary-ann"
    user = Scope("o1", f"{canary}-id")
    names: dict[str, Any] = {"scope": user, "conversation_id": f"{canary}-talk", "task": f"{canary} task"}
    tree = await start_tree(store, **names)
    await tree.child("r2", **names)
    await fill(tree, "r2", canary)
    await fill(tree, "r1", canary)
    shared = [StoredText(id="shared", body=canary)]
    await tree.append("resumed", texts=shared, body={"texts": ["shared"]}, usage=[record()])
    await store.set_budget(user, Budget(tokens=5))
    await store.remember(user, f"{canary} likes tea")
    await store.remember(Scope("o1", "bob"), "bob likes coffee")
    other = await start_tree(store, "other", scope=Scope("o1", "bob"))
    await other.append(messages=[whole("bob's")])
    with pytest.raises(StorageError, match=r"run 'r[12]' has not ended"):
        await store.erase(user)
    assert len(await store.messages(OPERATOR, "r1")) == 3
    await tree.end("r2", answer=canary, error=canary, erase_after=3600.0)
    await tree.end("r1", answer=canary, error=canary)
    erased = await store.erase(user)
    assert (erased.runs, erased.memories) == (2, 1)
    assert traces(tmp_path, canary) == []
    run = await store.run(OPERATOR, "r1")
    assert run is not None
    assert run.end is not None
    assert (run.start.scope.user, run.start.task, run.start.conversation_id, run.start.scope.tenant) == (
        "",
        "",
        "",
        "o1",
    )
    assert (run.end.answer, run.end.error) == ("", None)
    assert not await store.messages(OPERATOR, "r1")
    assert not await store.waits(OPERATOR, open=False)
    assert [each.text for each in await store.commands(OPERATOR, "r1")] == [""]
    assert list(await store.usage(OPERATOR, "r1")) == [record()]
    assert [each.by for each in await store.usage_sums(OPERATOR, ["tenant", "user"])] == [("o1", "")]
    assert list(await store.accounts(user)) == []
    assert list(await store.recall(user, "tea")) == list(await store.recall(user, "")) == []
    assert [each.text for each in await store.recall(Scope("o1", "bob"), "coffee")] == ["bob likes coffee"]
    assert [each.message for each in await store.messages(OPERATOR, "other")] == [UserMessage("bob's")]
    assert (await store.erase(user)).runs == 0
    kept = await store.remember(user, "again")
    assert list(await store.recall(user, "again")) == [kept]


async def test_an_erasure_reaches_one_tenant_only(store: FullStore) -> None:
    for number in (1, 2):
        tree = await start_tree(store, f"r{number}", scope=Scope(f"o{number}", "u1"))
        texts = [StoredText(id=f"t{number}", body="x")]
        await tree.append(messages=[whole("a")], texts=texts, body={"texts": [f"t{number}"]})
        await tree.end()
    assert (await store.erase(Scope("o1", "u1"))).runs == 1
    assert [len(await store.messages(OPERATOR, run_id)) for run_id in ("r1", "r2")] == [0, 1]
    journals = [await store.load(OPERATOR, run_id) for run_id in ("r1", "r2")]
    assert [journal and journal.texts for journal in journals] == [{}, {"t2": "x"}]


@pytest.mark.parametrize("seed", range(4))
async def test_concurrent_runs_leave_no_copies_behind(store: FullStore, tmp_path: Path, seed: int) -> None:
    """SQLite moves rows between pages, and may leave copies of them: the tables are made so that it never does."""
    rng = random.Random(seed)
    trees = []
    for number in range(12):
        names = {name: f"canary{number:02d} {name}" for name in ("task", "conversation_id")}
        trees.append((number, await start_tree(store, f"r{number}", scope=life_user(number), **names)))
        await store.remember(life_user(number), f"canary{number:02d} remembers {rng.random()}")
    for place in range(300):
        number, tree = rng.choice(trees)
        canary = f"canary{number:02d}"
        text = canary * rng.choice([1, 10, 50, 120, 300, 3000 if place % 20 == 0 else 5])
        wants = [wait(f"{number}/{place}", f"r{number}", arguments=canary * 9, note=text)] if place % 5 == 0 else []
        keep = rng.choice([None, "kept", canary, text])
        texts = [StoredText(id=f"t{place}", body=text, run_id=f"r{number}")]
        await tree.append(messages=[held(text, keep)], content={"x": text}, waits=wants, texts=texts)
        if wants and rng.random() < 0.7:
            await store.resolve(OPERATOR, wants[0].key, result_of(text))
        if place % 7 == 0:
            await store.send(OPERATOR, f"r{number}", "steer", text)
            await store.remember(life_user(number), f"{canary} {place}")
    rng.shuffle(trees)
    for number, tree in trees:
        await tree.end(answer=f"canary{number:02d} answer " * rng.randrange(1, 200), erase_after=rng.choice([0, None]))
        if rng.random() < 0.5:
            await forget(store, tmp_path, number)
            trees = [each for each in trees if each[0] != number]
    for number, _ in trees:
        await forget(store, tmp_path, number)


def life_user(number: int) -> Scope:
    return Scope("o1", f"canary{number:02d} user")


async def forget(store: FullStore, folder: Path, number: int) -> None:
    assert traces(folder, f"canary{number:02d}") or traces(folder, "") == []
    assert (await store.erase(life_user(number))).runs == 1
    assert traces(folder, f"canary{number:02d}") == []
