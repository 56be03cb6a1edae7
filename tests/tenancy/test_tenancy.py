"""Two tenants, guessed ids: each public callable treats another tenant's id exactly like one that does not exist."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    AnyScope,
    Ask,
    Budget,
    Chat,
    MemoryStore,
    Operator,
    Resources,
    RunContext,
    Runtime,
    Scope,
    TenantScope,
    ToolCall,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ConfigurationError, RunExistsError, UnknownRunError
from concertino.runtime import Conversation, Schedules
from concertino.storage import Schedule
from concertino.testing import Answer, ScriptedModel, call

from .callables import (
    ARGUMENTS,
    CARRIERS,
    FACADES,
    HELD,
    SCOPES,
    SPECIAL,
    WITHOUT_SCOPE,
    Guess,
    PublicCallable,
    exported_classes,
    public_callables,
)

SECRET = "merger-of-acme"
"""A word of everything that people wrote for the victim."""
UNKNOWN = "no-such-id"
TIME = re.compile(r"\b\d{10}\.\d+")
IDS = st.sampled_from(["", "ann", "bob", "1:a", "a1:b", "é"])
OWNERS = st.builds(Scope, st.sampled_from(["acme", "1:a", ""]), st.sampled_from(["ann", "1:b"]))
READERS: st.SearchStrategy[AnyScope] = st.builds(Scope, IDS | st.just("acme"), IDS) | st.builds(TenantScope, IDS)
CALLABLES = public_callables()
TRIED = [each for each in CALLABLES if str(each) not in WITHOUT_SCOPE]


@tool(effect="once")
async def pay() -> str:
    """Pay."""
    return "paid"


class Helper(AgentConfig[None]):
    name = "helper"
    prompt = "You are the helper."


class Clerk(AgentConfig[None]):
    name = "clerk"
    prompt = "You are the clerk."
    tools = (pay, delegate(Helper(), description="Help."))

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        """Ask."""
        return Ask()


@dataclass(frozen=True)
class World:
    """What the victim has stored: the whole database, and the ids in it."""

    content: bytes
    ids: dict[str, str]


async def _content(store: MemoryStore) -> Any:
    return await store._connection.run(lambda connection: connection)


@cache
def world(victim: Scope) -> World:
    """Return a world with runs that wait and have ended, a conversation, memories, rules and budgets."""
    return asyncio.run(_build(victim))


async def _build(victim: Scope) -> World:
    async with MemoryStore() as store:
        model = ScriptedModel(
            [call("pay")], "done", f"{SECRET} one", f"{SECRET} two", f"{SECRET} three", [call("pay")], SECRET
        )
        runtime = Runtime([Clerk(), Helper()], Resources(model=model), store=store, sweep=60)
        ended = await runtime.start(Chat(SECRET, scope=victim), "clerk")
        await ended.result()
        (wait,) = await store.waits(victim)
        await runtime.approve(victim, wait.key, remember="always")
        assert (await (await runtime.resume(victim, ended.id)).result()).status == "completed"
        conversation = await runtime.conversation(victim, agent="helper")
        turns = []
        for text in ("one", "two"):
            turn = await conversation.send(f"{SECRET} {text}", key=f"{SECRET}-{text}")
            await turn.result()
            turns.append(turn.id)
        await conversation.rate(turns[0], "up", SECRET)
        await conversation.set_title(SECRET)
        model = ScriptedModel([call("pay")])
        waiting = await runtime.start(Chat(SECRET, model=model, scope=victim, budget=Budget(tokens=10**6)), "clerk")
        await waiting.result()
        (open_wait,) = await store.waits(victim)
        await runtime.steer(victim, waiting.id, SECRET)
        await store.remember(victim, f"{SECRET} in May")
        await store.set_budget(victim, Budget(tokens=10**6))
        message = {"message": SECRET}
        schedule = Schedule(id="schedule-0001", tenant=victim.tenant, user=victim.user, agent="helper", input=message)
        await store.add_schedule(victim, schedule)
        await store.put_secret(victim, "secret-0001", SECRET, version=None)
        (await _content(store)).execute("UPDATE secrets SET version = 1")  # it was a time, which nobody guesses
        await runtime.close()
        await store.sweep(OPERATOR)
        ids = {
            "ended run": ended.id, "waiting run": waiting.id, "wait": open_wait.key, "answered wait": wait.key,
            "conversation": conversation.id, "turn": turns[0], "leaf": turns[1], "key": f"{SECRET}-one",
            "schedule": "schedule-0001", "secret": "secret-0001",
        }  # fmt: skip
        return World((await _content(store)).serialize(), ids)


@asynccontextmanager
async def copy_of(content: bytes) -> AsyncIterator[MemoryStore]:
    """Open a store with this content."""
    async with MemoryStore() as store:
        (await _content(store)).deserialize(content)
        yield store


async def rows(store: MemoryStore) -> Counter[Any]:
    """Return all rows of all tables."""
    connection = await _content(store)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    tables = [
        name for name in tables if not name.endswith(("_data", "_idx", "_docsize", "_config"))
    ]  # parts of an index
    return Counter((table, *row) for table in tables for row in connection.execute(f"SELECT * FROM '{table}'"))


def arguments(called: PublicCallable, guess: Guess) -> dict[str, Any]:
    """Return the arguments of a call: its scope, and a guess in the place of every id."""
    found: dict[str, Any] = {}
    for name, parameter in called.parameters.items():
        make = SPECIAL.get(f"{called}.{name}", ARGUMENTS.get(name))
        if str(parameter.annotation) in SCOPES and name == "scope":
            found[name] = guess.scope
        elif f"{called}.{name}" in SPECIAL and make is None:
            continue
        elif make is not None:
            found[name] = make(guess)
        elif parameter.default is parameter.empty:
            raise AssertionError(f"{called} takes {name!r}: add it to tests/tenancy/callables.py:ARGUMENTS")
    return found


async def outcome(called: PublicCallable, store: MemoryStore, guess: Guess) -> tuple[str, Any]:
    """Return the kind and the text of what a call returns or raises, without the guessed id."""
    runtime = Runtime([Clerk(), Helper()], Resources(model=ScriptedModel("mine")), store=store, sweep=0.001)
    owner: Any = {Runtime: runtime, Schedules: runtime.schedules}.get(called.facade, store)
    try:
        if called.facade is Conversation:
            owner = await runtime.conversation(guess.owner(), "mine", agent="helper")
        found = getattr(owner, called.name)(**arguments(called, guess))
        found = await found if inspect.isawaitable(found) else found
        if inspect.isasyncgen(found):
            found = [item async for item in found]
        elif isinstance(found, Iterator):
            found = list(found)
        text = "" if made_by(called, found) else repr(found)
        return "returned", TIME.sub("TIME", text.replace(guess.id, "ID"))
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
        return type(error).__name__, str(error).replace(guess.id, "ID")
    finally:
        await runtime.close()


def made_by(called: PublicCallable, found: Any) -> bool:
    """Return whether the result is new and the caller's own, with ids and times that no two calls share."""
    new = ("LiveRun", "ConversationTurn", "Conversation", "StoredConversation", "Memory", "Schedule")
    return type(found).__name__ in new


