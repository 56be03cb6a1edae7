"""A case played: a run with a model that follows the case, in as many simulated processes as it takes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import random
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ConcertinoError, ErasedError, RunStateError, StaleClaimError
from ...events import Notice, RunEvent, RunResult
from ...ids import named_run_id
from ...messages import ToolSpec
from ...orchestrator.agent import AgentConfig
from ...orchestrator.chat import Chat
from ...orchestrator.model_call.retry import Retry
from ...orchestrator.resources import Limits, LimitsFunction, Resources
from ...orchestrator.validation import keep_registry
from ...providers.base import Model
from ...records import record
from ...runtime import LiveRun, Runtime
from ...scope import OPERATOR, Scope
from ...storage import MemoryStore, SqliteStore
from ...storage.types import Claim
from ...tools.registry import ToolRegistry
from ..faults import FaultyStore, Points
from .alternation import Side, Turns
from .leak_watch import LeakWatch, marked_result
from .model_answers import RUN_ID, Answers, CheckedModel
from .origin import Origin
from .people import People
from .scenario import WAITS, Control, Scenario, Trace
from .watch import WatchedHooks, watched_tool

T = TypeVar("T")

_ROUNDS = 20
"""Suspensions of one run."""
_STOP_SECONDS = 1.0
_SHORT = 50
"""Turns of the event loop after which work that a run leaves behind counts as lasting."""
_numbers = count(1)


class _Surroundings:
    """Silences the log and fixes the random numbers while runs are played, also several at once."""

    def __init__(self) -> None:
        self._plays = 0
        self._quiet = False
        self._random: object = None

    def __enter__(self) -> None:
        log = logging.getLogger("concertino")
        if not self._plays:
            self._quiet, self._random = log.disabled, random.getstate()
        self._plays += 1
        log.disabled = True  # it warns of the crashes
        random.seed(0)  # an agent that draws at random draws the same in every case

    def __exit__(self, *_: object) -> None:
        self._plays -= 1
        if not self._plays:
            logging.getLogger("concertino").disabled = self._quiet
            random.setstate(self._random)  # type: ignore[arg-type]


_SURROUNDINGS = _Surroundings()


@record(kw_only=True)
class Subject:
    """The agent to check, with what its runs need."""

    origin: Origin
    name: str
    registry: ToolRegistry
    message: str
    resources: Resources
    hook_seconds: float
    background: set[str] = field(default_factory=set)
    """The names of coroutines that runs leave behind when they end by themselves: they may serve all runs."""
    of_each_run: set[str] = field(default_factory=set)
    """Those of which each run of an agent leaves another one."""

    @property
    def tools(self) -> dict[str, ToolSpec]:
        """The tools by the names that models see."""
        return {spec.name: spec for spec in self.registry.specs()}


class Play:
    """Plays one scenario. *config* is an agent that another play uses as well; by default, each process has its own."""

    def __init__(
        self,
        subject: Subject,
        case: Scenario,
        *,
        user: str = "ann",
        config: AgentConfig[Any] | None = None,
        twice: bool = False,
        policy: bool = False,
        turns: tuple[Turns, Side] | None = None,
    ) -> None:
        self.trace = Trace()
        self._message = f"{subject.message} (words-{user})"
        self.twice = twice
        self.stopped = False
        self.gone = False
        self.held, self.released = asyncio.Event(), asyncio.Event()
        self._subject = subject
        self._case = case
        self._config = config
        self._turns = turns
        self._leaks = LeakWatch() if policy else None
        self._user = user
        self._scope = Scope("check", f"{user}-{next(_numbers):06d}")
        self._controls = {control.point: control for control in case.controls}
        self._crashed = asyncio.Event()
        self._live: asyncio.Future[LiveRun] = asyncio.get_running_loop().create_future()
        self._started = False
        self.was_stopped = False
        self.left: set[str] = set()
        """The names of coroutines that the run has left behind."""
        self._moves_at_stop = 0
        self.run_id = named_run_id(self._scope.key, RUN_ID)
        self._people = People(self, case.replies, self._scope.tenant or "")
        owner = self._scope.user or ""
        self._answers = Answers(self, case.moves, subject.tools, user, owner)
        self._messages = [(self._message, 0)]
        """The user's messages, each with the number of the first request that must have it."""
        self.hooks: WatchedHooks

    # -- the run -------------------------------------------------------------------------------------------------

    async def run(self) -> Trace:
        """Play the case and return its trace."""
        earlier = asyncio.all_tasks()
        with _SURROUNDINGS, _folder(policy=self._leaks is not None) as folder:
            if folder is None:
                store = MemoryStore()
                try:
                    await self._processes(store)
                finally:
                    await store.close()
            else:
                await self._in_file(folder)
        await self._judge_background(asyncio.all_tasks() - earlier)
        return self.trace

    async def _judge_background(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Report the *tasks* that a stopped run leaves behind, and end them."""
        background, by_name = self._subject.background, {_name(task): task for task in tasks}
        alone = self._config is None  # else some of them are those of the other play
        if alone and not self._case.controls:
            background.update(by_name)
        for _ in range(_SHORT if tasks else 0):
            await asyncio.sleep(0)
        self.left = {name for name, task in by_name.items() if not task.done()}
        if self.was_stopped:
            for name in (by_name.keys() - background) | (self.left & self._subject.of_each_run):
                self.trace.report("stop", f"{name} continues after the run was stopped")
        for task in tasks if alone else ():
            task.cancel()

    async def _in_file(self, folder: Path) -> None:
        """Play the case with a file, and report what the data policy excludes and is found outside the run."""
        leaks = self._leaks
        assert leaks is not None
        with leaks.watch():
            store = await SqliteStore.open(folder / "store.db")
            await self._processes(store)
            await store.close()
        if self.trace.status in ("", "suspended"):
            return  # it has not ended, and may still need its content
        policy = await self.hooks.get_data_policy()
        names = self._subject.registry.names()
        for problem in await asyncio.to_thread(lambda: list(leaks.problems(policy, names, self._user, folder))):
            self.trace.report("policy", problem)

    async def _processes(self, store: Any) -> None:
        """Work on the run in one process after another, until it has ended."""
        for number in range(_ROUNDS):
            process = self._open(store)
            try:
                ended = await self._work(process, store, resumed=number > 0)
            finally:
                self.gone = True
                await self._leave(process, store)
                self.gone = False
            if ended:
                return
            self.trace.events.append("another process resumes the run")

    def _open(self, store: Any) -> Runtime:
        subject = self._subject
        self.stopped = False
        self._live = asyncio.get_running_loop().create_future()
        self._crashed = asyncio.Event()
        self._answers.next_process()
        config = subject.origin.fresh() if self._config is None else self._config
        self.hooks = WatchedHooks(config, self)
        registry = subject.registry.copy()
        marked = functools.partial(marked_result, self._user) if self._leaks is not None else None
        registry.by_name = {tool.name: watched_tool(tool, marked) for tool in registry}
        config.tools = tuple(config.tools)
        vars(config)["_concertino_hooks"] = self.hooks
        keep_registry(config, registry)
        model = CheckedModel(self._answers.answer)
        resources = dataclasses.replace(
            subject.resources,
            model=model,
            models=lambda wanted: CheckedModel(self._answers.answer, wanted),
            retry=Retry(first=0),
            limits=_limits(subject.resources.limits, subject.hook_seconds),
        )
        shown = FaultyStore(store, Points(self._store_point))
        self._process = Runtime([config], resources, store=shown, observers=[self._observe])
        return self._process

    def _observe(self, event: RunEvent) -> None:
        if isinstance(event, Notice):
            if event.code in ("limit_reached", "budget_reached"):
                self.trace.limit = event.text
            self.trace.unknown |= event.code == "outcome_unknown"
        if self._leaks is not None:
            self._leaks.events.append(repr(event))

    async def _work(self, process: Runtime, store: Any, *, resumed: bool) -> bool:
        """Work on the run in one process. Return whether it has ended."""
        try:
            if resumed and (await store.run(OPERATOR, self.run_id)).end is not None:
                with contextlib.suppress(ErasedError):
                    await self._finish(await process.result(OPERATOR, self.run_id))
                self.trace.unknown |= not self.trace.status
                return True
            for number in range(_ROUNDS):
                self._live = asyncio.get_running_loop().create_future()
                starts = not resumed and not number
                chat = Chat(self._message, scope=self._scope, conversation_id="c1")
                result = await self._result(
                    process.start(chat, self._subject.name, run_id=RUN_ID)
                    if starts
                    else process.resume(OPERATOR, self.run_id)
                )
                if result is None:
                    return False
                if result.status != "suspended" or not result.waiting:
                    await self._finish(result)
                    await self._people.answer_late(process)
                    return True
                if await self._people.reply(process, result.waiting):
                    return False
        except TimeoutError:
            self.trace.report("endless", "the run does not end, and does not answer a stop")
        return True

    async def _result(self, opening: Coroutine[Any, Any, LiveRun]) -> RunResult | None:
        """Return the result of a run that *opening* starts or resumes; None if the process crashed before."""
        live = await self._until_crash(opening)
        if live is None:
            return None
        self._live.set_result(live)
        return await self._until_crash(live.result())

    async def _until_crash(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the value of *work*, or None if the process crashed before. Raises `TimeoutError` if it hangs."""
        task, crash = asyncio.ensure_future(work), asyncio.ensure_future(self._crashed.wait())
        done, _ = await asyncio.wait(
            [task, crash], timeout=4 * self._subject.hook_seconds + 10, return_when="FIRST_COMPLETED"
        )
        crash.cancel()
        if task in done and not self._crashed.is_set():
            return task.result()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConcertinoError):
            await asyncio.wait([task], timeout=1)
        if not done:
            raise TimeoutError
        return None

    async def _leave(self, process: Runtime, store: Any) -> None:
        """End the process, and let the next one claim the run at once."""
        self._crashed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await process.close()
        stored = await store.run(OPERATOR, self.run_id) if self._started else None
        if stored is not None and stored.end is None and stored.owner:
            claim = Claim(root_id=self.run_id, scope=self._scope, epoch=stored.epoch, owner=stored.owner, seconds=0.0)
            with contextlib.suppress(ConcertinoError):
                await store.release(claim)

    async def _finish(self, result: RunResult) -> None:
        trace = self.trace
        decided = trace.error
        text, since = self._messages[-1]
        admitted = self.hooks.watch.reviewed.get(text, text)
        if admitted is not None and not _contain(trace.requests[since:], admitted):
            trace.report("message", f"a request lacks the message of the user, {text!r:.60}")
        typed = self.hooks.config.output_type is not None
        written = self._answers.last_text.strip()
        if result.status == "completed" and not result.text.strip() and written and not _is_silent(self.hooks):
            trace.report("answer", f"the run completes without an answer, though the model wrote {written!r}")
        if result.status == "failed" and typed and self._answers.last_move == "value" and not decided:
            trace.report("answer", f"the agent replaces a valid answer by {result.text!r:.60}")
        trace.state = self._answers.canonical(self.hooks.watch.state)
        if self.was_stopped and result.status != "cancelled" and self._moves_at_stop < self._answers.moves:
            trace.report("stop", f"the run was stopped, went on, and ended as {result.status}")
        trace.status, trace.text = result.status, self._answers.canonical(result.text)
        trace.error = result.error or ""
        trace.events.append(f"the run ends as {result.status}")
        if result.status == "cancelled" and result.receipt is not None:
            for work in result.receipt.not_stopped:
                trace.report("stop", f"the {work.what} {work.name} does not end when the run is stopped")
        provoked = any(move.kind in ("fails", "busy", "given") for move in self._case.moves)
        unexplained = not (decided or provoked or typed or trace.error.startswith("hook "))
        if result.status == "failed" and unexplained:
            trace.report("hook", f"the run fails: {trace.error}")

    # -- points --------------------------------------------------------------------------------------------------

    async def point(self, name: str) -> None:
        """Pass a point of a hook, a tool or the model."""
        control = self._pass(name)
        if control is not None:
            await self._apply(control)
        elif self.held.is_set():  # the calls of a turn keep their order
            await self.released.wait()
        if self._turns is not None and self._started:
            turns, side = self._turns
            await turns.take(side)
        if not name.startswith("hook"):
            await asyncio.sleep(0)  # models and tools wait for something; a hook may not

    async def _apply(self, control: Control) -> None:
        if control.what == "hold":
            self.held.set()
            await self.released.wait()
        elif control.what == "crash":
            self._crashed.set()
            await asyncio.Event().wait()  # until the process is left
        else:
            live = await asyncio.shield(self._live)
            if control.what == "stop":
                self._stop(live)
            else:
                await self._steer()

    def waits(self, hook: str, number: int) -> bool:
        """Pass a point at which a call of *hook* waits for the *number*-th time. Return whether the run is stopped."""
        control = self._pass(f"hook {hook}{' still' if number > 1 else ''}{WAITS}")
        if control is None or control.what != "stop":
            return False
        if self._live.done():
            self._stop(self._live.result())
        else:  # the run is starting
            self._live.add_done_callback(lambda live: self._stop(live.result()))
        return True

    def _stop(self, live: LiveRun) -> None:
        self.stopped = self.was_stopped = True
        self._moves_at_stop = self._answers.moves
        live._orchestrator.stop(min(_STOP_SECONDS, self._subject.hook_seconds / 4))

    async def _store_point(self, name: str, _number: int) -> None:
        """Pass a point of the store. Nothing is written once the process has crashed."""
        if not name.startswith("append:"):
            return
        if self.gone or self._crashed.is_set():
            raise StaleClaimError("the process has crashed")
        if name == "append:started:after":
            self._started = True
        elif self._started and not name.startswith("append:started"):
            control = self._pass(name)
            if control is not None and control.what == "hold":
                self.held.set()
                await self.released.wait()
            elif control is not None and control.what == "crash":
                self._crashed.set()
                raise StaleClaimError("the process has crashed")

    def _pass(self, name: str) -> Control | None:
        if not self._started or self.gone or self._crashed.is_set():
            return None
        self.trace.points.append(name)
        control = self._controls.get(len(self.trace.points))
        if control is not None and control.what != "hold":
            self.trace.events.append(f"{_HAPPENS[control.what]} at {name!r}")
        return control

    async def _steer(self) -> None:
        text = f"One more thing (words-{self._user}-{len(self._messages)})"
        with contextlib.suppress(RunStateError):
            await self._process.steer(OPERATOR, self.run_id, text)
            self._messages.append((text, len(self.trace.requests) + 1))

    def give_up(self) -> None:
        """End a run that does not end."""
        self.was_stopped = False
        if self._live.done():
            self._live.result().request_stop()


_HAPPENS = {
    "crash": "the process crashes",
    "stop": "the run is stopped",
    "steer": "the user adds a message",
    "hold": "",
}


def _name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


def _limits(inner: LimitsFunction, hook_seconds: float) -> LimitsFunction:
    def limits(scope: Scope, model: Model, agent: Any) -> Limits:
        return dataclasses.replace(inner(scope, model, agent), hook_seconds=hook_seconds)

    return limits


def _contain(requests: Sequence[str], text: str) -> bool:
    """Return whether all *requests*, which are JSON, have *text*."""
    return all(json.dumps(text)[1:-1] in each for each in requests)


def _is_silent(hooks: WatchedHooks) -> bool:
    """Return whether the text of the model is not meant for the user."""
    config = hooks.config
    return bool(config.turn_type or config.audience == "internal")


@contextlib.contextmanager
def _folder(*, policy: bool) -> Iterator[Path | None]:
    if not policy:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="concertino-check-") as folder:
        yield Path(folder)
