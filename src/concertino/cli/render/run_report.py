"""The report of a run: what `concertino runs show` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...events import StopReceipt
from ...records import record
from ...runtime.timeline import Timeline, TimelineAttempt, TimelineCall, TimelineNote, TimelineStep
from ...storage.types import Account, StoredRun
from ...usage import UsageRecord, total
from ...waits import Wait
from .console import table
from .format import compaction, moment, money, one_line, readable, seconds, tokens, waits_for

_WIDTH = 300
_WIDE = 100
"""Columns from which the agents are listed with their run ids."""
_ERASED = "(erased by the data policy)"
_STYLES = {
    "unknown": "yellow",
    "failed": "red",
    "waiting": "magenta",
    "running": "cyan",
    "suspended": "magenta",
    "resumed": "magenta",
    "compaction": "blue",
}


@record(kw_only=True)
class AgentSummary:
    """An agent's run in the tree."""

    run: StoredRun
    state: str
    steps: int
    usage: list[UsageRecord]
    """The run's own records."""


@record(kw_only=True)
class RunReport:
    """Everything that the store knows of a run."""

    agents: list[AgentSummary]
    """The run itself, then its sub-agents."""
    timeline: Timeline
    waits: list[tuple[Wait, tuple[str, ...]]]
    """The open waits with the commands that answer them."""
    accounts: Sequence[Account]
    ready: bool
    """True if the run is suspended and has all its answers."""
    advice: list[str]
    """What to do about the run, with commands."""

    @property
    def run(self) -> StoredRun:
        """The run itself."""
        return self.agents[0].run

    @property
    def usage(self) -> list[UsageRecord]:
        """The records of the run and its sub-agents."""
        return [record for agent in self.agents for record in agent.usage]


def report_blocks(report: RunReport, width: int) -> Iterator[RenderableType]:
    """Yield the head, the agents, the timeline, the open waits and the receipt for a terminal of *width* columns."""
    yield Text(f"{report.run.start.run_id}  {report.agents[0].state}", "bold")
    yield _fields(report)
    yield from (Text(f"  {one_line(advice)}", "yellow") for advice in report.advice)
    yield Text()
    yield _agents(report, with_ids=width >= _WIDE)
    yield from price_lines(report.usage)
    yield from _section("TIMELINE (UTC)", _timeline(report.timeline))
    if report.waits:
        yield from _section("OPEN WAITS", (line for wait, commands in report.waits for line in _wait(wait, commands)))
    if (receipt := report.timeline.receipt) is not None:
        yield from _section("STOPPED", map(Text, receipt_lines(receipt)))


def price_lines(usage: Sequence[UsageRecord]) -> list[Text]:
    """Return a line with the price lists behind the costs, if there is one."""
    prices = sorted({record.price_version for record in usage if record.price_version})
    return [Text(f"prices: {', '.join(prices)}", "dim")] if prices else []


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


def _section(heading: str, lines: Iterator[Text]) -> Iterator[Text]:
    yield Text()
    yield Text(heading, "bold")
    for line in lines:
        yield Text.assemble("  ", line, overflow=line.overflow)


def _fields(report: RunReport) -> Table:
    """Return the run's labelled values; a long one continues in its own column."""
    run, start, end = report.run, report.run.start, report.run.end
    erased = _ERASED if report.timeline.erased else "(none)"
    owner = (start.scope.user or "(no user, or erased)", start.scope.tenant and f"of {start.scope.tenant}")
    took = "" if end is None else f", took {seconds(max(end.ended - start.started, 0.0))}"
    fields = [
        ("agent", start.agent_path),
        ("task", start.task or _ERASED),
        ("user", ", ".join(filter(None, (*owner, start.conversation_id)))),
        ("started", f"{moment(start.started)} UTC{took}"),
        ("process", report.timeline.process),
        ("part of", start.root_id if start.root_id != start.run_id else ""),
        ("fork of", start.forked_from or ""),
        ("reason", run.reason),
        ("error", end.error or "" if end is not None else ""),
        ("answer", end.answer or erased if end is not None else ""),
        *(("budget", _account(account)) for account in report.accounts),
    ]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        if value:
            grid.add_row(f"  {name:<7}", Text(one_line(value, _WIDTH)))
    return grid


def _account(account: Account) -> str:
    parts = []
    if account.budget.tokens is not None:
        parts.append(f"{account.spent_tokens:,} of {tokens(account.budget.tokens)}")
    if account.budget.money is not None:
        parts.append(f"{money(account.spent_money)} of {money(account.budget.money)}")
    reserved = f", {tokens(account.reserved_tokens)} reserved" if account.reserved_tokens else ""
    return f"{account.kind}: {' and '.join(parts)} spent{reserved}"