# -- what is tried -----------------------------------------------------------------------------------------------------


def test_every_class_with_stored_data_is_a_facade_or_held() -> None:
    assert {each.__name__ for each in exported_classes()} - {each.__name__ for each in (*FACADES, *HELD)} == set()


@pytest.mark.parametrize("called", [each for each in CALLABLES if each.facade is not Conversation], ids=str)
def test_every_callable_takes_a_scope_first(called: PublicCallable) -> None:
    if str(called) in WITHOUT_SCOPE:
        return
    assert called.first in SCOPES | CARRIERS.keys(), f"{called} takes no scope: {called.first!r} comes first"


@pytest.mark.parametrize("name", CARRIERS)
def test_a_value_that_carries_a_scope_has_one(name: str) -> None:
    carrier, field = CARRIERS[name]
    kinds = {each.name: each.type for each in carrier.__dataclass_fields__.values()}
    assert kinds[field] in ("Scope", "Claim")


def test_the_exceptions_are_callables() -> None:
    names = {str(each) for each in CALLABLES}
    assert WITHOUT_SCOPE.keys() <= names
    assert {key.rpartition(".")[0] for key in SPECIAL} <= names


def test_callables_without_a_scope_return_nothing_that_is_stored() -> None:
    known = world(Scope("acme", "ann"))

    async def scenario() -> None:
        async with copy_of(known.content) as store:
            runtime: Any = Runtime([Helper()], Resources(model=ScriptedModel()), store=store)
            assert (runtime.knows("helper"), runtime.knows("clerk")) == (True, False), "the store has runs of both"
            assert [await runtime.look(), await runtime.close(), await store.close()] == [None] * 3  # type: ignore[func-returns-value]

    asyncio.run(scenario())


