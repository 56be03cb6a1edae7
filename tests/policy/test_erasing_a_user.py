"""Erasing a user removes their content and name, and keeps the ledger and other users."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concertino import Budget, DataPolicy, Resources, Session, SqliteStore
from concertino.errors import ErasedError, StorageError
from concertino.runtime import Runtime
from concertino.storage import user_account
from concertino.testing import ScriptedModel

from .drive import Play, to_the_end
from .kit import POLICIES, Canaries, Leaks, files, look_by_port
from .scene import chat, family, scripted

KEEP = DataPolicy(keep_whole_results=True)


def look_in_files(path: Path, leaks: Leaks, when: str) -> None:
    for each in files(path):
        leaks.look(f"{each.name} ({when})", each.read_bytes(), path)


async def live(store: SqliteStore, seed: int) -> tuple[Canaries, Session, str]:
    """A user with a run of three agents, memories and a budget; all of it is kept."""
    canaries = Canaries("unicode", seed)
    user = Session(user_id=canaries["user id"], organization_id="org-1")
    await store.set_budget(user_account(user.user_id, "org-1"), Budget(tokens=10_000_000, money=Decimal(100)))
    for _ in range(2):
        await store.remember(user.user_id, f"likes {canaries['remembered']}")
    await store.remember(user.user_id, canaries["also remembered"])
    agent, model = family(canaries, KEEP), scripted(canaries)
    runtime = Runtime([agent], Resources(store=store, models=lambda _: model))
    run = await runtime.start(chat(canaries, model, session=user, conversation_id=canaries["conversation"]), agent)
    assert (await run.result()).status == "suspended"
    return canaries, user, run.id


async def end(store: SqliteStore, canaries: Canaries, user: Session, run_id: str) -> None:
    """Answer the waits as the user, and resume to the end."""
    model = scripted(canaries)
    for script, said in (("the boss", 1), ("the child", 1), ("the grandchild", 1)):
        del model._scripts[script][:said]
    runtime = Runtime([family(canaries, KEEP)], Resources(store=store, models=lambda _: model))
    for wait in await store.waits(root_id=run_id):
        if wait.kind == "approval":
            await runtime.deny(wait.key, canaries["reason of a denial"], by="the boss")
        else:
            await runtime.resolve(wait.key, canaries["result from outside"], by=user.user_id)
    await runtime.steer(run_id, canaries["steering"], by=user.user_id)
    result = await (await runtime.resume(run_id)).result()
    assert result.status == "completed", result
    await runtime.close()


async def test_erasing_a_user_erases_no_other_user(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with await SqliteStore.open(path) as store:
        ann, ann_user, ann_run = await live(store, 1)
        bob, bob_user, bob_run = await live(store, 2)
        with pytest.raises(StorageError, match=r"run 'run_\w+' of user .* has not ended: stop it first"):
            await store.erase(user_id=ann_user.user_id)
        await end(store, ann, ann_user, ann_run)
        await end(store, bob, bob_user, bob_run)
        before = await store.usage_sums([])
        of_bob = await _all_of(store, bob_run, bob_user)
        found = Leaks(ann)
        look_in_files(path, found, "before")
        assert found.entrances >= {"user id", "conversation", "remembered", "message", "result", "steering"}

        erased = await store.erase(user_id=ann_user.user_id)
        assert (erased.runs, erased.memories) == (3, 2)
        leaks = Leaks(ann)
        look_in_files(path, leaks, "open")
        await look_by_port(store, leaks)
        leaks.check()
        assert await store.usage_sums([]) == before
        assert {sums.by for sums in await store.usage_sums(["user"])} == {("",), (bob_user.user_id,)}
        assert await _all_of(store, bob_run, bob_user) == of_bob
        assert not await store.recall(ann_user.user_id, "likes")
        assert not await store.accounts([user_account(ann_user.user_id, "org-1")])
        again = await store.erase(user_id=ann_user.user_id)
        assert (again.runs, again.memories) == (0, 0)
        with pytest.raises(ErasedError, match="was erased"):
            await Runtime((), Resources(store=store, models=lambda _: ScriptedModel())).result(ann_run)
    closed = Leaks(ann)
    look_in_files(path, closed, "closed")
    closed.check()


async def _all_of(store: SqliteStore, run_id: str, user: Session) -> list[Any]:
    """Return everything that can be read about a user."""
    runs = await store.runs(user_id=user.user_id)
    return [
        runs,
        [await store.load(run.start.run_id) for run in runs],
        [await store.messages(run.start.run_id) for run in runs],
        await store.waits(root_id=run_id, open=False),
        await store.usage(run_id),
        await store.recall(user.user_id, ""),
        await store.recall(user.user_id, "likes"),
        await store.accounts([user_account(user.user_id, "org-1")]),
    ]


async def test_erasing_a_user_after_the_policy_erased_the_content(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    canaries = Canaries("ascii")
    async with await SqliteStore.open(path) as store:
        await to_the_end(Play(canaries, POLICIES["redact"], store, lambda _: None))
        assert (await store.erase(user_id="user-1", organization_id="another")).runs == 0
        assert (await store.erase(user_id="user-1", organization_id="org-1")).runs == 3
        assert not await store.runs(user_id="user-1")
        content = b"".join(each.read_bytes() for each in files(path))
        assert b"user-1" not in content
