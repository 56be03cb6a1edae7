"""The meter of a run tree, and what an agent decides when a limit is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..errors import LimitError, LimitReason
from ..ids import is_attempt
from ..usage import UsageRecord
from .outcome import CONTINUE, Continue, Limited, NextStep
from .tool_calls.timeouts import shared_deadlines

if TYPE_CHECKING:
    from .hooks import Hooks
    from .journal.snapshot import Booked
    from .resources import Limits
    from .run import RunSession

LAST_STEP_SECONDS = 60.0
"""Seconds for the last step of a run that has used up its time."""
TOKEN = 12
"""Characters that a token has at most, on average over an answer: prose has about 4, indented tables about 8."""
FRAME = 1_024
"""Characters of an answer that no token limit counts, such as the names of its calls."""


class Meter:
    """The work of a run and its sub-agents together, against the limits of the root run.

    The engine compares these numbers in place, before each step, call and sub-agent: a step has no time for more. Each
    open run keeps one model call of `most_model_calls` for its last step, so that every run can end with an answer, and
    the limit is not exceeded.
    """

    __slots__ = (
        "_deadlines",
        "_expire",
        "_limits",
        "_restored",
        "_until",
        "_worked",
        "cost",
        "depth",
        "endings",
        "model_calls",
        "most_model_calls",
        "most_received",
        "most_tool_calls",
        "open_runs",
        "reached",
        "received",
        "sums",
        "tokens",
        "tool_calls",
    )

    def __init__(self, limits: Limits) -> None:
        self.model_calls = 0
        """Attempts at a model, of turns, questions and summaries."""
        self.tool_calls = 0
        self.received = 0
        """Characters of all answers."""
        self.tokens = 0
        self.cost = Decimal(0)
        self.open_runs = 0
        self.endings: dict[str, tuple[int, Decimal]] = {}
        """What the budgets must keep for the last step of each open run, by run id: tokens and US dollars."""
        self.reached: LimitReason | None = None
        """The limit of tokens, money or time that is used up."""
        self._worked = 0.0
        """Seconds that earlier processes worked on the tree."""
        self._until = 0.0
        """The time, by the store's clock, up to which they are known."""
        self._expire: Callable[[], None] | None = None
        self._restored: dict[str, int] = {}
        self._deadlines = shared_deadlines()
        self._limits = limits
        most = limits.tool_calls
        self.most_model_calls = limits.model_calls or max(500, 2 * most)
        self.most_tool_calls = limits.all_tool_calls or max(1_000, 2 * most)
        self.most_received = limits.received
        self.depth = limits.depth
        self.sums = limits.tokens is not None or limits.cost is not None
        """Whether usage must be added up."""

    # -- before an operation -------------------------------------------------------------------------------------

    @property
    def has_model_call(self) -> bool:
        """True if a model call is left in addition to the last steps of the open runs."""
        return self.model_calls + self.open_runs < self.most_model_calls

    def limit(self) -> tuple[LimitReason, str] | None:
        """Return the limit of the tree that allows no further step, and a sentence about it; None if all do."""
        found = self.reached
        if found is None and not self.has_model_call:
            found = "model_calls"
        elif found is None and self.tool_calls >= self.most_tool_calls:
            found = "all_tool_calls"
        elif found is None and self.received >= self.most_received:
            found = "received"
        return None if found is None else (found, self.sentence(found))

    def sentence(self, reason: LimitReason) -> str:
        """Return the message for a limit of the tree that is reached."""
        limits = self._limits
        amounts = {
            "seconds": f"{limits.seconds:g} seconds of work",
            "tokens": f"{limits.tokens or 0:,} tokens",
            "cost": f"${limits.cost}",
            "model_calls": f"{self.most_model_calls:,} model calls",
            "all_tool_calls": f"{self.most_tool_calls:,} tool calls of all agents",
            "received": f"{self.most_received:,} received characters",
        }
        return f"the limit of {amounts[reason]} is reached"

    def refuse_spawn(self, path: str) -> str | None:
        """Return why the agent at *path* may not start a sub-agent; None if it may."""
        if path.count("/") >= self.depth:
            return f"not run: the limit of {self.depth} levels of sub-agents is reached"
        found = self.limit()
        return found and f"not run: {found[1]}"

    def left(self) -> dict[str, Any]:
        """Return what is left of the limits of the tree, as JSON, for a tree that works for one of its calls."""
        limits = self._limits
        found: dict[str, Any] = {
            "depth": limits.depth,
            "seconds": limits.seconds,
            "model_calls": max(1, self.most_model_calls - self.model_calls - self.open_runs),
            "all_tool_calls": max(1, self.most_tool_calls - self.tool_calls),
            "received": max(1, self.most_received - self.received),
        }
        if limits.tokens is not None:
            found["tokens"] = max(1, limits.tokens - self.tokens)
        if limits.cost is not None:
            found["cost"] = str(limits.cost - self.cost)
        return found

    def end_run(self, run_id: str) -> None:
        """Give up what was kept for the last step of a run, which has ended."""
        self.open_runs -= 1
        self.endings.pop(run_id, None)

    # -- usage ---------------------------------------------------------------------------------------------------

    def add(self, record: UsageRecord) -> None:
        """Add the usage of an attempt to the sums, if tokens or money are limited."""
        self.add_sums(record.tokens.total, record.cost or 0)

    def add_sums(self, tokens: int, cost: Decimal | int) -> None:
        """Add usage to the sums, if tokens or money are limited."""
        self.tokens += tokens
        self.cost += cost
        if self._limits.tokens is not None and self.tokens >= self._limits.tokens:
            self.reached = self.reached or "tokens"
        if self._limits.cost is not None and self.cost >= self._limits.cost:
            self.reached = self.reached or "cost"

    # -- time ----------------------------------------------------------------------------------------------------

    def start(self, expire: Callable[[], None]) -> None:
        """Call *expire* once the seconds are used up, and again if the last step takes too long."""
        self._expire = expire
        self._deadlines.add(self, self._limits.seconds - self._worked, self._overdue)

    def stop(self) -> None:
        """Measure no more time."""
        self._expire = None
        self._deadlines.remove(self)

    def _overdue(self) -> None:
        assert self._expire is not None
        self.reached = "seconds"
        self._deadlines.add(self, LAST_STEP_SECONDS, self._overdue)
        self._expire()

    # -- resumption ----------------------------------------------------------------------------------------------

    def restore_usage(self, usage: Iterable[UsageRecord]) -> None:
        """Add what earlier processes used, as the ledger of the tree tells."""
        for record in usage:
            self.model_calls += is_attempt(record.id)
            self.received += record.tokens.completion * 4
            if self.sums:
                self.add(record)

    def restore_sums(self, booked: Booked) -> None:
        """Add what earlier processes used, as a snapshot tells."""
        self.model_calls += booked.model_calls
        self.received += booked.completion * 4
        if self.sums:
            self.add_sums(booked.tokens, booked.cost)

    def restore_run(self, tool_calls: Mapping[str, int], seconds: float = 0.0, until: float = 0.0) -> None:
        """Add the calls and the time of a run in earlier processes, up to *until*, as its journal tells.

        The calls of each agent count once, and so does the time that runs have worked side by side.
        """
        for path, count in tool_calls.items():
            known = self._restored.get(path, 0)
            self._restored[path] = max(known, count)
            self.tool_calls += self._restored[path] - known
        if until > self._until:
            self._worked += min(seconds, until - self._until)
            self._until = until
            if self._expire is not None:
                self.start(self._expire)


async def at_limit(run: RunSession, hooks: Hooks, reason: LimitReason, why: str, last_step: int) -> NextStep:
    """Let the agent decide what happens now that a limit is reached; with `Continue`, *last_step* is the run's last.

    Once per run: a run that has asked its agent before, and cannot go on, ends as it is.
    """
    state = run.state
    state.limit = reason
    run.notify("budget_reached" if reason == "budget" else "limit_reached", why)
    decision = await hooks.on_limit(run.context, reason)
    if not isinstance(decision, Continue):
        return decision
    run.apply(decision)
    state.has_tool_calls = True
    state.last_step = last_step
    return CONTINUE


async def interrupted(run: RunSession, hooks: Hooks, reached: LimitError) -> NextStep | Limited:
    """Return what follows after a limit has interrupted *run*."""
    await run.journal.has_ended()  # finds out whether an append that the limit cancelled was carried out
    if run.state.limit is not None:
        return Limited(str(reached))
    return await at_limit(run, hooks, reached.reason, str(reached), run.state.step + 1)