# -- the proof ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("called", TRIED, ids=str)
@given(st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_another_tenants_id_is_like_an_unknown_one(called: PublicCallable, data: st.DataObject) -> None:
    victim, reader = data.draw(OWNERS), data.draw(READERS)
    assume(not reader.reaches(victim))
    if called.first == "Operator":
        reader_is_refused(called, reader, world(victim))
        return
    known = world(victim)
    guessed = data.draw(st.sampled_from(sorted(known.ids)))

    async def scenario() -> None:
        async with copy_of(known.content) as store, copy_of(known.content) as other:
            before = await rows(store)
            asked = await outcome(called, store, Guess(reader, known.ids[guessed]))
            assert before - await rows(store) == Counter(), "it changed the victim's rows"
            assert SECRET not in str(asked)
            unknown = await outcome(called, other, Guess(reader, UNKNOWN))
            assert asked == unknown

    asyncio.run(scenario())


def reader_is_refused(called: PublicCallable, reader: AnyScope, known: World) -> None:
    """Check that a callable for the operator alone refuses everybody else."""

    async def scenario() -> None:
        async with copy_of(known.content) as store:
            kind, text = await outcome(called, store, Guess(reader, UNKNOWN))
            assert (kind, "operator" in text.lower()) == ("ConfigurationError", True)
            kind, _ = await outcome(called, store, Guess(Operator(), UNKNOWN))
            assert kind == "returned"

    asyncio.run(scenario())


OTHERWISE = {"Runtime.live", "ApprovalRules.is_allowed"}
"""The first finds what is in progress: see `test_a_live_run_is_unknown_too`. The second finds a rule for any id."""


def with_ids(called: PublicCallable) -> bool:
    """Return whether a call names stored data."""
    if str(called) in OTHERWISE:
        return False
    named = {"run_id", "root_id", "root_ids", "key", "conversation_id", "turn_id", "record", "schedule_id", "name"}
    return called.facade is not Conversation and called.first not in CARRIERS and bool(named & called.parameters.keys())


@pytest.mark.parametrize("called", [each for each in TRIED if with_ids(each)], ids=str)
def test_the_owner_gets_another_answer(called: PublicCallable) -> None:
    """Otherwise the proof would prove nothing."""
    victim = Scope("acme", "ann")
    known = world(victim)

    async def scenario() -> bool:
        for guessed in known.ids.values():
            async with copy_of(known.content) as store, copy_of(known.content) as other:
                before = await rows(store)
                owned = await outcome(called, store, Guess(victim, guessed))
                unknown = await outcome(called, other, Guess(victim, UNKNOWN))
                if owned != unknown or await rows(store) != before:
                    return True
        return False

    assert asyncio.run(scenario())


@given(READERS)
@settings(max_examples=20, deadline=None)
def test_a_live_run_is_unknown_too(reader: AnyScope) -> None:
    victim = Scope("acme", "ann")
    assume(not reader.reaches(victim))

    async def scenario() -> None:
        model = ScriptedModel(Answer(before=asyncio.Event().wait))
        async with MemoryStore() as store:
            runtime = Runtime([Helper()], Resources(model=model), store=store)
            live = await runtime.start(Chat(SECRET, scope=victim), "helper")
            for run_id in (live.id, UNKNOWN):
                assert runtime.live(reader, run_id) is None
                for name in ("result", "resume", "stop"):
                    with pytest.raises(UnknownRunError):
                        await getattr(runtime, name)(reader, run_id)
                with pytest.raises(UnknownRunError):
                    await runtime.steer(reader, run_id, "stop")
                with pytest.raises(UnknownRunError):
                    await anext(runtime.events(reader, run_id))
            assert runtime.live(victim, live.id) is live
            assert not live.done
            await runtime.close()

    asyncio.run(scenario())


async def test_an_id_that_a_caller_chooses_is_its_own() -> None:
    """An id that the engine makes has 80 random bits; one that a product chooses may be guessed."""
    async with MemoryStore() as store:
        runtime = Runtime([Helper()], Resources(model=ScriptedModel("one", "two")), store=store)
        for scope in (Scope("acme", "ann"), Scope("rival", "ann")):
            live = await runtime.start(Chat("go", scope=scope), "helper", run_id="order-17")
            await live.result()
            with pytest.raises(RunExistsError) as exists:
                await runtime.start(Chat("go", scope=scope), "helper", run_id="order-17")
            assert exists.value.run_id == live.id
            assert (await runtime.result(scope, live.id)).status == "completed"
        await runtime.close()


async def test_an_id_without_a_tenant_blocks_no_run_of_a_tenant() -> None:
    """Ids without a tenant are stored as they are; those of tenants, titles and sub-agents can be computed."""
    async with MemoryStore() as store:
        runtime = Runtime([Helper()], Resources(model=ScriptedModel("one", "two")), store=store)
        acme = Scope("acme", "ann")
        live = await runtime.start(Chat("go", scope=acme), "helper", run_id="order-17")
        assert (await live.result()).text == "one"
        with pytest.raises(ConfigurationError, match="the runtime makes ids of this form"):
            await runtime.start(Chat("go"), "helper", run_id=live.id.replace("0", "1"))
        mine = await runtime.start(Chat("go"), "helper", run_id="order-17")
        assert (mine.id, (await mine.result()).text) == ("order-17", "two")
        with pytest.raises(UnknownRunError):
            await runtime.result(acme, mine.id)
        with pytest.raises(UnknownRunError):
            await runtime.result(Scope(), live.id)
        await runtime.close()


async def test_scopes_share_no_cache_key_of_a_provider() -> None:
    """The same conversation id, or the same first message, says nothing about the owner."""
    model, keys = ScriptedModel(*["ok"] * 8), []
    runtime = Runtime([Helper()], Resources(model=model))
    for scope in (Scope("acme", "ann"), Scope("rival", "ann"), Scope("acme", "bob"), Scope("acme", "ann")):
        for conversation in ("", "c1"):
            live = await runtime.start(Chat("go", scope=scope, conversation_id=conversation), "helper")
            await live.result()
            keys.append(model.requests[-1].cache_key)
    assert len(set(keys[:6])) == 6
    assert keys[6:] == keys[:2]
    assert "ann" not in repr(keys)
    await runtime.close()
