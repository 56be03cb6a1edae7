"""Approvals that a scope may answer, and the rules that approvals leave."""

from __future__ import annotations

import pytest

from concertino import OPERATOR, Scope, TenantScope
from concertino.errors import RunStateError
from concertino.scope import AnyScope
from concertino.storage import ApprovalRule
from concertino.waits import Remember

from .kit import SCOPE, FullStore, result_of, start_tree, wait

BOB, RIVAL = Scope("o1", "bob"), Scope("o2", "bob")


async def asking(store: FullStore, key: str, scope: Scope = SCOPE, who: tuple[str, ...] = (), **more: str) -> None:
    """Start a run that waits for an approval."""
    tree = await start_tree(store, f"r-{key}", scope=scope, **more)
    await tree.append(waits=[wait(key, f"r-{key}", who=who)])


async def listed(store: FullStore, scope: AnyScope) -> list[str]:
    return [each.key for each in await store.approvals(scope)]


async def test_a_scope_finds_what_it_may_answer(store: FullStore) -> None:
    await asking(store, "anyone")
    await asking(store, "named", who=("bob", "dora"))
    await asking(store, "own", BOB)
    await asking(store, "foreign", RIVAL)
    await asking(store, "foreign-named", RIVAL, who=("bob",))
    assert await listed(store, SCOPE) == ["anyone"]
    assert await listed(store, BOB) == ["named", "own"]
    assert await listed(store, RIVAL) == ["foreign", "foreign-named"]
    assert await listed(store, TenantScope("o1")) == ["anyone", "own"]
    assert await listed(store, TenantScope("o1", by="dora")) == ["anyone", "named", "own"]
    assert await listed(store, Scope("o1")) == await listed(store, Scope("", "bob")) == []
    assert len(await listed(store, OPERATOR)) == 3


async def test_what_is_listed_is_open(store: FullStore) -> None:
    await asking(store, "w1")
    await asking(store, "w2")
    tree = await start_tree(store, "r3")
    await tree.append(waits=[wait("w3", "r3", kind="result")])
    await store.resolve(SCOPE, "w1", result_of(verdict="denied"))
    assert await listed(store, SCOPE) == ["w2"]


@pytest.mark.parametrize("listing", ["approvals", "waits"])
async def test_pages_follow_one_another_while_answers_arrive(store: FullStore, listing: str) -> None:
    keys = [f"w{number}" for number in range(5)]
    for key in keys:
        await asking(store, key)
    page = getattr(store, listing)
    first = await page(SCOPE, limit=2)
    for each in first:
        await store.resolve(SCOPE, each.key, result_of(verdict="denied"))
    second = await page(SCOPE, limit=2, after=first[-1])
    third = await page(SCOPE, limit=2, after=second[-1])
    assert [each.key for each in (*first, *second, *third)] == keys
    assert await page(SCOPE, limit=2, after=third[-1]) == ()


# -- rules -------------------------------------------------------------------------------------------------------------


async def approve(
    store: FullStore, key: str, remember: Remember, scope: Scope = SCOPE, conversation: str = "c1"
) -> None:
    await asking(store, key, scope, conversation_id=conversation)
    await store.resolve(scope, key, result_of(verdict="approved", remember=remember))


async def allowed(store: FullStore, conversation: str = "c1", scope: Scope = SCOPE, agent: str = "supervisor") -> bool:
    return await store.is_allowed(scope, agent, "pay", conversation)


async def test_an_approval_once_leaves_no_rule(store: FullStore) -> None:
    await approve(store, "w1", "once")
    assert not await allowed(store)
    assert await store.approval_rules(SCOPE) == ()


async def test_a_rule_of_a_conversation(store: FullStore) -> None:
    await approve(store, "w1", "conversation")
    assert [await allowed(store, name) for name in ("c1", "c2", "")] == [True, False, False]
    assert await store.approval_rules(SCOPE) == (ApprovalRule(agent="supervisor", tool="pay", always=False),)


async def test_a_rule_for_good(store: FullStore) -> None:
    for key in ("w1", "w2"):
        await approve(store, key, "always")
    assert [await allowed(store, name) for name in ("c1", "c2", "")] == [True, True, True]
    assert not await allowed(store, agent="other")
    assert not await store.is_allowed(SCOPE, "supervisor", "refund", "c1")
    assert await store.approval_rules(SCOPE) == (ApprovalRule(agent="supervisor", tool="pay", always=True),)


async def test_a_rule_belongs_to_its_scope(store: FullStore) -> None:
    await approve(store, "w1", "always")
    for other in (BOB, Scope("o2", "u1"), Scope("o1"), Scope("", "u1")):
        assert not await allowed(store, scope=other)
        assert await store.approval_rules(other) == ()
        assert await store.revoke(other, "pay") == 0
    assert await allowed(store)


async def test_the_answer_that_counts_makes_the_rule(store: FullStore) -> None:
    await asking(store, "w1")
    await store.resolve(SCOPE, "w1", result_of(verdict="denied"))
    await store.resolve(SCOPE, "w1", result_of(verdict="approved", remember="always"))
    assert not await allowed(store)
    await asking(store, "w2")
    await store.resolve(SCOPE, "w2", result_of(verdict="denied", remember="always"))
    assert not await allowed(store), "only an approval is remembered"


async def test_a_rule_needs_a_user_and_a_conversation(store: FullStore) -> None:
    with pytest.raises(RunStateError, match="approve it once"):
        await approve(store, "w1", "always", Scope("o1"))
    with pytest.raises(RunStateError, match="approve it once"):
        await approve(store, "w2", "conversation", conversation="")
    assert len(await store.approvals(OPERATOR)) == 2, "the calls still wait"


async def test_rules_are_revoked_and_erased(store: FullStore) -> None:
    await approve(store, "w1", "always")
    await approve(store, "w2", "conversation")
    assert await store.revoke(SCOPE, "refund") == 0
    assert await store.revoke(SCOPE, "pay") == 2
    assert not await allowed(store)
    await approve(store, "w3", "always")
    await store.erase(SCOPE, force=True)
    assert await store.approval_rules(SCOPE) == ()
