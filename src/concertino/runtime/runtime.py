"""`Runtime`: runs that live as long as they need, whoever watches, and in whichever process."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ..errors import (
    ConcertinoError,
    ConfigurationError,
    NotAllowedError,
    RunClaimedError,
    RunEndedError,
    RunStateError,
    UnknownRunError,
    UnknownWaitError,
)
from ..events import RunEnded, RunEvent, RunResult, StopReceipt
from ..ids import new_run_id, run_of, token
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.engine import Observer, ToolOrchestrator
from ..orchestrator.journal.lease import LEASE, STOP_DEADLINE
from ..orchestrator.journal.replay import fold, requests
from ..orchestrator.lifecycle.fork import fork
from ..orchestrator.lifecycle.resume import result_of
from ..orchestrator.lifecycle.seal import seal
from ..orchestrator.tool_calls.approval import asked_arguments
from ..providers.base import Model, ModelRequest
from ..storage.base import Store
from ..storage.types import StoredRun
from ..tools.registry import ToolRegistry
from ..waits import Resolution, Verdict, Wait, arguments_hash
from .event_log import Feed

log = logging.getLogger("concertino")

SWEEP = 1.0
"""Seconds between two looks of the watchdog."""
TRIES = 3
"""How often a run is taken up by itself without getting any further: then it has failed."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of an answer to a wait."""

    won: bool
    """Whether it was the first. If not, nothing happened: `wait.resolution` is the one that counts."""
    wait: Wait


class LiveRun:
    """A run that is going on in this process. Reading its events, or ceasing to, changes nothing about it."""

    def __init__(self, orchestrator: ToolOrchestrator) -> None:
        self.id = orchestrator.run_id
        self._orchestrator = orchestrator
        self._feed = Feed()
        self._begun = asyncio.Event()
        self._error: BaseException | None = None
        self._task = asyncio.create_task(self._drive(), name=f"run {self.id}")

    def events(self, after: int = 0) -> AsyncIterator[tuple[int, RunEvent]]:
        """Numbered events, from the one behind *after* to the last. Come back with the number that you saw last."""
        return self._feed.read(after)

    async def result(self) -> RunResult:
        """How the run ended, or that it is suspended. Raises what kept it from beginning."""
        await asyncio.wait([self._task])
        if self._orchestrator.result is None:
            raise self._error or RunStateError(f"run {self.id} was left before it had begun")
        return self._orchestrator.result

    @property
    def done(self) -> bool:
        """Whether it has ended, or is suspended."""
        return self._task.done()

    async def begun(self) -> None:
        """Wait until it is on record. Raises what kept it from beginning."""
        await self._begun.wait()
        error = self._error or self._orchestrator.refused
        if error is not None:
            raise error

    async def stop(self, deadline: float) -> RunResult:
        """Stop it, and all below it."""
        self._orchestrator.stop(deadline)
        return await self.result()

    def stop_soon(self) -> None:
        """Stop it, without waiting for it."""
        self._orchestrator.stop()

    def abandon(self) -> None:
        """It could not begin."""
        self._task.cancel()

    async def park(self) -> None:
        """Leave it to be taken up later."""
        self._orchestrator.park()
        await asyncio.wait([self._task])

    async def _drive(self) -> None:
        last: RunEvent | None = None
        try:
            async with aclosing(self._orchestrator.stream()) as events:
                async for event in events:
                    last = event
                    self._feed.put(event)
                    self._begun.set()
        except asyncio.CancelledError:
            pass  # stopped or parked: the result says so
        except Exception as error:  # noqa: BLE001 - it is told to whoever asks for the result
            self._error = error
        finally:
            result = self._orchestrator.result
            if result is not None and not isinstance(last, RunEnded):
                self._feed.put(RunEnded(result.run_id, result.agent_path, result.content_index, result))
            self._begun.set()
            self._feed.close()


