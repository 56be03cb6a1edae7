"""Erasing a user removes their content and name, and keeps the ledger and other users."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, Budget, DataPolicy, Operator, Resources, Scope, SqliteStore, TenantScope
from concertino.errors import ErasedError, StorageError
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel

from .drive import Play, to_the_end
from .kit import POLICIES, Canaries, Leaks, files, look_by_port
from .scene import chat, family, scripted

KEEP = DataPolicy(keep_whole_results=True)


def look_in_files(path: Path, leaks: Leaks, when: str) -> None:
    for each in files(path):
        leaks.look(f"{each.name} ({when})", each.read_bytes(), path)


async def live(store: SqliteStore, seed: int) -> tuple[Canaries, Scope, str]:
    """A user with a run of three agents, memories and a budget; all of it is kept."""
    canaries = Canaries("unicode", seed)
    user = Scope("org-1", canaries["user id"])
    await store.set_budget(user, Budget(tokens=10_000_000, money=Decimal(100)))
    for _ in range(2):
        await store.remember(user, f"likes {canaries['remembered']}")
    await store.remember(user, canaries["also remembered"])
    agent, model = family(canaries, KEEP), scripted(canaries)
    runtime = Runtime([agent], Resources(store=store, models=lambda _: model))
    run = await runtime.start(chat(canaries, model, scope=user, conversation_id=canaries["conversation"]), agent)
    assert (await run.result()).status == "suspended"
    return canaries, user, run.id


async def end(store: SqliteStore, canaries: Canaries, user: Scope, run_id: str) -> None:
    """Answer the waits as the user, and resume to the end."""
    model = scripted(canaries)
    for script, said in (("the boss", 1), ("the child", 1), ("the grandchild", 1)):
        del model._scripts[script][:said]
    runtime = Runtime([family(canaries, KEEP)], Resources(store=store, models=lambda _: model))
    for wait in await store.waits(OPERATOR, root_id=run_id):
        if wait.kind == "approval":
            await runtime.deny(Operator("the boss"), wait.key, canaries["reason of a denial"])
        else:
            await runtime.resolve(user, wait.key, canaries["result from outside"])
    await runtime.steer(user, run_id, canaries["steering"])
    result = await (await runtime.resume(OPERATOR, run_id)).result()
    assert result.status == "completed", result
    await runtime.close()


async def test_erasing_a_user_erases_no_other_user(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with await SqliteStore.open(path) as store:
        ann, ann_user, ann_run = await live(store, 1)
        bob, bob_user, bob_run = await live(store, 2)
        with pytest.raises(StorageError, match=r"run 'run_\w+' has not ended: stop it first"):
            await store.erase(ann_user)
        await end(store, ann, ann_user, ann_run)
        await end(store, bob, bob_user, bob_run)
        before = await store.usage_sums(OPERATOR, [])
        of_bob = await _all_of(store, bob_run, bob_user)
        found = Leaks(ann)
        look_in_files(path, found, "before")
        assert found.entrances >= {"user id", "conversation", "remembered", "message", "result", "steering"}

        erased = await store.erase(ann_user)
        assert (erased.runs, erased.memories) == (3, 2)
        leaks = Leaks(ann)
        look_in_files(path, leaks, "open")
        await look_by_port(store, leaks)
        leaks.check()
        assert await store.usage_sums(OPERATOR, []) == before
        assert {sums.by for sums in await store.usage_sums(TenantScope("org-1"), ["user"])} == {("",), (bob_user.user,)}
        assert await _all_of(store, bob_run, bob_user) == of_bob
        assert not await store.recall(ann_user, "likes")
        assert not await store.accounts(ann_user)
        again = await store.erase(ann_user)
        assert (again.runs, again.memories) == (0, 0)
        with pytest.raises(ErasedError, match="was erased"):
            await Runtime((), Resources(store=store, models=lambda _: ScriptedModel())).result(OPERATOR, ann_run)
    closed = Leaks(ann)
    look_in_files(path, closed, "closed")
    closed.check()


async def _all_of(store: SqliteStore, run_id: str, user: Scope) -> list[Any]:
    """Return everything that can be read about a user."""
    runs = await store.runs(user)
    return [
        runs,
        [await store.load(OPERATOR, run.start.run_id) for run in runs],
        [await store.messages(OPERATOR, run.start.run_id) for run in runs],
        await store.waits(OPERATOR, root_id=run_id, open=False),
        await store.usage(OPERATOR, run_id),
        await store.recall(user, ""),
        await store.recall(user, "likes"),
        await store.accounts(user),
    ]


async def test_erasing_a_user_after_the_policy_erased_the_content(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    canaries = Canaries("ascii")
    async with await SqliteStore.open(path) as store:
        await to_the_end(Play(canaries, POLICIES["redact"], store, lambda _: None))
        assert (await store.erase(Scope("another", "user-1"))).runs == 0
        assert (await store.erase(Scope("org-1", "user-1"))).runs == 3
        assert not await store.runs(Scope("org-1", "user-1"))
        content = b"".join(each.read_bytes() for each in files(path))
        assert b"user-1" not in content
