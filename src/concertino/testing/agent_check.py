"""`check_agent`: checks an agent against what the engine expects of agents, in many short runs."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from ..errors import HookError
from ..orchestrator.agent import AgentConfig
from ..orchestrator.hooks import Hooks
from ..orchestrator.resources import Resources
from ..orchestrator.validation import check_agent as checked
from ..orchestrator.validation import registry_of
from ..tools.registry import ToolRegistry
from .checks.alternation import Side, Turns
from .checks.fault import CLASSES, AgentFaultError, CheckReport, Fault, FaultClass
from .checks.origin import Origin
from .checks.play import Play, Subject
from .checks.scenario import REPLIES, WAITS, Control, Move, Scenario, Trace, What
from .port_checks import in_own_loop

T = TypeVar("T")

_TEXT = Move("text")
_PLAIN_MOVES = ("text", "value", "empty", "odd", "unknown", "cut", "busy", "fails")
_WITH_TOOL = ("call", "repeat", "wrong", "broken")
_SHRINKS = 40
"""Cases that shortening one fault may take."""
_STOPS = 8
"""Stops of a run that did not end by itself."""


def check_agent(
    config: AgentConfig[Any],
    *,
    registry: ToolRegistry | None = None,
    message: str = "Please help me.",
    answers: Sequence[Any] = (),
    resources: Resources | None = None,
    cases: int = 300,
    seed: int = 0,
    hook_seconds: float = 5.0,
) -> CheckReport:
    """Check that *config* meets the engine's expectations of agents, whatever happens.

    It plays up to *cases* runs with models that answer well, badly and not at all, and with crashes, restarts, stops,
    messages and answers of people at every moment. Additional runs only stop hooks while they wait. The same *seed*
    plays the same cases. *answers* are steps of a `ScriptedModel` that your agent understands, in addition to text,
    calls and values of its schemas. *message* is the user's message; *registry* and *resources* are those of the
    agent's runs; their model and store are replaced.

    The agent's tools run as they are: give `resources` the `deps` of your tests, or a *registry* of stand-ins. A hook
    that takes longer than *hook_seconds* counts as endless.

    Raises `AgentFaultError`, which names each class of faults with the shortest events that show it, and
    `ConfigurationError` if the agent is invalid. Works with and without a running event loop, which it blocks.
    """
    tools = registry_of(checked(config), registry)
    given = resources or Resources()
    subject = Subject(
        origin=Origin(config),
        name=config.name,
        registry=tools,
        message=message,
        resources=given,
        hook_seconds=hook_seconds,
    )
    explorer = _Explorer(subject, answers, cases, seed)
    in_own_loop(explorer.explore)
    if explorer.faults:
        faults = sorted(explorer.faults.values(), key=lambda fault: CLASSES.index(fault.kind))
        raise AgentFaultError(config.name, faults, explorer.played, seed)
    return CheckReport(explorer.played, len(explorer.points))


class _Explorer:
    """Plays cases from the shortest to the longest, then random ones, and keeps one fault of each class."""

    def __init__(self, subject: Subject, answers: Sequence[Any], cases: int, seed: int) -> None:
        self.faults: dict[FaultClass, Fault] = {}
        self.played = 0
        self.points: set[str] = set()
        self._subject = subject
        self._given = [Move("given", given=each) for each in answers]
        self._most = cases
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._baselines: dict[Scenario, Trace] = {}
        self._hung_in: tuple[Scenario, list[str]] | None = None
        """The case that did not end, and its points."""

    async def explore(self) -> None:
        """Play all cases."""
        main = self._main()
        policy = await self._excludes()
        for case in self._alone():
            await self._judge(case, twice=True, policy=policy)
        for case in main if policy else ():
            await self._judge(case, policy=True)
        await self._at_waits(main)
        await self._people(main)
        await self._side_by_side(main)
        await self._at_points(main)
        while not self._done:
            await self._judge(self._drawn(), shorten=True)
        await self._stops_where_it_hung()
        self._subject.origin.fresh()

    # -- cases ---------------------------------------------------------------------------------------------------

    @property
    def _done(self) -> bool:
        return self._hung_in is not None or self.played >= self._most

    @property
    def _calls(self) -> list[Move]:
        return [Move("call", name) for name in self._subject.tools]

    def _alone(self) -> list[Scenario]:
        """Return the cases in which nothing happens to the run: one answer again and again, and answers before text."""
        moves = [Move(kind) for kind in _PLAIN_MOVES] + self._given
        for name in islice(self._subject.tools, 6):
            moves += [Move(kind, name) for kind in _WITH_TOOL]
        if len(self._subject.tools) > 1:
            moves.append(Move("all"))
        return [Scenario((move,)) for move in moves] + [Scenario((move, _TEXT)) for move in moves if move != _TEXT]

    def _main(self) -> list[Scenario]:
        """Return the cases that crashes, stops and messages are added to: text, and calls of tools before text."""
        calls = [*self._given, *self._calls[:3]]
        found = [Scenario((*calls, _TEXT))] if calls else []
        if len(self._subject.tools) > 1:
            found.append(Scenario((Move("all"), _TEXT)))
        found += [Scenario((_TEXT,)), Scenario((Move("value"), _TEXT)), Scenario((Move("odd"), _TEXT))]
        return found

    async def _people(self, main: Sequence[Scenario]) -> None:
        """Let people answer in other ways, if calls wait."""
        tools = self._subject.tools
        repeated = [Scenario((Move("repeat", name), Move("repeat", name), _TEXT)) for name in tools]
        for case in (*main, *repeated, *(Scenario((Move("twice", name), _TEXT)) for name in tools)):
            if not self._done and (await self._baseline(case)).waited:
                for reply in REPLIES:
                    await self._judge(replace(case, replies=(reply, "approve" if reply != "deny" else "deny")))

    async def _at_waits(self, main: Sequence[Scenario]) -> None:
        """Stop a run where each of its hooks waits, however small the number of cases is."""
        for case in main:
            await self._baseline(case)
        stops: dict[str, Scenario] = {}
        for case, calm in self._baselines.items():
            for number, name in enumerate(calm.points, 1):
                if name.endswith(WAITS):
                    stops.setdefault(name, _with(case, number, "stop"))
        for stop in stops.values():
            if self._hung_in is None:
                await self._play(stop)

    async def _at_points(self, main: Sequence[Scenario]) -> None:
        """Let something happen at each point of the main cases, as many as the number of cases allows."""
        wanted: list[list[Scenario]] = []
        for case in main:
            points = list(enumerate((await self._baseline(case)).points, 1))
            wanted.append(_at_each(case, points))
        rich, plain = wanted[:2], _interleaved(*wanted[2:])
        cases = dict.fromkeys(_interleaved(*rich, plain))
        for case in islice(cases, max((self._most - self.played) * 3 // 4, 0)):
            await self._judge(case)

    async def _stops_where_it_hung(self) -> None:
        """Stop a run that did not end by itself in each of its hooks."""
        if self._hung_in is None:
            return
        case, points = self._hung_in
        hooks = dict.fromkeys(name for name in points if name.startswith("hook"))
        for number in (points.index(name) + 1 for name in islice(hooks, _STOPS)):
            await self._play(_with(case, number, "stop"))

    def _drawn(self) -> Scenario:
        """Return a random case."""
        moves = [Move(kind) for kind in _PLAIN_MOVES] + self._given * 2
        moves += [Move(kind, name) for name in self._subject.tools for kind in ("call", *_WITH_TOOL)]
        drawn = [self._random.choice(moves) for _ in range(self._random.randint(1, 4))]
        points = sorted(self._random.sample(range(1, 40), self._random.randint(0, 2)))
        happens = [Control(n, self._random.choice(("crash", "crash", "stop", "steer"))) for n in points]
        replies = tuple(self._random.choice(REPLIES) for _ in range(2))
        return Scenario((*drawn, _TEXT), tuple(happens), replies)

    # -- judgement -----------------------------------------------------------------------------------------------

    async def _excludes(self) -> bool:
        """Return whether the agent's data policy excludes anything."""
        try:
            return not (await Hooks(self._subject.origin.fresh()).get_data_policy()).keeps_everything
        except HookError:
            return False  # each run has reported it

    async def _baseline(self, case: Scenario) -> Trace:
        if case not in self._baselines:
            self._baselines[case] = await self._play(case)
        return self._baselines[case]

    async def _play(self, case: Scenario, *, shorten: bool = False, **settings: Any) -> Trace:
        """Play *case* and keep the faults that it shows."""
        trace = await self._trace(case, **settings)
        for kind, (problem, events) in trace.found.items():
            if kind not in self.faults:
                self.faults[kind] = Fault(kind, problem, events)
                if shorten:
                    self.faults[kind] = await self._shortened(case, self.faults[kind])
        return trace

    async def _trace(self, case: Scenario, **settings: Any) -> Trace:
        self.played += 1
        trace = await Play(self._subject, case, **settings).run()
        self.points.update(trace.points)
        if "endless" in trace.found or "longer than its limit" in trace.limit:
            self._hung_in = self._hung_in or (case, trace.points)
        _report_endless(case, trace)
        return trace

    async def _judge(self, case: Scenario, *, shorten: bool = False, **settings: Any) -> None:
        """Play *case*, and compare it with the same case without crashes and restarts."""
        if self._done:
            return
        trace = await self._play(case, shorten=shorten, **settings)
        if case not in self._baselines and not case.controls and not settings.get("policy"):
            self._baselines[case] = trace
        crashes = any(control.what == "crash" for control in case.controls) or "restart" in case.replies
        if crashes and "resume" not in self.faults and await self._differs(case, trace):
            fault = Fault("resume", await self._difference(case, trace), tuple(trace.events))
            self.faults["resume"] = await self._shortened(case, fault) if shorten else fault

    async def _differs(self, case: Scenario, trace: Trace) -> bool:
        if trace.unknown or any(control.what != "crash" for control in case.controls):
            return False
        calm = _calm(case)
        before = await self._baseline(calm)
        if trace.outcome == before.outcome:
            return False
        return (await self._trace(calm)).outcome == before.outcome  # else the agent differs from run to run anyway

    async def _difference(self, case: Scenario, trace: Trace) -> str:
        names = ("status", "answer", "state", "requests")
        before = (await self._baseline(_calm(case))).outcome
        differing = [n for n, a, b in zip(names, before, trace.outcome, strict=True) if a != b]
        return f"the run goes on differently after a crash: {', '.join(differing)}"

    async def _side_by_side(self, main: Sequence[Scenario]) -> None:
        """Let the run of another user take place in the same process, before and in the middle of a run."""
        for case in main[:2]:
            alone = await self._baseline(case)
            again = await self._trace(case)
            if again.outcome != alone.outcome:
                continue
            points = [number for number, name in enumerate(alone.points, 1) if not name.endswith(WAITS)]
            most = min(max((self._most - self.played) // 16, 3), 11)
            for point in [None, 0, *points[:: -(-len(points) // most)]]:
                if self._done or "shared" in self.faults:
                    return
                self.played += 2
                subject = self._subject
                trace, other = await (_in_turn(subject, case) if point is None else _both(subject, case, point))
                if trace.outcome != alone.outcome or "shared" in trace.found or "shared" in other.found:
                    where = "at the same time" if point is None else "before"
                    where = f"at {alone.points[point - 1]!r}" if point else where
                    problem = trace.found.get("shared", other.found.get("shared", ("",)))[0]
                    problem = problem or "a run decides differently because of another user's run"
                    events = (f"another user's run takes place {where}", *trace.events)
                    self.faults["shared"] = Fault("shared", problem, events)

    async def _shortened(self, case: Scenario, fault: Fault) -> Fault:
        """Return *fault* with the events of the shortest part of *case* that shows it."""
        left = _SHRINKS
        todo = _smaller(case)
        for smaller in todo:
            left -= 1
            if left < 0:
                break
            trace = await self._trace(smaller)
            if fault.kind == "resume" and await self._differs(smaller, trace):
                return await self._shortened(smaller, replace(fault, events=tuple(trace.events)))
            if fault.kind in trace.found:
                problem, events = trace.found[fault.kind]
                return await self._shortened(smaller, Fault(fault.kind, problem, events))
        return fault


async def _in_turn(subject: Subject, case: Scenario) -> tuple[Trace, Trace]:
    """Play *case* for two users with one config, a point of the one after a point of the other."""
    config, turns, drawn = subject.origin.fresh(), Turns(), random.getstate()

    async def play(user: str, side: Side) -> Trace:
        try:
            return await Play(subject, case, user=user, config=config, turns=(turns, side)).run()
        finally:
            turns.leave(side)

    try:
        return await asyncio.gather(play("ann", 0), play("bob", 1))
    finally:
        random.setstate(drawn)


async def _both(subject: Subject, case: Scenario, point: int) -> tuple[Trace, Trace]:
    """Play *case* and another user's case with one config; the other one while the first waits at *point*."""
    config = subject.origin.fresh()
    held = _with(case, point, "hold") if point else case
    one = Play(subject, held, config=config)
    other = Play(subject, Scenario((*case.moves[-2::-1], _TEXT)), user="bob", config=config)
    if not point:
        trace, after = await other.run(), await one.run()
        subject.of_each_run.update(one.left & other.left)
        return after, trace
    task = asyncio.create_task(one.run())
    holding = asyncio.create_task(one.held.wait())
    await asyncio.wait([task, holding], return_when="FIRST_COMPLETED")
    holding.cancel()
    trace = await other.run()
    one.released.set()
    return await task, trace


def _smaller(case: Scenario) -> Iterator[Scenario]:
    """Yield the cases with one event less."""
    for index in range(len(case.controls)):
        yield replace(case, controls=case.controls[:index] + case.controls[index + 1 :])
    for index in range(len(case.moves)):
        if len(case.moves) > 1:
            yield replace(case, moves=case.moves[:index] + case.moves[index + 1 :])


def _with(case: Scenario, point: int, what: What) -> Scenario:
    """Return *case* in which something happens at a point."""
    return replace(case, controls=(Control(point, what),))


def _at_each(case: Scenario, points: Sequence[tuple[int, str]]) -> list[Scenario]:
    """Return *case* with a crash, a stop or a message at each of its *points*, the most telling ones first."""
    hooks = {name: number for number, name in points if name.startswith("hook") and not name.endswith(WAITS)}
    crashes = dict.fromkeys((*hooks.values(), *_spread([n for n, name in points if not name.endswith(WAITS)])))
    inside = [number for number, name in points if not name.startswith("append:")]
    return _interleaved(
        [_with(case, number, "crash") for number in crashes],
        [_with(case, number, "stop") for number in _spread(inside)],
        [_with(case, number, "steer") for number in _spread(inside[::2])],
    )


def _calm(case: Scenario) -> Scenario:
    """Return *case* without crashes and restarts."""
    replies = tuple("approve" if reply == "restart" else reply for reply in case.replies)
    return replace(case, controls=(), replies=replies)


def _report_endless(case: Scenario, trace: Trace) -> None:
    """Report a run that only a limit of the engine ended, although the model had stopped calling tools."""
    if "longer than its limit" in trace.limit:
        trace.report("endless", trace.limit)
    elif trace.limit and not case.moves[-1].calls and case.moves[-1].kind not in ("busy", "fails"):
        problem = f"the model calls no tools any more, and only a limit of the engine ends the run: {trace.limit}"
        trace.report("endless", problem)


def _spread(items: Sequence[T]) -> list[T]:
    """Return *items* from coarse to fine: the middle, then the middles of both halves, and so on."""
    found, parts = [], deque([items])
    while parts:
        part = parts.popleft()
        if part:
            middle = len(part) // 2
            found.append(part[middle])
            parts += (part[:middle], part[middle + 1 :])
    return found


def _interleaved(*lists: Iterable[T]) -> list[T]:
    """Return the first items of all lists, then the second ones, and so on."""
    found: list[T] = []
    iterators = [iter(each) for each in lists]
    while iterators:
        for iterator in list(iterators):
            for item in islice(iterator, 1):
                found.append(item)
                break
            else:
                iterators.remove(iterator)
    return found
