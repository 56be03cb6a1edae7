"""What must hold after a soak."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg

from concertino import OPERATOR, Runtime, Scope
from concertino.messages import ToolMessage
from concertino.usage import Tokens
from tests.auditor import audit as invariants

from .desk import LEASE
from .heartbeat import Starvation
from .outside import GOODBYE, HALF_WAY, REPEATED, Guest
from .record import AWAY, Late, Record

_STARTS = """
    SELECT r.number, t.number, r.started, t.created,
        lag(h.ended) OVER (PARTITION BY t.conversation ORDER BY r.number) AS before
    FROM concertino.turns AS t JOIN concertino.runs AS r ON r.number = t.run JOIN concertino.heads AS h ON h.run = t.run
"""
_EXPIRED = """
    SELECT w.run, a.at, w.expires FROM concertino.answers AS a JOIN concertino.waits AS w USING (key)
    WHERE a.verdict = 'expired'
"""


async def audit(record: Record, web: Runtime) -> list[str]:
    """Return what does not hold. Unknown usage is settled with the provider's log on the way."""
    outside, accepted = record.outside, [run for runs in record.turns.values() for run in runs]
    found = await invariants(record.database, outside.calls, outside.effects, accepted=accepted)
    return [
        *map(str, found),
        *[f"{name}: {each}" for name in record.turns async for each in _conversation(record, web, name)],
    ]


def lateness(record: Record, machine: Starvation) -> dict[str, list[Late]]:
    """Return how late things came; while the database was away, nothing is late."""
    back = [(begin, end) for begin, end, name in record.happened if name == AWAY]

    def late(at: float, due: float, about: str) -> Late:
        since = max([due, *(end for begin, end in back if begin <= at and due <= end)])
        return Late(at - since, machine.between(since, at), f"{about}; {record.between(due, at)}")

    with psycopg.connect(record.database) as connection:
        starts = connection.execute(_STARTS.encode()).fetchall()
        expired = connection.execute(_EXPIRED.encode()).fetchall()
    return {
        "claims of due runs": [
            late(at, due, f"run {run}: {seen}") for (run, due), (at, seen) in record.untaken.items()
        ],
        "starts of turns": [
            late(at, max([due, before or 0.0, *_lost_claims(record, turn, at)]), f"run {run}")
            for run, turn, at, due, before in starts
        ],
        "ends of waits": [late(at, due, f"run {run}") for run, at, due in expired],
    }


def _lost_claims(record: Record, turn: int, at: float) -> list[float]:
    """Return the ends of the claims on a turn before its start that killed workers have had."""
    return [end for end in record.claims.get(turn, ()) if end <= at and record.kills(end - LEASE, end)]


async def _conversation(record: Record, web: Runtime, name: str) -> AsyncIterator[str]:
    guest, scope = record.outside.guests[name], Scope(tenant="airline", user=name)
    conversation = await web.conversation(scope, name)
    turns = (await conversation.turns())[::-1]
    said = [(turn.state, turn.error or turn.answer) for turn in turns]
    if said != [("completed", HALF_WAY), ("completed", GOODBYE)]:
        yield f"the turns are {said}"
    if guest.airline.database != record.outside.published.expected(guest.task):
        yield f"the database of task {guest.task} is wrong"
    messages = [message for turn in turns for message in await (await conversation.turn(turn.run_id)).messages()]
    results = [(each.content, each.is_error) for each in messages if isinstance(each, ToolMessage)]
    steps = [(step["content"], step["error"]) for step in guest.steps]
    if [result for result in results if not result[0].startswith(REPEATED)] != steps:
        yield f"the results are not those of task {guest.task}"
    paid = Tokens()
    for number, turn in enumerate(turns, 1):
        for problem in await _settle(web, guest, number, turn.run_id):
            yield problem
        paid = sum((booked.tokens for booked in await web.store.usage(OPERATOR, turn.run_id)), paid)
    if paid != (billed := sum((tokens for _, _, tokens in guest.bills), Tokens())):
        yield f"the ledger has {paid}, and the provider billed {billed}"


async def _settle(web: Runtime, guest: Guest, turn: int, run_id: str) -> list[str]:
    """Compare the ledger of a turn with the provider's log, and settle what is unknown with it."""
    problems, unbilled = [], Counter((step, tokens) for at, step, tokens in guest.bills if at == turn)
    booked = await web.store.usage(OPERATOR, run_id)
    for each in booked:
        if each.source == "measured":
            billed = int(each.id.split(":")[1]), each.tokens
            if not unbilled[billed]:
                problems.append(f"{each.id} has {each.tokens}, and no such answer was billed")
            unbilled -= Counter([billed])
    left = list(unbilled.elements())
    for each in booked:
        if each.source != "measured":
            step = int(each.id.split(":")[1])
            found = next((bill for bill in left if bill[0] == step), None)  # None: it was killed before it asked
            if found is not None:
                left.remove(found)
            await web.settle_usage(OPERATOR, replace(each, tokens=found[1] if found else Tokens(), source="measured"))
    return [*problems, *(f"turn {turn}, step {step}: {tokens} were billed and not booked" for step, tokens in left)]