def _agents(report: RunReport, *, with_ids: bool) -> Table:
    top = report.run.start.agent_path.count("/")
    rows: list[tuple[str, ...]] = []
    for agent in report.agents:
        start, sums = agent.run.start, total(agent.usage)
        name = "  " * (start.agent_path.count("/") - top) + start.agent_path.rpartition("/")[2]
        rows.append((name, agent.state, str(agent.steps), f"{sums.tokens.total:,}", money(sums.cost), start.run_id))
    if len(rows) > 1:
        sums = total(report.usage)
        rows.append(("total", "", "", f"{sums.tokens.total:,}", money(sums.cost), ""))
    heads = ("AGENT", "STATE", "STEPS", "TOKENS", "COST", "RUN")
    shown = len(heads) if with_ids else -1
    return table(heads[:shown], [row[:shown] for row in rows], right=heads[2:5], flexible=("AGENT",))


def _timeline(timeline: Timeline) -> Iterator[Text]:
    if not timeline.steps and not timeline.problem:
        yield Text("(no steps yet)")
    for step in timeline.steps:
        yield from _step(step)
    if timeline.problem:
        yield Text(one_line(timeline.problem), "red")
    if timeline.erased:
        yield Text("The data policy has erased parts of this run.", "dim")


def _step(step: TimelineStep) -> Iterator[Text]:
    sums = total(step.usage)
    used = sums.tokens
    cached = f" ({used.cached:,} cached)" if used.cached else ""
    took = "no answer" if step.model_seconds is None else seconds(step.model_seconds)
    figures = (step.model, money(sums.cost), f"{used.prompt:,} in{cached}, {used.completion:,} out", took)
    line = f"{step.number:>2}  {_clock(step.at)}  {one_line(' · '.join(filter(None, figures)))}"
    yield Text(line, overflow="ellipsis")
    requests = step.requests
    for number, attempt in enumerate(requests[:-1] if step.answered is not None else requests, 1):
        yield from _attempt(number, attempt, last=number == len(requests))
    for attempt in step.attempts:
        if attempt.side:
            yield _line("side call", f"{attempt.model}, {_usage(attempt)}", "dim")
    yield from (_note(note) for note in step.notes if note.label == "compaction")
    for call in step.calls:
        yield from _call(call)
    yield from (_note(note) for note in step.notes if note.label != "compaction")


def note_text(note: TimelineNote) -> str:
    """Describe a note."""
    return compaction(*note.edited) if note.edited else note.text


def _note(note: TimelineNote) -> Text:
    return _line(note.label, f"{note_text(note)}, {_clock(note.at)}", _STYLES.get(note.label, ""))


def _attempt(number: int, attempt: TimelineAttempt, *, last: bool) -> Iterator[Text]:
    """Describe an attempt without an answer: a retry follows unless it is the last one."""
    if attempt.lost:
        yield _line("lost", f"attempt {number} with its process; its usage is unknown", "yellow")
    elif not last:
        reason = f": {attempt.error}" if attempt.error else ""
        yield _line("retry", f"attempt {number} with {attempt.model} failed{reason}; {_usage(attempt)}", "yellow")


def _usage(attempt: TimelineAttempt) -> str:
    if attempt.record is None:
        return "no usage"
    if attempt.record.source == "unknown":
        return "usage unknown"
    return f"{tokens(attempt.record.tokens.total)}, {money(attempt.record.cost)}"


def _call(call: TimelineCall) -> Iterator[Text]:
    if not call.name:
        yield _line(call.state, _ERASED, "dim")
        return
    arguments = "(arguments erased)" if call.arguments is None else readable(call.arguments)
    yield _line(call.state, f"{call.name} {arguments}", _STYLES.get(call.state, ""), shorten=True)
    for wait in call.waits:
        if wait.resolution is not None:
            yield _line("approval" if wait.kind == "approval" else "result", _resolution(wait), "magenta")
    if call.error:
        yield _line("", call.error, "red", shorten=True)


def _resolution(wait: Wait) -> str:
    assert wait.resolution is not None
    verdict = "supplied" if wait.resolution.verdict == "result" else wait.resolution.verdict
    by = f" by {wait.resolution.by}" if wait.resolution.by else ""
    return f"{verdict}{by} after {seconds(max(wait.resolution.at - wait.opened, 0.0))}"


def _wait(wait: Wait, commands: Sequence[str]) -> Iterator[Text]:
    """Describe a waiting call and the *commands* that answer it."""
    arguments = one_line(readable(wait.arguments), _WIDTH) if wait.arguments else "(arguments erased)"
    yield Text(one_line(f"{wait.agent_path}: {wait.tool} {waits_for(wait.kind)}: {arguments}"), "magenta")
    if wait.note:
        yield Text(f"  reason    {one_line(wait.note, _WIDTH)}")
    yield Text(f"  key       {one_line(wait.key)}")
    yield Text(f"  who       {', '.join(map(one_line, wait.who)) or 'anyone'}")
    yield Text(f"  until     {'no deadline' if wait.expires is None else moment(wait.expires) + ' UTC'}")
    yield from (Text(f"  {one_line(command)}") for command in commands)


def _line(label: str, text: str, style: str = "", *, shorten: bool = False) -> Text:
    """Return a line of a step; *shorten* it where it does not fit the terminal."""
    return Text(f"    {label:<11}{one_line(text, _WIDTH)}", style, overflow="ellipsis" if shorten else None)


def _clock(at: float) -> str:
    return moment(at).partition(" ")[2]
