"""Scopes, in every store: the store reaches what `reaches` says, and nothing else can be found."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino import OPERATOR, AnyScope, Operator, Scope, TenantScope
from concertino.errors import ConfigurationError, StaleClaimError, StorageError, UnknownRunError, UnknownWaitError
from concertino.storage import Claim

from .kit import Factory, FullStore, operation, record, result_of, start_tree, wait, whole

IDS = st.sampled_from(["", "a", "b", "ab", "1:a", "a1:b", "0:", "é"])
SCOPES = st.builds(Scope, IDS, IDS)
READERS: st.SearchStrategy[AnyScope] = SCOPES | st.builds(TenantScope, IDS) | st.just(OPERATOR)
OTHER_SCOPES: list[AnyScope] = [Scope("o2", "u1"), Scope("o1", "u2"), Scope("o1"), Scope("", "u1"), TenantScope("o2")]


@given(st.sets(SCOPES, max_size=6), READERS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_store_reaches_what_a_scope_reaches(
    factory: Factory, tmp_path_factory: pytest.TempPathFactory, owners: set[Scope], reader: AnyScope
) -> None:
    async def scenario() -> None:
        async with contextlib.aclosing(_closing(await factory(tmp_path_factory.mktemp("scopes")))) as opened:
            store = await anext(opened)
            for number, owner in enumerate(sorted(owners, key=lambda owner: owner.key)):
                tree = await start_tree(store, f"r{number}", scope=owner)
                await tree.append(waits=[wait(f"w{number}", f"r{number}")], messages=[whole("x")])
                if owner.user:
                    await store.remember(owner, "likes tea")
            wanted = {owner for owner in owners if reader.reaches(owner)}
            runs = await store.runs(reader)
            assert [run.start.scope for run in runs if run.start.scope not in wanted] == []
            assert len(runs) == len(await store.waits(reader)) == len(await store.operations(reader)) == len(wanted)
            for run in await store.runs(OPERATOR):
                reached, run_id = run.start.scope in wanted, run.start.run_id
                assert (await store.run(reader, run_id) is not None) == reached
                assert (await store.load(reader, run_id) is not None) == reached
                assert bool(await store.messages(reader, run_id)) == reached
            if isinstance(reader, Scope):
                assert len(await store.recall(reader, "tea")) == (reader in owners and reader.user != "")

    asyncio.run(scenario())


async def _closing(store: FullStore) -> Any:
    try:
        yield store
    finally:
        await store.close()


@given(SCOPES, SCOPES, IDS, IDS)
def test_keys_are_injective_also_with_text_behind_them(one: Scope, two: Scope, text: str, other: str) -> None:
    assert (one.key + text == two.key + other) == (one == two and text == other)


@pytest.mark.parametrize("other", OTHER_SCOPES, ids=repr)
async def test_anything_out_of_reach_is_unknown(store: FullStore, other: AnyScope) -> None:
    tree = await start_tree(store)
    await tree.append(waits=[wait()], messages=[whole("secret")], usage=[record(source="unknown")])
    before = await store.load(OPERATOR, "r1")
    for run_id in ("r1", "never"):
        assert await store.run(other, run_id) is None
        assert await store.load(other, run_id) is None
        assert not await store.messages(other, run_id)
        assert not await store.usage(other, run_id)
        assert not await store.commands(other, run_id)
        assert not await store.runs(other, root_id=run_id)
        assert not await store.waits(other, root_id=run_id, open=False)
        assert not await store.operations(other, root_id=run_id)
        for asked in (
            store.claim(other, run_id, "me", 1.0),
            store.send(other, run_id, "stop"),
            store.postpone(other, run_id, reason="", seconds=1.0),
            store.retry(other, run_id),
            store.settle_usage(other, record(run_id=run_id)),
        ):
            with pytest.raises(UnknownRunError, match=f"unknown.* run '{run_id}'"):
                await asked
    for key in ("w1", "never"):
        assert await store.wait(other, key) is None
        with pytest.raises(UnknownWaitError, match=f"'{key}'"):
            await store.resolve(other, key, result_of("x"), run_id="r1")
    assert not await store.usage_sums(other, ["run"])
    assert await store.load(OPERATOR, "r1") == before


@pytest.mark.parametrize("other", [Scope("o2", "u1"), Scope("o1", "u2"), Scope()], ids=repr)
async def test_a_claim_of_another_scope_writes_nothing(store: FullStore, other: Scope) -> None:
    """Even if it names the owner and the epoch of the claim."""
    tree = await start_tree(store)
    before = await store.load(OPERATOR, "r1")
    tree.claim = Claim(root_id="r1", scope=other, epoch=1, owner="me", seconds=60.0)
    for asked in (
        tree.append(messages=[whole("forged")]),
        tree.append(operations=[operation("r1:1.0", scope=other)]),
        tree.child("r2", scope=other),
        store.renew(tree.claim, 60.0),
    ):
        with pytest.raises(StaleClaimError, match="unknown run 'r1'"):
            await asked
    with pytest.raises(StorageError, match="differ in scope"):
        await tree.child("r2")
    await store.release(tree.claim)
    assert await store.load(OPERATOR, "r1") == before
    assert (await store.run(OPERATOR, "r1")).owner == "me"  # type: ignore[union-attr]


async def test_erasing_a_tenant_erases_all_its_users(store: FullStore) -> None:
    for number, (tenant, user) in enumerate([("o1", "ann"), ("o1", "bob"), ("o1", ""), ("o2", "ann")]):
        tree = await start_tree(store, f"r{number}", scope=Scope(tenant, user))
        await tree.append(messages=[whole("x")])
        await tree.end()
        if user:
            await store.remember(Scope(tenant, user), "likes tea")
    erased = await store.erase(TenantScope("o1"))
    assert (erased.runs, erased.memories) == (3, 2)
    assert [bool(await store.messages(OPERATOR, f"r{number}")) for number in range(4)] == [False] * 3 + [True]
    assert len(await store.recall(Scope("o2", "ann"), "tea")) == 1
    again = await store.erase(TenantScope("o1"))
    assert (again.runs, again.memories) == (0, 0)


async def test_an_erasure_keeps_the_names_of_another_tenants_user(store: FullStore) -> None:
    """Users of two tenants may have the same id: only the erased one's answers lose their name."""
    for tenant in ("o1", "o2"):
        tree = await start_tree(store, f"r-{tenant}", scope=Scope(tenant, "boss"))
        await tree.append(waits=[wait(tenant, f"r-{tenant}", who=())])
        await store.resolve(OPERATOR, tenant, result_of("yes", verdict="approved", by="ann"))
        await store.send(TenantScope(tenant, by="ann"), f"r-{tenant}", "steer", "hurry")
    await store.erase(Scope("o1", "ann"))
    answers = {each.key: each.resolution and each.resolution.by for each in await store.waits(OPERATOR, open=False)}
    assert answers == {"o1": "", "o2": "ann"}
    assert [each.by for tenant in ("o1", "o2") for each in await store.commands(OPERATOR, f"r-{tenant}")] == ["", "ann"]


@pytest.mark.parametrize("scope", [Scope(), Scope("o1")], ids=repr)
async def test_a_scope_without_a_user_has_no_memories(store: FullStore, scope: Scope) -> None:
    with pytest.raises(StorageError, match="without a user"):
        await store.remember(scope, "tea")
    assert list(await store.recall(scope, "")) == list(await store.recall(scope, "tea")) == []


@pytest.mark.parametrize("reader", [Scope("o1", "u1"), TenantScope("o1")], ids=repr)
async def test_only_the_operator_looks_after_all_runs(store: FullStore, reader: Any) -> None:
    for asked in (store.due(reader), store.sweep(reader)):
        with pytest.raises(ConfigurationError, match="use OPERATOR"):
            await asked
    with pytest.raises(ConfigurationError, match="name a Scope or a TenantScope"):
        await store.erase(OPERATOR)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="invalid scope of type str"):
        await store.run("o1", "r1")  # type: ignore[arg-type]
    assert (await store.due(Operator(by="eve"))).ready == ()
