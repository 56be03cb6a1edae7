"""Resources of one run: asked for by scope and agent whenever a process starts or resumes a run, and never shared."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    Resources,
    Retry,
    Runtime,
    Scope,
    SqliteStore,
    TenantScope,
)
from concertino.errors import ConfigurationError, MissingKeyError, OverloadedError, ResourcesError
from concertino.ids import named_run_id
from concertino.storage import Store
from concertino.testing import ScriptedModel, call

from .kit import ended, texts
from .tenants import ANN, BOB, Clerk, Tenants, name_of_run, started


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def test_a_run_goes_on_with_its_tenants_resources_after_an_approval(path: Path) -> None:
    """In another process, whose last run was another tenant's."""
    first, second = Tenants(), Tenants()
    for product in (first, second):
        product.more = lambda scope: {"retry": Retry(attempts=2), "limits": lambda *_: Limits(output=100)}
    async with await SqliteStore.open(path) as store, Runtime([Clerk()], first, store=store, sweep=60) as runtime:
        for scope in (ANN, BOB):
            live = await runtime.start(started(scope), "clerk", run_id=name_of_run(scope))
            assert (await live.result()).status == "suspended"
    assert first.asked == [(ANN, "clerk"), (BOB, "clerk")], "a sub-agent uses its root's"
    assert [model.key for model in first.opened] == ["key of acme", "key of globex"]  # type: ignore[attr-defined]
    async with await SqliteStore.open(path) as store, Runtime([Clerk()], second, store=store, sweep=60) as runtime:
        for scope in (BOB, ANN):
            (wait,) = await store.waits(scope)
            await runtime.approve(scope, wait.key)
            await ended(store, named_run_id(scope.key, name_of_run(scope)))
            result = await runtime.result(scope, named_run_id(scope.key, name_of_run(scope)))
            assert result.text == "done"
            assert texts(result.messages) == [f"paid by {scope.tenant}", "asked"]
    assert second.asked == [(BOB, "clerk"), (ANN, "clerk")]
    assert [model.key for model in second.opened] == ["key of globex", "key of acme"]  # type: ignore[attr-defined]
    assert {request.max_output_tokens for model in second.opened for request in model.requests} == {100}


async def test_a_killed_processes_runs_go_on_with_their_tenants_resources(path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtime.tenants", str(path), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    for _ in (ANN, BOB):
        assert await program.stdout.readline() == b"asked\n"
    program.kill()
    await program.wait()
    product = Tenants(steps=(call("child", query="go"), call("child", query="again"), "done"))
    async with await SqliteStore.open(path) as store, Runtime([Clerk()], product, store=store, sweep=0.01) as runtime:
        for scope in (ANN, BOB):
            await ended(store, named_run_id(scope.key, name_of_run(scope)))
            assert (await runtime.result(scope, named_run_id(scope.key, name_of_run(scope)))).text == "done"
            (child,) = [run for run in await store.runs(scope) if run.start.parent_call and run.start.task == "again"]
            assert texts([each.message for each in await store.messages(scope, child.start.run_id)]) == [
                f"data of {scope.tenant}"
            ]
    assert {scope for scope, _ in product.asked} == {ANN, BOB}
    assert product.keys_used() == {"key of acme", "key of globex"}
    for model in product.opened:
        owner = model.key.removeprefix("key of ")  # type: ignore[attr-defined]
        told = [text for request in model.requests for text in texts(request.messages) if text.startswith("data of")]
        assert set(told) <= {f"data of {owner}"}


async def test_fallback_and_retry_survive_a_resumption(path: Path) -> None:
    class Product(Tenants):
        def open(self, name: str, key: str) -> ScriptedModel:
            model = ScriptedModel(*(self.steps if name == "scripted:m" else [f"{name} of {key}"]), name=name[9:])
            self.opened.append(model)
            return model

    product = Product(
        steps=(call("pay"),),
        more=lambda scope: {"retry": Retry(attempts=2, first=0.001), "fallback": ["scripted:other"]},
    )
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([Clerk()], product, store=store)
        live = await runtime.start(started(ANN), "clerk")
        assert (await live.result()).status == "suspended"
    product.steps = (OverloadedError("busy", provider="x"),) * 2
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([Clerk()], product, store=store)
        (wait,) = await store.waits(ANN)
        await runtime.approve(ANN, wait.key)
        result = await (await runtime.resume(TenantScope("acme"), live.id)).result()
        assert result.text == "scripted:other of key of acme"
        assert [len(model.requests) for model in product.opened] == [1, 2, 1]
        assert product.asked == [(ANN, "clerk")] * 2, "the owner's scope, not the reader's"
        await runtime.close()


async def test_an_async_function(store: Store) -> None:
    model = ScriptedModel("done")

    async def resources(scope: Scope, agent: AgentConfig[Any]) -> Resources:
        await asyncio.sleep(0)
        return Resources(model=model)

    runtime = Runtime([Clerk()], resources, store=store)
    live = await runtime.start(Chat("go", scope=ANN), "clerk")
    assert (await live.result()).text == "done"
    assert (await store.run(ANN, live.id)) is not None, "its resources got the runtime's store"


def failing(kind: str) -> Any:
    """A function that fails in some way."""
    if kind == "raises":
        return lambda scope, agent: dict[str, Resources]()["secret-key"]
    if kind == "awaits and raises":

        async def later(scope: Scope, agent: AgentConfig[Any]) -> Resources:
            await asyncio.sleep(0)
            raise MissingKeyError("secret-key")

        return later
    if kind == "returns nothing":
        return lambda scope, agent: None
    return lambda scope, agent: Resources(store=MemoryStore())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("raises", "failed for agent 'clerk': KeyError"),
        ("awaits and raises", "failed for agent 'clerk': MissingKeyError"),
        ("returns nothing", "returned NoneType for agent 'clerk'"),
        ("another store", "leave it out"),
    ],
)
async def test_a_function_that_fails_starts_nothing(store: Store, kind: str, message: str) -> None:
    runtime = Runtime([Clerk()], failing(kind), store=store)
    with pytest.raises(ResourcesError, match=message) as caught:
        await runtime.start(started(ANN), "clerk", run_id="r1")
    assert "secret" not in str(caught.value)
    assert not await store.runs(OPERATOR)


