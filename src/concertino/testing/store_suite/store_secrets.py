"""Secrets, in every store."""

from __future__ import annotations

import asyncio

from concertino import OPERATOR, Scope, TenantScope

from .kit import SCOPE, FullStore

OTHER = Scope("o2", "u1")


async def read_secret(store: FullStore) -> tuple[str, int]:
    """Return the secret `s1` and its version."""
    found = await store.secret(SCOPE, "s1")
    assert found is not None
    return found


async def test_a_secret_is_added_replaced_and_erased(store: FullStore) -> None:
    assert await store.secret(SCOPE, "s1") is None
    assert await store.put_secret(SCOPE, "s1", "one", version=None)
    assert not await store.put_secret(SCOPE, "s1", "late", version=None)
    sealed, version = await read_secret(store)
    assert sealed == "one"
    assert await store.put_secret(SCOPE, "s1", "two", version=version)
    assert not await store.put_secret(SCOPE, "s1", "late", version=version)
    assert not await store.delete_secret(SCOPE, "s1", version=version)
    sealed, newer = await read_secret(store)
    assert sealed == "two"
    assert newer != version
    assert await store.delete_secret(SCOPE, "s1", version=newer)
    assert not await store.delete_secret(SCOPE, "s1")


async def test_a_secret_that_is_added_again_has_a_version_of_its_own(store: FullStore) -> None:
    await store.put_secret(SCOPE, "s1", "one", version=None)
    _, version = await read_secret(store)
    await store.delete_secret(SCOPE, "s1")
    await store.put_secret(SCOPE, "s1", "two", version=None)
    assert not await store.claim_secret(SCOPE, "s1", version=version, seconds=60)
    assert not await store.put_secret(SCOPE, "s1", "stale", version=version)


async def test_of_several_claims_and_replacements_one_wins(store: FullStore) -> None:
    adds = [store.put_secret(SCOPE, "s1", f"text {number}", version=None) for number in range(5)]
    assert sorted(await asyncio.gather(*adds)) == [False] * 4 + [True]
    _, version = await read_secret(store)
    claims = [store.claim_secret(SCOPE, "s1", version=version, seconds=3600) for _ in range(5)]
    assert sorted(await asyncio.gather(*claims)) == [False] * 4 + [True]
    puts = [store.put_secret(SCOPE, "s1", f"new {number}", version=version) for number in range(5)]
    assert sorted(await asyncio.gather(*puts)) == [False] * 4 + [True]


async def test_a_claim_ends_with_its_time_and_with_a_replacement(store: FullStore) -> None:
    await store.put_secret(SCOPE, "s1", "one", version=None)
    _, version = await read_secret(store)
    assert await store.claim_secret(SCOPE, "s1", version=version, seconds=-1)
    assert await store.claim_secret(SCOPE, "s1", version=version, seconds=3600)
    assert await store.put_secret(SCOPE, "s1", "two", version=version)
    _, version = await read_secret(store)
    assert await store.claim_secret(SCOPE, "s1", version=version, seconds=3600)


async def test_a_secret_is_reached_within_its_scope_only(store: FullStore) -> None:
    await store.put_secret(SCOPE, "s1", "mine", version=None)
    _, version = await read_secret(store)
    for stranger in (Scope("o1", "u2"), Scope("o1"), OTHER, Scope()):
        assert await store.secret(stranger, "s1") is None
        assert not await store.put_secret(stranger, "s1", "theirs", version=version)
        assert not await store.claim_secret(stranger, "s1", version=version, seconds=60)
        assert not await store.delete_secret(stranger, "s1")
    assert await store.secret(SCOPE, "s1") == ("mine", version)


async def test_the_secrets_of_an_erased_user_and_tenant_are_gone(store: FullStore) -> None:
    neighbour = Scope(SCOPE.tenant, "neighbour")
    for scope in (SCOPE, neighbour, OTHER):
        await store.put_secret(scope, "s1", "mine", version=None)
    await store.erase(SCOPE)
    assert await store.secret(SCOPE, "s1") is None
    assert await store.secret(neighbour, "s1") is not None
    await store.erase(TenantScope(SCOPE.tenant))
    assert await store.secret(neighbour, "s1") is None
    found = await store.secret(OPERATOR, "s1")
    assert found is not None
    assert found[0] == "mine"
