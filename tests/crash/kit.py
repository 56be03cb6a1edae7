"""What the tests in one process share: stores on one file, agents of a few lines, and the journal's own words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from concertino import OPERATOR, AgentConfig, Chat, Resources, Scope, SqliteStore, Tool
from concertino.messages import AssistantMessage, ToolMessage
from concertino.orchestrator import replay
from concertino.runtime import Runtime
from concertino.storage import Store
from concertino.testing import ScriptedModel
from tests.auditor import unpaired


class Desk(AgentConfig[None]):
    """An agent with some tools."""

    def __init__(self, *tools: Tool, name: str = "desk") -> None:
        self.name, self.tools, self.prompt = name, tools, f"You are the {name}."


def chat(model: ScriptedModel) -> Chat:
    """What is asked."""
    return Chat(model=model, message="go", scope=Scope(user="u"))


@asynccontextmanager
async def two(
    path: Path, agents: Sequence[AgentConfig[Any]], model: ScriptedModel, **settings: Any
) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """Two runtimes on one file, as two processes have them; without their watchdogs."""
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(2):
            store = await stack.enter_async_context(await SqliteStore.open(path / "runs.db"))
            made.append(Runtime(agents, Resources(store=store, models=lambda _: model), **settings))
        yield made[0], made[1]
        for runtime in made:
            await runtime.close()


async def until(asked: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first true answer."""
    while not (answer := await asked()):  # noqa: ASYNC110 - a store does not announce its changes
        await asyncio.sleep(0.002)
    return answer


async def asked_of(model: ScriptedModel) -> None:
    """Wait until *model* has been asked."""

    async def was() -> bool:
        return bool(model.requests)

    await until(was)


async def steal(store: Any, run_id: str) -> None:
    """End the lease on a tree, as if its process had been stopped for too long."""
    lost = "UPDATE heads SET lease = 0, ready_at = 0 WHERE run = (SELECT root FROM runs WHERE run_id = ?)"
    await store._connection.run(lambda connection: connection.execute(lost, (run_id,)))


async def ended(store: Store, run_id: str) -> Any:
    """The end of a run, when it has come."""

    async def end() -> Any:
        run = await store.run(OPERATOR, run_id)
        return run.end if run is not None else None

    return await until(end)


async def results(store: Store, run_id: str) -> list[str]:
    """What the model was told of its calls; each of them has exactly one result."""
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    messages = replay(journal).messages
    assert list(unpaired(messages)) == []
    return [message.content for message in messages if isinstance(message, ToolMessage)]


async def calls(store: Store, run_id: str) -> list[str]:
    """The ids of all calls that the model has made."""
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    turns = [message for message in replay(journal).messages if isinstance(message, AssistantMessage)]
    return [call.id for turn in turns for call in turn.tool_calls]