async def test_a_function_that_fails_loses_no_run(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """The watchdog tries again later and later, and resumes the run when its tenant's key is back."""
    product = Tenants()
    async with Runtime([Clerk()], product, store=store, sweep=60) as runtime:
        live = await runtime.start(started(ANN), "clerk")
        other = await runtime.start(started(BOB), "clerk")
        await live.result()
        await other.result()
        key = product.keys.pop("acme")
        for scope in (ANN, BOB):
            (wait,) = await store.waits(scope)
            await runtime.approve(scope, wait.key)
        await ended(store, other.id)
        stored = await store.run(OPERATOR, live.id)
        assert stored is not None
        assert stored.state == "suspended"
        assert stored.reason == "Runtime(resources=...) failed for agent 'clerk': KeyError"
        asked = len(product.asked)
        await runtime.look()
        assert len(product.asked) == asked, "it is not due before its time"
        with pytest.raises(ResourcesError):
            await runtime.resume(ANN, live.id)
        product.keys["acme"] = key
        assert (await (await runtime.resume(ANN, live.id)).result()).text == "done"
        stored = await store.run(OPERATOR, live.id)
        assert stored is not None
        assert stored.reason == ""
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [
        f"run {live.id} could not be resumed: Runtime(resources=...) failed for agent 'clerk': KeyError"
    ]


async def test_a_run_is_tried_again_until_its_resources_are_back(store: Store) -> None:
    product = Tenants()
    async with Runtime([Clerk()], product, store=store, sweep=0.001, back_off=0.001) as runtime:
        live = await runtime.start(started(ANN), "clerk")
        await live.result()
        key = product.keys.pop("acme")
        (wait,) = await store.waits(ANN)
        await runtime.approve(ANN, wait.key)
        while len(product.asked) < 4:  # noqa: ASYNC110 - the watchdog announces nothing
            await asyncio.sleep(0.001)
        product.keys["acme"] = key
        await ended(store, live.id)
        assert (await runtime.result(ANN, live.id)).text == "done"


async def test_models_stay_open_in_resources_that_are_returned_again(store: Store) -> None:
    """A product that keeps a tenant's resources keeps the models that they have opened."""
    opened: list[str] = []

    def open_model(name: str) -> ScriptedModel:
        opened.append(name)
        return ScriptedModel("one", "two")

    kept = Resources(models=open_model)
    runtime = Runtime([Clerk()], lambda scope, agent: kept, store=store)
    for wanted in ("one", "two"):
        assert (await (await runtime.start(started(ANN), "clerk")).result()).text == wanted
    assert opened == ["scripted:m"]


async def test_the_store_of_a_runtime() -> None:
    async with MemoryStore() as one, MemoryStore() as two:
        assert Runtime((), store=one).store is one
        assert Runtime((), Resources(), store=one).store is one
        assert Runtime((), Resources(store=one)).store is one
        assert Runtime((), Resources(store=one), store=one).store is one
        with pytest.raises(ConfigurationError, match="not its runtime"):
            Runtime((), Resources(store=one), store=two)
    assert isinstance(Runtime((), lambda scope, agent: Resources()).store, MemoryStore)
    with pytest.raises(ConfigurationError, match="use Resources, or a function"):
        Runtime((), "resources")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["go", Chat("go", scope="acme")], ids=["chat", "scope"])  # type: ignore[arg-type]
async def test_a_function_is_asked_for_scopes_alone(store: Store, wrong: Any) -> None:
    product = Tenants()
    with pytest.raises(ConfigurationError, match="Chat"):
        await Runtime([Clerk()], product, store=store).start(wrong, "clerk")
    assert product.asked == []
