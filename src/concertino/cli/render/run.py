"""The lines of `concertino runs show`, for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...events import StopReceipt
from ...orchestrator.journal.lease import accounts_of
from ...storage.types import Account, StoredRun
from ...usage import UsageRecord, total
from ...waits import Wait
from ..commands.run_state import ALL, Standing, find, own, standing, steps_of, tree_of, with_all_below
from ..context import Desk, Given
from .console import Line
from .format import counted, moment, money, one_line, readable, seconds, tokens, waits_for
from .table import table
from .timeline import Call, Step, Timeline, timeline

_WIDTH = 300
_ERASED = "(erased, as its data policy wants it)"
_STYLES = {"unknown": "yellow", "error": "red", "waiting": "magenta", "open": "cyan"}


def lines_of(picture: Picture) -> Iterator[Line]:
    """Head, agents, steps, waits and receipt."""
    yield from _head(picture)
    yield ("", "")
    yield from _agents(picture)
    yield ("", "")
    yield from _steps(picture)
    if picture.waits:
        yield ("", "")
        yield ("WAITS", "bold")
        for wait in picture.waits:
            yield from _wait(wait, picture.given)
    if picture.receipt is not None:
        yield ("", "")
        yield ("STOPPED", "bold")
        for line in receipt_lines(picture.receipt):
            yield (f"  {line}", "")


def _head(picture: Picture) -> Iterator[Line]:
    run, start, end = picture.run, picture.run.start, picture.run.end
    state = picture.stands.of(run)
    yield (f"{start.run_id}  {state}", "bold")
    yield _field("agent", start.agent_path)
    yield _field("task", start.task or _ERASED)
    user = start.user_id or "(nobody, or erased)"
    who = [user, start.organization_id and f"of {start.organization_id}", start.conversation_id]
    yield _field("who", ", ".join(part for part in who if part))
    took = "" if end is None else f", took {seconds(max(end.ended - start.started, 0.0))}"
    yield _field("started", f"{moment(start.started)} UTC{took}")
    if start.root_id != start.run_id:
        yield _field("part of", start.root_id)
    if start.forked_from is not None:
        yield _field("fork of", start.forked_from)
    if end is not None and end.error:
        yield _field("error", end.error)
    if end is not None:
        yield _field("answer", end.answer or (_ERASED if picture.timeline.erased else "(none)"))
    for account in picture.accounts:
        yield _field("budget", _account(account))
    if state == "interrupted":
        yield _next(f"its process is gone; take it up: {picture.given.resuming(start.root_id)}")
    elif start.root_id in picture.stands.ready:
        yield _next(f"its answers are there; take it up: {picture.given.resuming(start.root_id)}")
    if run.stop and end is None:
        yield _next("it was told to stop")


def _field(name: str, value: str) -> Line:
    return (f"  {name:<9}{one_line(value, _WIDTH)}", "")


def _next(told: str) -> Line:
    return (f"  {'':<9}{one_line(told)}", "")  # whole, for it may have a command in it


def _account(account: Account) -> str:
    parts = []
    if account.budget.tokens is not None:
        parts.append(f"{account.spent_tokens:,} of {tokens(account.budget.tokens)}")
    if account.budget.money is not None:
        parts.append(f"{money(account.spent_money)} of {money(account.budget.money)}")
    reserved = f", {tokens(account.reserved_tokens)} reserved" if account.reserved_tokens else ""
    return f"{account.name}: {' and '.join(parts)} spent{reserved}"


def _agents(picture: Picture) -> list[Line]:
    top = picture.run.start.agent_path.count("/")
    rows: list[tuple[str, ...]] = []
    for one in picture.tree:
        used = own(picture.usage, one)
        sums = total(used)
        name = "  " * (one.start.agent_path.count("/") - top) + one.start.agent_path.rpartition("/")[2]
        figures = (str(steps_of(used)), f"{sums.tokens.total:,}", money(sums.cost))
        rows.append((name, picture.stands.of(one), *figures, one.start.run_id))
    if len(rows) > 1:
        sums = total(picture.usage)
        rows.append(("total", "", "", f"{sums.tokens.total:,}", money(sums.cost), ""))
    return table(("AGENT", "STATE", "STEPS", "TOKENS", "COST", "RUN"), rows, right=("STEPS", "TOKENS", "COST"))


def _steps(picture: Picture) -> Iterator[Line]:
    yield ("STEPS", "bold")
    if not picture.run.entries:
        yield ("  (none on record: it was kept by an older concertino)", "")
    elif not picture.timeline.steps:
        yield ("  (none yet)", "")
    for step in picture.timeline.steps:
        yield from _step(step)
    if picture.timeline.erased:
        yield ("  Some of what the run held was erased, as its data policy wants it.", "dim")


def _step(step: Step) -> Iterator[Line]:
    sums = total(step.usage)
    answered = "no answer" if step.model_seconds is None else f"model {seconds(step.model_seconds)}"
    figures = [seconds(step.seconds), answered, step.model, tokens(sums.tokens.total), money(sums.cost)]
    told = " · ".join(one_line(part) for part in figures if part)
    yield (f"  {step.number:>2}  {_clock(step.at)}  {told}", "")
    if step.lost:
        yield (f"      {counted(len(step.lost), 'attempt')} lost with its process: what it took is unknown", "yellow")
    for call in step.calls:
        yield _call(call)
    for at, note in step.notes:
        yield (f"      {_clock(at)} {note}", "magenta")


def _clock(at: float) -> str:
    return moment(at).partition(" ")[2]


def _call(call: Call) -> Line:
    if not call.name:
        return (f"      erased   a call {_ERASED}", "dim")
    arguments = "(arguments erased)" if call.arguments is None else one_line(readable(call.arguments), 100)
    once = " [once, begun]" if call.begun else ""
    parts = [f"{call.state:<8} {one_line(call.name)}{once}", arguments]
    resolution = call.wait.resolution if call.wait is not None else None
    if resolution is not None:
        parts.append(f"({resolution.verdict}{f' by {one_line(resolution.by)}' if resolution.by else ''})")
    if call.error:
        parts.append(f"- {one_line(call.error, 160)}")
    return ("      " + " ".join(parts), _STYLES.get(call.state, ""))


def _wait(wait: Wait, given: Given) -> Iterator[Line]:
    arguments = one_line(readable(wait.arguments), _WIDTH) if wait.arguments else "(arguments erased)"
    yield (f"  {wait.agent_path}: {wait.tool} {waits_for(wait.kind)}: {arguments}", "magenta")
    if wait.note:
        yield (f"    why       {one_line(wait.note, _WIDTH)}", "")
    yield (f"    key       {wait.key}", "")
    yield (f"    who       {', '.join(map(one_line, wait.who)) or 'anybody'}", "")
    yield (f"    until     {'whenever' if wait.expires is None else moment(wait.expires) + ' UTC'}", "")
    for command in given.answering(wait):
        yield (f"    {one_line(command)}", "")


def receipt_lines(receipt: StopReceipt) -> list[str]:
    """What became of what was going on."""
    named = {
        "stopped": receipt.stopped,
        "could not be stopped": receipt.not_stopped,
        "unknown whether it took effect": receipt.unknown,
    }
    lines = [
        f"{how}: {one_line(work.name)} ({work.what} of {work.agent_path}{', ' + work.call_id if work.call_id else ''})"
        for how, works in named.items()
        for work in works
    ]
    return lines or ["nothing was going on"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that is known of a run."""

    given: Given
    """For the commands that are shown."""
    run: StoredRun
    stands: Standing
    tree: list[StoredRun]
    usage: list[UsageRecord]
    """Of the run and all below it."""
    timeline: Timeline
    waits: list[Wait]
    """Those that are open."""
    accounts: list[Account]
    receipt: StopReceipt | None


async def picture_of(run_id: str, desk: Desk) -> Picture:
    """What the store knows of the run. Raises `UnknownRunError`."""
    store = desk.store
    stands = await standing(store)
    run = await find(desk, run_id)
    start = run.start
    tree = await tree_of(store, run)
    usage = with_all_below(await store.usage(start.root_id), run)
    ids = {one.start.run_id for one in tree}
    waits = [w for w in await store.waits(root_id=start.root_id, open=False, limit=ALL) if w.run_id in ids]
    journal = await store.load(run_id)
    assert journal is not None
    seen = timeline(journal, own(usage, run), waits, interrupted=stands.of(run) == "interrupted")
    names = accounts_of(start.root_id, start.user_id, start.organization_id)
    return Picture(
        given=desk.given,
        run=run,
        stands=stands,
        tree=tree,
        usage=usage,
        timeline=seen,
        waits=[wait for wait in waits if wait.resolution is None],
        accounts=list(await store.accounts(names)),
        receipt=None if seen.receipt is None else StopReceipt.restored(seen.receipt),
    )
