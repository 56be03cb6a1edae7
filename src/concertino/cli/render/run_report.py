"""The report of a run: what `concertino runs show` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from ...events import StopReceipt
from ...storage.types import Account, StoredRun
from ...usage import UsageRecord, total
from ...waits import Wait
from .format import counted, moment, money, one_line, readable, seconds, tokens
from .table import table
from .timeline import Timeline, TimelineCall, TimelineStep
from .wait import wait_lines

_WIDTH = 300
_ERASED = "(erased by the data policy)"
_STYLES = {"unknown": "yellow", "error": "red", "waiting": "magenta", "open": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary:
    """One agent's run in the tree."""

    run: StoredRun
    state: str
    steps: int
    usage: list[UsageRecord]
    """The run's own records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything that the store knows of a run."""

    agents: list[AgentSummary]
    """The run itself, then its sub-agents."""
    timeline: Timeline
    waits: list[tuple[Wait, tuple[str, ...]]]
    """The open waits with the commands that answer them."""
    accounts: list[Account]
    receipt: StopReceipt | None
    """The receipt of a stop."""
    ready: bool
    """Whether the run is suspended and has all its answers."""
    resume_command: str

    @property
    def run(self) -> StoredRun:
        """The run itself."""
        return self.agents[0].run

    @property
    def usage(self) -> list[UsageRecord]:
        """The records of the run and its sub-agents."""
        return [record for agent in self.agents for record in agent.usage]


def report_blocks(report: RunReport) -> Iterator[RenderableType]:
    """Yield the head, the agents, the timeline, the open waits and the receipt."""
    yield from _head(report)
    yield Text()
    yield _agents(report)
    prices = sorted({record.price_version for record in report.usage if record.price_version})
    if prices:
        yield Text(f"prices: {', '.join(prices)}", "dim")
    yield Text()
    yield from _timeline(report)
    if report.waits:
        yield Text()
        yield Text("OPEN WAITS", "bold")
        for wait, commands in report.waits:
            yield from (_indented(line) for line in wait_lines(wait, commands))
    if report.receipt is not None:
        yield Text()
        yield Text("STOPPED", "bold")
        yield from (Text(f"  {line}") for line in receipt_lines(report.receipt))


def receipt_lines(receipt: StopReceipt) -> list[str]:
    """Describe the fate of the operations that a stop found open."""
    fates = {
        "stopped": receipt.stopped,
        "could not be stopped": receipt.not_stopped,
        "unknown whether it took effect": receipt.unknown,
    }
    lines = [
        one_line(f"{fate}: {one.name} ({one.what} of {one.agent_path}{', ' + one.call_id if one.call_id else ''})")
        for fate, operations in fates.items()
        for one in operations
    ]
    return lines or ["nothing was running"]


def _head(report: RunReport) -> Iterator[Text]:
    run, start, end = report.run, report.run.start, report.run.end
    state = report.agents[0].state
    yield Text(f"{start.run_id}  {state}", "bold")
    yield _field("agent", start.agent_path)
    yield _field("task", start.task or _ERASED)
    user = start.user_id or "(no user, or erased)"
    owner = [user, start.organization_id and f"of {start.organization_id}", start.conversation_id]
    yield _field("user", ", ".join(part for part in owner if part))
    took = "" if end is None else f", took {seconds(max(end.ended - start.started, 0.0))}"
    yield _field("started", f"{moment(start.started)} UTC{took}")
    if start.root_id != start.run_id:
        yield _field("part of", start.root_id)
    if start.forked_from is not None:
        yield _field("fork of", start.forked_from)
    if end is not None and end.error:
        yield _field("error", end.error)
    if end is not None:
        yield _field("answer", end.answer or (_ERASED if report.timeline.erased else "(none)"))
    for account in report.accounts:
        yield _field("budget", _account(account))
    if state == "interrupted":
        yield _field("", f"its process has ended; resume it: {report.resume_command}", whole=True)
    elif report.ready:
        yield _field("", f"all answers have arrived; resume it: {report.resume_command}", whole=True)
    if run.stop and end is None:
        yield _field("", "a stop was requested")


def _field(name: str, value: str, *, whole: bool = False) -> Text:
    return Text(f"  {name:<9}{one_line(value, 0 if whole else _WIDTH)}")


def _indented(line: Text) -> Text:
    return Text.assemble("  ", line)


def _account(account: Account) -> str:
    parts = []
    if account.budget.tokens is not None:
        parts.append(f"{account.spent_tokens:,} of {tokens(account.budget.tokens)}")
    if account.budget.money is not None:
        parts.append(f"{money(account.spent_money)} of {money(account.budget.money)}")
    reserved = f", {tokens(account.reserved_tokens)} reserved" if account.reserved_tokens else ""
    return f"{account.name}: {' and '.join(parts)} spent{reserved}"


def _agents(report: RunReport) -> RenderableType:
    top = report.run.start.agent_path.count("/")
    rows: list[tuple[str, ...]] = []
    for agent in report.agents:
        start, sums = agent.run.start, total(agent.usage)
        name = "  " * (start.agent_path.count("/") - top) + start.agent_path.rpartition("/")[2]
        figures = (str(agent.steps), f"{sums.tokens.total:,}", money(sums.cost))
        rows.append((name, agent.state, *figures, start.run_id))
    if len(rows) > 1:
        sums = total(report.usage)
        rows.append(("total", "", "", f"{sums.tokens.total:,}", money(sums.cost), ""))
    return table(("AGENT", "STATE", "STEPS", "TOKENS", "COST", "RUN"), rows, right=("STEPS", "TOKENS", "COST"))


def _timeline(report: RunReport) -> Iterator[Text]:
    yield Text("TIMELINE", "bold")
    if not report.run.entries:
        yield Text("  (not recorded by the version that stored this run)")
    elif not report.timeline.steps:
        yield Text("  (no steps yet)")
    for step in report.timeline.steps:
        yield from _step(step)
    if report.timeline.erased:
        yield Text("  The data policy has erased parts of this run.", "dim")


def _step(step: TimelineStep) -> Iterator[Text]:
    sums = total(step.usage)
    answered = "no answer" if step.model_seconds is None else f"model {seconds(step.model_seconds)}"
    figures = [seconds(step.seconds), answered, step.model, tokens(sums.tokens.total), money(sums.cost)]
    yield Text(f"  {step.number:>2}  {_clock(step.at)}  {' · '.join(one_line(part) for part in figures if part)}")
    if step.lost:
        yield Text(f"      {counted(len(step.lost), 'attempt')} lost with its process: its usage is unknown", "yellow")
    for call in step.calls:
        yield _call(call)
    for at, note in step.notes:
        yield Text(f"      {_clock(at)} {note}", "magenta")


def _clock(at: float) -> str:
    return moment(at).partition(" ")[2]


def _call(call: TimelineCall) -> Text:
    if not call.name:
        return Text(f"      erased   a call {_ERASED}", "dim")
    arguments = "(arguments erased)" if call.arguments is None else one_line(readable(call.arguments), 100)
    once = " [once, begun]" if call.begun else ""
    parts = [f"{call.state:<8} {one_line(call.name)}{once}", arguments]
    resolution = call.wait.resolution if call.wait is not None else None
    if resolution is not None:
        parts.append(f"({resolution.verdict}{f' by {one_line(resolution.by)}' if resolution.by else ''})")
    if call.error:
        parts.append(f"- {one_line(call.error, 160)}")
    return Text("      " + " ".join(parts), _STYLES.get(call.state, ""))
