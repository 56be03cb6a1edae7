"""One case played: a run with a model that follows the case, in as many simulated processes as it takes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import io
import json
import logging
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ConcertinoError, RunStateError, StaleClaimError
from ...events import Notice, RunEvent, RunResult
from ...ids import named_run_id
from ...messages import ToolSpec
from ...orchestrator.agent import AgentConfig
from ...orchestrator.chat import Chat
from ...orchestrator.journal.data_policy import DataPolicy, KeepFor
from ...orchestrator.model_call.retry import Retry
from ...orchestrator.resources import Limits, LimitsFunction, Resources
from ...providers.base import Model, ModelEvent, ModelRequest
from ...records import record
from ...runtime import LiveRun, Runtime
from ...scope import OPERATOR, Scope
from ...storage import MemoryStore, SqliteStore, encode_message
from ...storage.types import Claim
from ...tools.registry import ToolRegistry
from ...waits import Wait
from ..faults import FaultyStore, Points
from ..scripted import Answer, ScriptedModel
from .case import Case, Control, Trace
from .origin import Origin
from .request_rules import request_problem
from .schema_values import value_of
from .watch import INSIDE, WatchedHooks, watched_tool

T = TypeVar("T")

RUN_ID = "checked"
_MOST_REQUESTS = 300
"""Requests after which a run counts as endless."""
_ROUNDS = 20
"""Suspensions of one run."""
_STOP_SECONDS = 1.0
_numbers = count(1)


@record(kw_only=True)
class Subject:
    """The agent to check, with what its runs need."""

    origin: Origin
    name: str
    registry: ToolRegistry
    message: str
    resources: Resources
    hook_seconds: float

    @property
    def tools(self) -> dict[str, ToolSpec]:
        """The tools by the names that models see."""
        return {spec.name: spec for spec in self.registry.specs()}


class CheckedModel(ScriptedModel):
    """A model that asks the play for each answer."""

    provider = "check"

    def __init__(self, answer: Callable[[ModelRequest], tuple[int, Answer]], name: str = "model") -> None:
        super().__init__(name=name)
        self._answer_of = answer

    def _answer(self, request: ModelRequest) -> Answer:
        number, answer = self._answer_of(request)
        self._calls = 100 * number  # a repeated answer has the same ids
        return answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the answer that the case has for *request*."""
        self.requests.clear()
        async for event in super().stream(request):
            yield event