class Runtime:
    """Starts runs, keeps them, and takes them up again.

        async with Runtime(store, [SupportDesk()], models=open_model) as runtime:
            run = await runtime.start(Chat(model=model, message="..."), "support_desk")
            async for number, event in run.events():
                ...

    *agents* are those whose runs this process can take up, each with its own tools or as a pair with a registry.
    *models* finds a model by its id. *means* are what a `Chat` takes beside its content: `deps`, `limits`, `counter`,
    `retention`, `price`. Inside `async with` a watchdog takes up what was left by dead processes and what has its
    answers, and expires what nobody answered. A run that was taken up *tries* times without getting any further has
    failed: its process may have died of it. So that nobody fails for a neighbour, runs on their last try are taken up
    one after another: the next one when the one before has got further. Leaving the runtime parks what still goes on.

    Every method may raise `StorageError`; those that name a run or a wait raise `RunStateError` where it is not in a
    state for what is asked.
    """

    def __init__(
        self,
        store: Store,
        agents: Sequence[AgentConfig[Any] | tuple[AgentConfig[Any], ToolRegistry]] = (),
        *,
        models: Callable[[str], Model],
        observers: Sequence[Observer] = (),
        sweep: float = SWEEP,
        lease: float = LEASE,
        tries: int = TRIES,
        **means: Any,
    ) -> None:
        self.store = store
        self._agents: dict[str, tuple[AgentConfig[Any], ToolRegistry | None]] = {}
        for agent in agents:
            config, registry = agent if isinstance(agent, tuple) else (agent, None)
            self._agents[config.name] = (config, registry)
        if unknown := means.keys() - {"deps", "limits", "counter", "retention", "price"}:
            raise ConfigurationError(
                f"Runtime takes no {min(unknown)!r}; means are deps, limits, counter, retention, price"
            )
        self._models = models
        self._observers = tuple(observers)
        self._sweep = sweep
        self._lease = lease
        self._tries = tries
        self._means: Mapping[str, Any] = means
        self._live: dict[str, LiveRun] = {}
        self._on_last_try = ""
        self._watchdog: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watchdog = asyncio.create_task(self._watch(), name="concertino watchdog")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Take up nothing more, and park what goes on: another process, or the next one, takes it up at once."""
        if self._watchdog is not None:
            self._watchdog.cancel()
            await asyncio.wait([self._watchdog])
            self._watchdog = None
        await asyncio.gather(*(run.park() for run in self._live.values() if not run.done))
        self._live.clear()

    # -- runs ----------------------------------------------------------------------------------------------------

    async def start(self, chat: Chat, agent: AgentConfig[Any] | str, *, run_id: str | None = None) -> LiveRun:
        """Begin a run, and return when it is on record: from then on it cannot get lost."""
        config, registry = self._agent(agent)
        chat = dataclasses.replace(chat, store=self.store, models=chat.models or self._models, **self._means)
        return await self._run(chat, config, registry, run_id or new_run_id(), resume=False)

    async def resume(self, run_id: str) -> LiveRun:
        """Take up the run *run_id* at the very step where it was left; a sub-agent's is taken up with its root.

        Raises `RunClaimedError` while another process is at work on it, `RunEndedError`, `ErasedError`.
        """
        stored = await self.store.run(run_id)
        if stored is None:
            raise UnknownRunError(f"there is no run {run_id!r} in this store")
        root_id = stored.start.root_id
        if (live := self._live.get(root_id)) is not None and not live.done:
            return live
        root = stored if root_id == run_id else await self.store.run(root_id)
        assert root is not None
        config, registry = self._agent(root.start.agent)
        journal = await self.store.load(root_id)
        assert journal is not None
        model = self._models(journal.entries[0].body["model"])
        chat = Chat(model=model, models=self._models, store=self.store, **self._means)
        return await self._run(chat, config, registry, root_id, resume=True)

    def live(self, run_id: str) -> LiveRun | None:
        """The run, if it goes on in this process."""
        return self._live.get(run_id)

    async def result(self, run_id: str) -> RunResult:
        """How a run ended, from its journal. Raises `RunStateError` if it has not, `ErasedError`."""
        result = await live.result() if (live := self._live.get(run_id)) is not None else None
        journal = await self.store.load(run_id)
        if journal is None:
            raise UnknownRunError(f"there is no run {run_id!r} in this store")
        end = journal.run.end
        if result is not None and (end is None or end.status == result.status):
            return result  # else it has gone on elsewhere
        if end is None:
            raise RunStateError(f"run {run_id} has not ended: it is {journal.run.state}")
        return result_of(fold(journal), list(await self.store.usage(journal.run.start.root_id)))

    async def steer(self, run_id: str, message: str, *, by: str = "") -> None:
        """Put *message* into a run, wherever it goes on: it arrives before the next step, and once."""
        if not message.strip():
            raise ConfigurationError("steer: the message is empty")
        await self.store.send(run_id, "steer", message, by)

    async def stop(self, run_id: str, deadline: float = STOP_DEADLINE) -> StopReceipt:
        """Stop a run and all below it, wherever it goes on, and say what became of what was going on.

        It ends as `cancelled`: partial text is kept, usage settled, and every call has a result. What does not end
        within *deadline* seconds is left behind, and named. Raises `RunEndedError`; `RunStateError` for a sub-agent's
        run, or if the process that has the run does not stop it in time.
        """
        stored = await self.store.run(run_id)
        if stored is not None and stored.start.root_id != run_id:
            raise RunStateError(f"run {run_id} is a sub-agent's: stop its root, {stored.start.root_id}")
        if (live := self._live.get(run_id)) is not None and not live.done:
            result = await live.stop(deadline)
            if result.status == "cancelled":
                return result.receipt or StopReceipt()
        await self.store.send(run_id, "stop")  # also where it was suspended, or ended, just before
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline + 2 * self._sweep
        while True:
            with suppress(RunClaimedError, RunEndedError):
                return await seal(self.store, run_id, "cancelled", "the run was stopped")
            if (stored := await self.store.run(run_id)) is not None and stored.end is not None:
                return await self._receipt(run_id)
            if loop.time() > until:
                raise RunStateError(
                    f"run {run_id} was told to stop, and its process has not done so within {deadline:g} s"
                )
            await asyncio.sleep(min(0.05, self._sweep))

    async def _receipt(self, run_id: str) -> StopReceipt:
        journal = await self.store.load(run_id)
        receipt = journal.entries[-1].body.get("receipt") if journal is not None else None
        return StopReceipt.restored(receipt or {})

    async def fork(self, run_id: str, step: int) -> LiveRun:
        """A new run, which goes on from where *run_id* stood when it was about to ask its model in *step*.

        Raises `RunStateError` if there was no such step, `ErasedError`.
        """
        new_id = await self.fork_only(run_id, step)
        return await self.resume(new_id)

    async def fork_only(self, run_id: str, step: int) -> str:
        """As `fork`, and nobody goes on with it yet; the new run's id."""
        journal = await self.store.load(run_id)
        if journal is None:
            raise UnknownRunError(f"there is no run {run_id!r} in this store")
        return await fork(self.store, journal, step)

    async def replay(self, run_id: str) -> Iterator[tuple[int, str, ModelRequest]]:
        """Every request that the run sent, from its journal alone: the step, the model's id, the request."""
        journal = await self.store.load(run_id)
        if journal is None:
            raise UnknownRunError(f"there is no run {run_id!r} in this store")
        return requests(journal)

    # -- waits ---------------------------------------------------------------------------------------------------

    async def approve(self, key: str, *, by: str = "", arguments: Mapping[str, Any] | None = None) -> Answered:
        """Allow a call that waits, with other *arguments* if they are given.

        Raises `NotAllowedError`, `UnknownWaitError`.
        """
        wait = await self._approval(key, by)
        if wait.arguments and arguments_hash(wait.arguments) != wait.arguments_hash:
            raise NotAllowedError(f"the arguments of {key} were changed after they were shown: it cannot be approved")
        edited = None if arguments is None else asked_arguments(dict(arguments))
        return await self._answer(key, "approved", "", by, edited)

    async def deny(self, key: str, reason: str = "", *, by: str = "") -> Answered:
        """Forbid a call that waits; the model reads the *reason*. Raises `NotAllowedError`, `UnknownWaitError`."""
        await self._approval(key, by)
        return await self._answer(key, "denied", reason, by)

    async def resolve(self, key: str, content: Any, *, failed: bool = False, by: str = "") -> Answered:
        """Give the result, or the error, of a call that waits for it. The first of several wins.

        Raises `UnknownWaitError`, and `RunStateError` if the call waits for an approval.
        """
        wait = await self.store.wait(key)
        if wait is not None and wait.kind == "approval":
            raise RunStateError(f"{key} waits for an approval: use approve or deny")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return await self._answer(key, "failed" if failed else "result", text, by)

    async def _approval(self, key: str, by: str) -> Wait:
        wait = await self.store.wait(key)
        if wait is None:
            raise UnknownWaitError(f"no call waits under {key!r}")
        if wait.kind != "approval":
            raise RunStateError(f"{key} waits for a result, not for an approval: use resolve")
        if wait.who and by not in wait.who:
            raise NotAllowedError(f"{by or 'nobody'} may not answer {key}; {', '.join(wait.who)} may")
        return wait

    async def _answer(self, key: str, verdict: Verdict, content: str, by: str, edited: str | None = None) -> Answered:
        mine = Resolution(id=token(), verdict=verdict, content=content, arguments=edited, by=by)
        early = run_of(key) if verdict in ("result", "failed") else None
        wait = await self.store.resolve(key, mine, run_id=early)
        won = wait.resolution is not None and wait.resolution.id == mine.id
        if won and self._watchdog is not None:
            await self.look()
        return Answered(won, wait)

    # -- the watchdog --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
                await self.store.sweep()
            except ConcertinoError as error:
                log.warning("the watchdog could not look: %s: %s", type(error).__name__, error)
            await asyncio.sleep(self._sweep)

    async def look(self) -> None:
        """Do now what the watchdog does from time to time."""
        for root_id in [root_id for root_id, live in self._live.items() if live.done]:
            del self._live[root_id]
        due = await self.store.due(agents=self._agents)
        for root_id in due.stopping:
            if (live := self._live.get(root_id)) is not None and not live.done:
                live.stop_soon()
        for root_id in (*due.ready, *due.orphaned):
            if (live := self._live.get(root_id)) is None or live.done:
                await self._take_up(root_id)

    async def _take_up(self, root_id: str) -> None:
        stored = await self.store.run(root_id)
        if stored is None or stored.start.agent not in self._agents:
            return  # another process knows this agent
        try:
            if stored.stop:
                await seal(self.store, root_id, "cancelled", "the run was stopped")
            elif stored.tries >= self._tries:
                why = f"it was taken up {stored.tries} times and never got any further"
                await seal(self.store, root_id, "failed", why)
                log.warning("run %s has failed: %s", root_id, why)
            elif not await self._has_to_wait(stored):
                await self.resume(root_id)
        except (RunStateError, ConfigurationError) as error:
            log.info("run %s was not taken up: %s", root_id, error)
        except Exception as error:  # noqa: BLE001 - one run that cannot be taken up keeps nobody from the others
            log.warning("run %s could not be taken up: %s", root_id, type(error).__name__)

    async def _has_to_wait(self, stored: StoredRun) -> bool:
        """Whether it is on its last try, as another run is that has not got any further yet."""
        if not 0 < stored.tries == self._tries - 1:
            return False
        other = self._live.get(self._on_last_try)
        if other is not None and not other.done:
            found = await self.store.run(self._on_last_try)
            if found is not None and found.tries:
                return True
        self._on_last_try = stored.start.run_id
        return False

    # -- parts ---------------------------------------------------------------------------------------------------

    def _agent(self, agent: AgentConfig[Any] | str) -> tuple[AgentConfig[Any], ToolRegistry | None]:
        name = agent if isinstance(agent, str) else agent.name
        if name not in self._agents:
            if isinstance(agent, str):
                known = ", ".join(self._agents) or "none"
                raise ConfigurationError(
                    f"this runtime has no agent {name!r}; it has: {known}. Give it Runtime(agents=...)"
                )
            self._agents[name] = (agent, None)
        return self._agents[name]

    async def _run(
        self, chat: Chat, config: AgentConfig[Any], registry: ToolRegistry | None, run_id: str, *, resume: bool
    ) -> LiveRun:
        orchestrator = ToolOrchestrator(
            chat,
            config,
            registry,
            run_id=run_id,
            observers=self._observers,
            resume=resume,
            lease=self._lease,
        )
        live = LiveRun(orchestrator)
        try:
            await live.begun()
        except BaseException:
            live.abandon()
            raise
        self._live[run_id] = live
        return live
