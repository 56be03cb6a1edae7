"""Operations, in every store: one row each, changed by one transition function, and invisible to other scopes."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from concertino import OPERATOR, Budget, Scope, TenantScope
from concertino.errors import StaleClaimError, StorageError, UnknownRunError, UnknownWaitError
from concertino.operations import ENDED, Operation, OperationEvent, OperationState, transition
from concertino.storage import Reservation, Settlement
from concertino.usage import Tokens
from concertino.waits import Resolution, Verdict, WaitKind

from .kit import SCOPE, Factory, FullStore, Tree, end, operation, record, result_of, start_tree, traces, wait

OTHER = Scope("o2", "u1")


async def states(store: FullStore, **asked: Any) -> dict[str, OperationState]:
    return {each.key: each.state for each in await store.operations(SCOPE, **asked)}


async def test_operations_come_back_as_they_were(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    attempt = operation(
        "r1:1:1", kind="model_call", name="p:m", tokens=70, money=Decimal("0.10"), prompt=50, call_id="", step=1
    )
    tool = operation("r1:1.2", index=2, effect="once", remote=True, state="done", outcome={"content": "é\x00"})
    waiting = operation("r1:1.1", index=1, state="waiting", waits_for="sub_agent")
    child = operation("r2", kind="sub_agent", name="helper", step=0)
    await tree.append("model_answered", operations=[tool, waiting, attempt])
    await tree.append("calls_changed", "r2", operations=[operation("r2:1.0", "r2")])
    await tree.append("calls_changed", "r2", operations=[child])  # its parent's, written by the child
    assert list(await store.operations(SCOPE, run_id="r1")) == [child, attempt, waiting, tool]
    assert set(await states(store, root_id="r1")) == {"r2", "r1:1:1", "r1:1.1", "r1:1.2", "r2:1.0"}
    assert await states(store, run_id="r2") == {"r2:1.0": "running"}
    assert await states(store) == await states(store, root_id="r1")
    await tree.append(closed=["r1:1.2", "r1:1:1", "never"])
    assert set(await states(store, run_id="r1")) == {"r2", "r1:1.1"}


async def test_another_scope_sees_and_changes_nothing(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(operations=[operation()], usage=[record(source="unknown")])
    await store.release(tree.claim)
    for scope in (OTHER, Scope("o1", "u2"), Scope("o1"), Scope()):
        for asked in ({}, {"root_id": "r1"}, {"run_id": "r1"}):
            assert list(await store.operations(scope, **asked)) == []
        with pytest.raises(UnknownRunError):
            await store.postpone(scope, "r1", reason="x", seconds=None)
        with pytest.raises(UnknownRunError):
            await store.retry(scope, "r1")
        with pytest.raises(UnknownRunError):
            await store.settle_usage(scope, record())
    assert len(await store.operations(SCOPE)) == 1
    assert (await store.run(OPERATOR, "r1")).state == "running"
    assert list(await store.usage(OPERATOR, "r1")) == [record(source="unknown")]


async def test_two_scopes_may_use_the_same_key(store: FullStore) -> None:
    one, two = await start_tree(store), await start_tree(store, "r2", scope=Scope("o2", "u1"))
    await one.append(operations=[operation("k", name="mine")])
    await two.append(operations=[operation("k", "r2", scope=OTHER, name="theirs")])
    await one.append(closed=["k"])
    assert [each.name for each in await store.operations(OTHER)] == ["theirs"]
    assert list(await store.operations(SCOPE)) == []


@pytest.mark.parametrize(
    "bad",
    [
        operation(scope=OTHER),
        operation(run_id="r9"),
        operation(run_id="never"),
        operation("claim_tree", run_id="r1"),
    ],
    ids=["scope", "tree", "run", "key"],
)
async def test_an_operation_must_fit_its_run(store: FullStore, bad: Operation) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await start_tree(store, "r9")
    await tree.append(run_id="r2", operations=[operation("claim_tree", "r2")])
    with pytest.raises(StorageError, match="does not fit run"):
        await tree.append(operations=[bad])
    assert set(await states(store)) == {"claim_tree"}


async def test_the_first_outcome_counts_until_it_is_settled(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(operations=[operation("a", state="unknown", outcome={"n": 1}), operation("b", state="failed")])
    await tree.append(operations=[operation("a"), operation("b", state="done", outcome={"n": 2})])
    assert await states(store) == {"a": "unknown", "b": "failed"}
    await tree.append(operations=[operation("a", state="unknown", outcome={"n": 1})])
    assert [each.outcome for each in await store.operations(SCOPE) if each.key == "a"] == [{"n": 1}]
    await tree.append(operations=[operation("a", state="done", outcome={"n": 3})])
    found = {each.key: (each.state, each.outcome) for each in await store.operations(SCOPE)}
    assert found["a"] == ("done", {"n": 3})


async def test_outcomes_leave_the_file_with_their_operations(store: FullStore, tmp_path: Path) -> None:
    tree = await start_tree(store)
    for number in range(30):
        outcome = {"text": f"canary {number} " * 50}
        await tree.append(operations=[operation(f"k{number}", state="unknown", outcome=outcome)])
    await tree.append(operations=[operation("k1", state="done", outcome={"text": "canary"})])
    await tree.append(closed=[f"k{number}" for number in range(20)])
    await tree.end(erase_after=0)
    assert traces(tmp_path, "canary") == []


async def test_the_end_of_a_run_closes_its_operations(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await tree.append(operations=[operation("a"), operation("r2", kind="sub_agent")])
    await tree.append(run_id="r2", operations=[operation("b", "r2")])
    await tree.append("ended", "r2", closed=["r2"], end=end())
    assert await states(store) == {"a": "running"}
    await tree.child("r3")
    await tree.append(run_id="r3", operations=[operation("c", "r3")])
    await tree.end()
    assert await states(store) == {}


async def test_a_wait_needs_an_operation(store: FullStore) -> None:
    tree = await start_tree(store)
    with pytest.raises(StorageError, match="'w1' has no operation"):
        await tree.append(waits=[wait()], operations=[operation("other")])
    assert await store.wait(OPERATOR, "w1") is None


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        ("approved", "planned"),
        ("denied", "failed"),
        ("result", "done"),
        ("failed", "failed"),
        ("expired", "failed"),
        ("cancelled", "cancelled"),
    ],
)
async def test_an_answer_changes_the_state(store: FullStore, verdict: Verdict, state: OperationState) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait()])
    await store.resolve(OPERATOR, "w1", Resolution(verdict=verdict))
    assert await states(store) == {"w1": state}


@pytest.mark.parametrize("seen", ["planned", "running", "waiting"])
async def test_only_a_remote_call_that_runs_is_answered_early(store: FullStore, seen: OperationState) -> None:
    tree = await start_tree(store)
    for remote in (False, True):
        key = f"{seen}-{remote}"
        row = operation(key, state=seen, remote=remote, waits_for="sub_agent" if seen == "waiting" else None)
        await tree.append(operations=[row])
        if remote and seen == "running":
            await store.resolve(OPERATOR, key, result_of("42"), run_id="r1")
            assert (await states(store))[key] == "done"
        else:
            with pytest.raises(UnknownWaitError, match=key):
                await store.resolve(OPERATOR, key, result_of("42"), run_id="r1")
            assert (await states(store))[key] == seen


async def test_a_call_that_will_ask_cannot_be_approved_early(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(operations=[operation(remote=True)])
    with pytest.raises(UnknownWaitError):
        await store.resolve(OPERATOR, "w1", Resolution(verdict="approved"), run_id="r1")
    with pytest.raises(UnknownWaitError):
        await store.resolve(OPERATOR, "w1", result_of("42"), run_id="r9")


async def test_an_answer_is_not_lost_to_a_stale_write(store: FullStore) -> None:
    """The engine suspends with what it knew: a person has answered in the meantime."""
    tree = await start_tree(store)
    await tree.append(waits=[wait()])
    await store.resolve(OPERATOR, "w1", Resolution(verdict="approved"))
    await tree.append("suspended", operations=[operation(state="waiting", waits_for="approval")])
    assert await states(store) == {"w1": "planned"}
    await store.release(tree.claim)
    assert list((await store.due(OPERATOR)).ready) == ["r1"]


async def test_a_call_may_wait_twice_for_an_approval_and_its_result(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(waits=[wait()])
    await store.resolve(OPERATOR, "w1", Resolution(verdict="approved", by="ann"))
    await tree.append(operations=[operation(remote=True)])
    await tree.append("suspended", waits=[wait(kind="result", who=())])
    found = await store.wait(OPERATOR, "w1")
    assert (found.kind, found.resolution) == ("result", None)
    assert [each.kind for each in await store.waits(OPERATOR)] == ["result"]
    answered = await store.resolve(OPERATOR, "w1", result_of("42"))
    assert answered.resolution.content == "42"
    assert [(each.kind, each.resolution.verdict) for each in await store.waits(OPERATOR, open=False)] == [
        ("approval", "approved"),
        ("result", "result"),
    ]


async def test_a_wait_that_is_closed_without_an_answer_is_cancelled(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(waits=[wait("a"), wait("b"), wait("c")])
    await tree.append(closed=["a"], operations=[operation("b", state="cancelled")])
    found = {each.key: each.resolution and each.resolution.verdict for each in await store.waits(OPERATOR, open=False)}
    assert found == {"a": "cancelled", "b": "cancelled", "c": None}
    assert [each.key for each in await store.waits(OPERATOR)] == ["c"]


async def test_settling_usage_corrects_record_and_accounts(store: FullStore) -> None:
    tree = await start_tree(store)
    for owner in (SCOPE, TenantScope(SCOPE.tenant)):
        await store.set_budget(owner, Budget(tokens=1000, money=Decimal(10)))
    unknown = record(source="unknown", tokens=Tokens(100), cost=None)
    reserve = Reservation(id=unknown.id, tokens=500, money=Decimal(5))
    await tree.append(reserve=reserve)
    settlement = Settlement(id=unknown.id, tokens=500, money=Decimal(5))
    await tree.append("usage_booked", usage=[unknown], settle=[settlement])
    bill = record(source="measured", tokens=Tokens(80, 20), cost=Decimal("0.5"), how="", model="small-2026")
    await store.settle_usage(SCOPE, bill)
    assert list(await store.usage(OPERATOR, "r1")) == [bill]
    for account in await store.accounts(SCOPE):
        found = (account.reserved_tokens, account.reserved_money, account.spent_tokens, account.spent_money)
        assert found == (0, Decimal(0), 100, Decimal("0.5"))
    with pytest.raises(StorageError, match="is measured"):
        await store.settle_usage(SCOPE, bill)
    with pytest.raises(StorageError, match="no usage record"):
        await store.settle_usage(SCOPE, record(2))
    with pytest.raises(UnknownRunError):
        await store.settle_usage(SCOPE, record(run_id="never"))


async def test_settling_releases_an_open_reservation(store: FullStore) -> None:
    tree = await start_tree(store)
    await store.set_budget(SCOPE, Budget(tokens=1000))
    await tree.append(reserve=Reservation(id="r1/1", tokens=500, money=None))
    await tree.append("usage_booked", usage=[record(source="estimated")])
    await store.settle_usage(SCOPE, record(tokens=Tokens(0), cost=None))
    (account,) = await store.accounts(SCOPE)
    assert (account.reserved_tokens, account.spent_tokens) == (0, 0)


async def test_forced_erasure_ends_running_trees(store: FullStore, tmp_path: Path) -> None:
    tree = await start_tree(store, task="canary")
    await tree.child("r2")
    await store.set_budget(SCOPE, Budget(tokens=1000), run_id="r1")
    attempt = operation("r2:1:1", "r2", kind="model_call", name="p:m", tokens=300, prompt=200)
    reserve = Reservation(id="r2:1:1", tokens=300, money=None)
    await tree.append(run_id="r2", operations=[attempt], reserve=reserve)
    await tree.append("suspended", waits=[wait(arguments="canary")])
    await start_tree(store, "r9", scope=Scope("o1", "u2"))
    with pytest.raises(StorageError, match="has not ended"):
        await store.erase(Scope("o1", "u1"))
    assert (await store.erase(Scope("o1", "u1"), force=True)).runs == 2
    for run_id in ("r1", "r2"):
        assert (await store.run(OPERATOR, run_id)).state == "cancelled"
    (booked,) = await store.usage(OPERATOR, "r1")
    assert (booked.id, booked.source, booked.provider, booked.model, booked.tokens.prompt) == (
        "r2:1:1",
        "unknown",
        "p",
        "m",
        200,
    )
    (account,) = await store.accounts(SCOPE, run_id="r1")
    assert (account.reserved_tokens, account.spent_tokens) == (0, 300)
    with pytest.raises(StaleClaimError):
        await tree.append()
    assert list(await store.operations(SCOPE)) == []
    assert (await store.run(OPERATOR, "r9")).state == "running"
    assert traces(tmp_path, "canary") == []


EVENTS: list[OperationEvent] = ["start", "wait", "complete", "fail", "recover", "lose", "cancel", "settle"]
ANSWERS: dict[Verdict, OperationEvent] = {
    "approved": "approve",
    "denied": "deny",
    "result": "resolve",
    "failed": "fail",
    "expired": "expire",
    "cancelled": "cancel",
}
KINDS: dict[str, WaitKind] = {"a": "approval", "b": "approval", "c": "result"}
KEYS = st.sampled_from(sorted(KINDS))


@dataclass
class Row:
    """The expected state of one operation."""

    state: OperationState
    answered: bool = False
    overdue: bool = False


class Walk(RuleBasedStateMachine):
    """The engine, people and time change operations in any order; the transition function predicts every state."""

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.do(factory(Path(self.folder.name)))
        self.tree: Tree = self.do(start_tree(self.store))
        self.rows: dict[str, Row] = {}
        self.known: dict[str, OperationState] = {}
        """States as the engine knows them, which may be stale."""
        self.answers: dict[tuple[str, WaitKind], Verdict] = {}
        self.opened: set[str] = set()

    def do(self, asked: Any) -> Any:
        return self.loop.run_until_complete(asked)

    @rule(key=KEYS, event=st.sampled_from(EVENTS), overdue=st.booleans())
    def engine_writes(self, key: str, event: OperationEvent, overdue: bool) -> None:
        self.known[key] = new = transition(self.known.get(key, "planned"), event)
        written, waits = operation(key, state=new, remote=True), []
        if new == "waiting":
            written = replace(written, waits_for=KINDS[key])
            waits = [wait(key, kind=KINDS[key], expires=0.0 if overdue else None)]
        self.do(self.tree.append("calls_changed", operations=[written], waits=waits))
        self.expect_write(key, new)
        if waits:
            self.expect_wait(key, overdue)

    def expect_write(self, key: str, new: OperationState) -> None:
        row = self.rows.setdefault(key, Row(new))
        if row.state in ENDED:
            row.state = transition(row.state, "settle") if new == "done" else row.state
        elif not (row.answered and new == "waiting"):
            if row.state == "waiting" != new:
                self.answers.setdefault((key, KINDS[key]), "cancelled")
            row.state = new
        row.answered = row.answered and new == "waiting"

    def expect_wait(self, key: str, overdue: bool) -> None:
        row, verdict = self.rows[key], self.answers.get((key, KINDS[key]))
        if row.state != "waiting":
            self.answers.setdefault((key, KINDS[key]), "cancelled")
        elif verdict is not None:
            row.state, row.answered = transition("waiting", ANSWERS[verdict]), True
        elif key not in self.opened:
            row.overdue = overdue
        self.opened.add(key)

    @rule(key=KEYS)
    def engine_reads(self, key: str) -> None:
        if key in self.rows:
            self.known[key] = self.rows[key].state

    @rule(key=KEYS)
    def engine_closes(self, key: str) -> None:
        self.do(self.tree.append("calls_changed", closed=[key]))
        self.known.pop(key, None)
        if key in self.opened:
            self.answers.setdefault((key, KINDS[key]), "cancelled")
        self.rows.pop(key, None)

    @rule(key=KEYS, verdict=st.sampled_from(["approved", "denied", "result", "failed"]), early=st.booleans())
    def person_answers(self, key: str, verdict: Verdict, early: bool) -> None:
        before = copy.deepcopy((self.rows, self.answers))
        self.expect_expiry()
        row = self.rows.get(key)
        if row is not None and row.state == "waiting":
            self.expect_answer(key, KINDS[key], verdict)
        elif row is not None and row.state == "running" and early and verdict in ("result", "failed"):
            self.expect_answer(key, "result", verdict)
        try:
            found = self.do(
                self.store.resolve(OPERATOR, key, Resolution(verdict=verdict), run_id="r1" if early else None)
            )
        except UnknownWaitError:
            assert not any(answered == key for answered, _ in self.answers)
            self.rows, self.answers = before  # a refused answer changes nothing at all
        else:
            assert found.resolution.verdict == self.answers[key, found.kind]

    @rule()
    def time_passes(self) -> None:
        self.expect_expiry()
        self.do(self.store.due(OPERATOR))

    def expect_expiry(self) -> None:
        for key, row in self.rows.items():
            if row.state == "waiting" and row.overdue:
                self.expect_answer(key, KINDS[key], "expired")

    def expect_answer(self, key: str, kind: WaitKind, verdict: Verdict) -> None:
        row = self.rows[key]
        self.answers.setdefault((key, kind), verdict)
        row.state, row.answered = transition(row.state, ANSWERS[verdict]), True

    @rule()
    def run_suspends(self) -> None:
        self.do(self.tree.append("suspended"))
        self.do(self.store.release(self.tree.claim))
        self.expect_expiry()
        waiting = any(row.state == "waiting" for row in self.rows.values())
        answered = any(row.answered for row in self.rows.values())
        assert list(self.do(self.store.due(OPERATOR)).ready) == (["r1"] if answered and not waiting else [])
        self.tree.claim = self.do(self.store.claim(OPERATOR, "r1", "me", 60.0))
        self.do(self.tree.append("resumed"))

    @invariant()
    def states_are_as_expected(self) -> None:
        found = self.do(self.store.operations(SCOPE))
        assert {each.key: each.state for each in found} == {key: row.state for key, row in self.rows.items()}

    @invariant()
    def every_wait_is_open_or_answered(self) -> None:
        waiting = {key for key, row in self.rows.items() if row.state == "waiting"}
        assert {each.key for each in self.do(self.store.waits(OPERATOR))} == waiting
        for each in self.do(self.store.waits(OPERATOR, open=False)):
            verdict = None if each.resolution is None else each.resolution.verdict
            assert verdict == (None if each.key in waiting else self.answers[each.key, each.kind])

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()
        self.folder.cleanup()


def test_every_operation_follows_the_transition_function(factory: Factory) -> None:
    walk = settings(max_examples=30, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(lambda: Walk(factory), settings=walk)  # type: ignore[arg-type]  # it may be a function