class Play:
    """Plays one case. *config* is an agent that another play uses as well; by default, each process has its own."""

    def __init__(
        self,
        subject: Subject,
        case: Case,
        *,
        user: str = "ann",
        config: AgentConfig[Any] | None = None,
        twice: bool = False,
        policy: bool = False,
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
        self._policy = policy
        self._user = user
        self._scope = Scope("check", f"{user}-{next(_numbers):06d}")
        self._controls = {control.point: control for control in case.controls}
        self._crashed = asyncio.Event()
        self._live: asyncio.Future[LiveRun] = asyncio.get_running_loop().create_future()
        self._started = False
        self._moves = 0
        self._sent: dict[str, list[tuple[int, Answer]]] = {}
        """The answers of this process by request, which an interrupted request gets again in the next process."""
        self._carried: dict[str, list[tuple[int, Answer]]] = {}
        self._waits: list[str] = []
        self._restarted = False
        self.was_stopped = False
        self._moves_at_stop = 0
        self._last_said = ""
        self._last_move = ""
        self._questions = 0
        self._run_id = named_run_id(self._scope.key, RUN_ID)
        self._messages = [(self._message, 0)]
        """The user's messages, each with the number of the first request that must have it."""
        self._hooks: WatchedHooks | None = None
        self._seen: list[str] = []
        """What observers have seen, for the data policy."""

    # -- the run -------------------------------------------------------------------------------------------------

    async def run(self) -> Trace:
        """Play the case and return its trace."""
        before = random.getstate()
        random.seed(0)  # an agent that draws at random draws the same in every case
        log = logging.getLogger("concertino")
        quiet, log.disabled = log.disabled, True  # it warns of the crashes
        try:
            with _folder(self._policy) as folder:
                if folder is None:
                    store = MemoryStore()
                    try:
                        await self._processes(store)
                    finally:
                        await store.close()
                else:
                    await self._in_file(folder)
        finally:
            random.setstate(before)
            log.disabled = quiet
        return self.trace

    async def _in_file(self, folder: Path) -> None:
        """Play the case with a file, and report what the data policy excludes and is found outside the run."""
        logged, printed = _Log(), io.StringIO()
        root, level = logging.getLogger(), logging.getLogger().level
        root.addHandler(logged)
        root.setLevel(logging.DEBUG)
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                store = await SqliteStore.open(folder / "store.db")
                await self._processes(store)
                await store.close()
        finally:
            root.removeHandler(logged)
            root.setLevel(level)
        stored = await asyncio.to_thread(_bytes_in, folder)
        assert self._hooks is not None
        policy = await self._hooks.get_data_policy()
        for mark, what in _excluded(policy, list(self._subject.registry.names()), self._user):
            for place, content in (
                ("the store", stored),
                ("an event", "\n".join(self._seen).encode()),
                ("the log", logged.text.encode()),
                ("the output", printed.getvalue().encode()),
            ):
                if mark.encode() in content:
                    self.trace.report("policy", f"{place} has {what}, which the data policy excludes")

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
        self._carried, self._sent = {**self._carried, **self._sent}, {}
        config = subject.origin.fresh() if self._config is None else self._config
        self._hooks = WatchedHooks(config, self)
        mark = f"results-{self._user}" if self._policy else ""
        registry = subject.registry.copy()
        registry.by_name = {tool.name: watched_tool(tool, self, mark) for tool in registry}
        config.tools = tuple(config.tools)
        self._attach = functools.partial(
            vars(config).update, _concertino_hooks=self._hooks, _concertino_registry=(config.tools, registry)
        )
        model = CheckedModel(self._answer)
        resources = dataclasses.replace(
            subject.resources,
            model=model,
            models=lambda wanted: CheckedModel(self._answer, wanted),
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
        if self._policy:
            self._seen.append(repr(event))

    async def _work(self, process: Runtime, store: Any, *, resumed: bool) -> bool:
        """Work on the run in one process. Return whether it has ended."""
        try:
            if resumed and (await store.run(OPERATOR, self._run_id)).end is not None:
                await self._finish(await process.result(OPERATOR, self._run_id))
                return True
            for number in range(_ROUNDS):
                self._attach()  # another play with the same agent may have taken place meanwhile
                self._live = asyncio.get_running_loop().create_future()
                starts = not resumed and not number
                result = await self._result(self._start(process) if starts else process.resume(OPERATOR, self._run_id))
                if result is None:
                    return False
                if result.status != "suspended" or not result.waiting:
                    await self._finish(result)
                    await self._answer_late(process)
                    return True
                if await self._reply(process, result.waiting):
                    return False
        except TimeoutError:
            self.trace.report("endless", "the run does not end, and does not answer a stop")
        return True

    async def _start(self, process: Runtime) -> LiveRun:
        chat = Chat(self._message, scope=self._scope, conversation_id="c1")
        return await process.start(chat, self._subject.name, run_id=RUN_ID)

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
        stored = await store.run(OPERATOR, self._run_id) if self._started else None
        if stored is not None and stored.end is None and stored.owner:
            claim = Claim(root_id=self._run_id, scope=self._scope, epoch=stored.epoch, owner=stored.owner, seconds=0.0)
            with contextlib.suppress(ConcertinoError):
                await store.release(claim)

    async def _finish(self, result: RunResult) -> None:
        trace = self.trace
        decided = trace.error
        self._check_messages()
        if result.status == "completed" and not result.text and self._last_said and not self._silent:
            trace.report("answer", f"the run completes without an answer, though the model wrote {self._last_said!r}")
        if result.status == "failed" and self._typed and self._last_move == "value" and not decided:
            trace.report("answer", f"the agent replaces a valid answer by {result.text!r:.60}")
        assert self._hooks is not None
        trace.state = self._hooks.watch.state
        if self.was_stopped and result.status != "cancelled" and self._moves_at_stop < self._moves:
            trace.report("stop", f"the run was stopped, went on, and ended as {result.status}")
        trace.status, trace.text, trace.error = result.status, result.text, result.error or ""
        trace.events.append(f"the run ends as {result.status}")
        if result.status == "cancelled" and result.receipt is not None:
            for work in result.receipt.not_stopped:
                trace.report("stop", f"the {work.what} {work.name} does not end when the run is stopped")
        provoked = any(move.kind in ("fails", "busy", "given") for move in self._case.moves)
        unexplained = not (decided or provoked or self._typed or trace.error.startswith("hook "))
        if result.status == "failed" and unexplained:
            trace.report("hook", f"the run fails: {trace.error}")

    @property
    def _silent(self) -> bool:
        """Whether the text of the model is not meant for the user."""
        assert self._hooks is not None
        config = self._hooks.config
        return bool(self._hooks.interpret_response.own or config.turn_type or config.audience == "internal")

    @property
    def _typed(self) -> bool:
        assert self._hooks is not None
        return self._hooks.config.output_type is not None

    # -- points --------------------------------------------------------------------------------------------------

    async def point(self, name: str) -> None:
        """Pass a point of a hook, a tool or the model."""
        control = self._pass(name)
        if control is not None:
            await self._apply(control)
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
                self.stopped = self.was_stopped = True
                self._moves_at_stop = self._moves
                live._orchestrator.stop(_STOP_SECONDS)
            else:
                await self._steer()

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
            await self._process.steer(OPERATOR, self._run_id, text)
            self._messages.append((text, len(self.trace.requests) + 1))

    # -- people --------------------------------------------------------------------------------------------------

    async def _reply(self, process: Runtime, waits: Sequence[Wait]) -> bool:
        """Answer the waiting calls. Return whether the process is left before."""
        replies, restart = self._case.replies, False
        self.trace.waited = True
        for wait in waits:
            reply = replies[min(len(self._waits), len(replies) - 1)]
            self._waits.append(wait.key)
            self.trace.events.append(f"a person says {reply!r} to {wait.tool}")
            if reply == "restart" and not self._restarted:
                self._restarted = restart = True
                self._waits.pop()
                continue
            await self._say(process, wait, reply)
        return restart

    async def _say(self, process: Runtime, wait: Wait, reply: str) -> None:
        assert self._hooks is not None
        people = OPERATOR if not wait.who else Scope(self._scope.tenant, wait.who[0])
        for _ in range(2 if reply == "approve twice" else 1):
            with contextlib.suppress(RunStateError):
                if wait.kind == "result":
                    await process.resolve(OPERATOR, wait.key, "the result", failed=reply == "deny")
                elif reply == "deny":
                    await process.deny(people, wait.key, "not now")
                else:
                    edited = json.loads(wait.arguments) if reply == "edit" else None
                    await process.approve(people, wait.key, arguments=edited)
        if wait.kind == "approval":
            self._hooks.watch.said(wait.tool, wait.arguments, "denied" if reply == "deny" else "approved")

    async def _answer_late(self, process: Runtime) -> None:
        """Answer the waits of a run that has ended once more: nothing may come of it."""
        for key in self._waits:
            with contextlib.suppress(RunStateError):
                await process.resolve(OPERATOR, key, "a late result")

    # -- the model -----------------------------------------------------------------------------------------------

    def _answer(self, request: ModelRequest) -> tuple[int, Answer]:
        """Return the model's answer to *request*, and its number."""
        if self.gone:
            return 0, Answer()
        if problem := request_problem(request):
            self.trace.report("request", problem)
        asked = self._canonical(request)
        if INSIDE.get():
            return 0, self._side_answer(request)
        carried = self._carried.get(asked)
        if carried:
            number, answer = carried.pop(0)
        else:
            moves = self._case.moves
            move = moves[min(self._moves, len(moves) - 1)]
            self._moves += 1
            number = self._moves
            self.trace.events.append(move.label)
            self._last_move = move.kind
            answer = scripted(move.answer(request, self._subject.tools, self._user, self._moves), request)
        self._last_said = answer.text
        if asked not in self.trace.requests[-3:]:
            self.trace.requests.append(asked)
        self._sent.setdefault(asked, []).append((number, answer))
        self._check_users(asked)
        if self._moves == _MOST_REQUESTS:
            self._end_endless("the run sends", "requests")
        return number, dataclasses.replace(
            answer, before=lambda: self.point("model"), midway=lambda: self.point("answer")
        )

    def _side_answer(self, request: ModelRequest) -> Answer:
        self._questions += 1
        if self._questions == _MOST_REQUESTS:
            self._end_endless("the hooks and tools of the run ask", "questions")
        return dataclasses.replace(self._noted(request), before=lambda: self.point("question"))

    def _end_endless(self, what: str, of: str) -> None:
        self.trace.report("endless", f"{what} {_MOST_REQUESTS} {of}, and more")
        self.was_stopped = False
        if self._live.done():
            self._live.result().request_stop()

    def _noted(self, request: ModelRequest) -> Answer:
        if request.output_schema is None:
            return Answer(text=f"Noted, said-{self._user}.")
        return Answer(text=json.dumps(value_of(request.output_schema.schema, f"said-{self._user}")))

    def _check_users(self, asked: str) -> None:
        """Report a request with content of another user's run."""
        other = {"ann": "bob", "bob": "ann"}[self._user]
        if any(f"{kind}-{other}" in asked for kind in ("words", "said", "args")):
            self.trace.report("shared", "a request has content of a run of another user")

    def _check_messages(self) -> None:
        """Report a message of the user that a later request lacks."""
        text, since = self._messages[-1]
        assert self._hooks is not None
        admitted = self._hooks.watch.reviewed.get(text, text)
        if admitted is not None and not all(
            json.dumps(admitted)[1:-1] in asked for asked in self.trace.requests[since:]
        ):
            self.trace.report("message", f"a request lacks the message of the user, {text!r:.60}")

    def _canonical(self, request: ModelRequest) -> str:
        messages = [encode_message(each) for each in request.messages]
        form = [request.model, request.system, messages, sorted(spec.name for spec in request.tools)]
        text = json.dumps([*form, str(request.tool_choice)], default=str)
        return text.replace(self._scope.user or "", self._user).replace(self._run_id, RUN_ID)


_HAPPENS = {
    "crash": "the process crashes",
    "stop": "the run is stopped",
    "steer": "the user adds a message",
    "hold": "",
}


def scripted(step: Any, request: ModelRequest) -> Answer:
    """Return one step of a script as an `Answer`."""
    model = ScriptedModel(step)
    return model._answer(request)


def _bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def _limits(inner: LimitsFunction, hook_seconds: float) -> LimitsFunction:
    def limits(scope: Scope, model: Model, agent: Any) -> Limits:
        return dataclasses.replace(inner(scope, model, agent), hook_seconds=hook_seconds)

    return limits


@contextlib.contextmanager
def _folder(needed: bool) -> Iterator[Path | None]:
    if not needed:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="concertino-check-") as folder:
        yield Path(folder)


class _Log(logging.Handler):
    """The text of everything that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record) + "\n"


def _excluded(policy: DataPolicy, tools: Sequence[str], user: str) -> Iterator[tuple[str, str]]:
    """Yield the marks of content that *policy* does not keep, each with its description."""

    def goes(how: Any) -> bool:
        return how != "keep" and not isinstance(how, KeepFor)

    if goes(policy.text):
        yield f"words-{user}", "text of the user"
        yield f"said-{user}", "text of the model"
    if tools and all(goes(policy.tool(name).arguments) for name in tools):
        yield f"args-{user}", "arguments of a tool"
    if tools and all(goes(policy.tool(name).results) for name in tools):
        yield f"results-{user}", "results of a tool"
