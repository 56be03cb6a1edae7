"""Faults 26 to 30: what providers answer, what models ask for and what tools do."""

from __future__ import annotations

from concertino.messages import ToolMessage

from .cast import MISUSES, UNREACHABLE
from .outside import SCRIPTS
from .table import fault
from .world import Case

STATUSES = (408, 429, 500, 503, 529)


@fault(26, "the provider refuses: 408, 429 with and without Retry-After, 500, 503, 529")
async def refused(case: Case) -> None:
    async with case.web():
        many = case.chance.randint(1, 2)
        case.refuse(
            *(
                {"status": case.chance.choice(STATUSES), "retry_after": case.chance.choice([None, 0.02])}
                for _ in range(many)
            )
        )
        turn = await case.send("pay")
        await case.finish()
        assert (await turn.read()).state == "completed"
        assert len(case.calls()) == 2 + many


@fault(26, "the provider's name is unknown, or the TLS handshake fails")
async def unreachable(case: Case) -> None:
    async with case.web():
        turn = await case.send("pay")
        await case.finish(unreachable=case.chance.choice(list(UNREACHABLE)))
        assert (await turn.read()).state == "completed"
        assert len(case.calls()) == 2


@fault(26, "the provider refuses each attempt")
async def refused_always(case: Case) -> None:
    async with case.web():
        case.refuse(*({"status": case.chance.choice(STATUSES)} for _ in range(3)))
        turn = await case.send("pay")
        worker = await case.worker()
        await case.settled()
        assert (await turn.read()).state == "failed"
        assert len(case.calls()) == 3
        again = await case.send("pay")
        await case.settled()
        assert (await again.read()).state == "completed"
        assert await worker.drained()


@fault(27, "the stream is cut or stalls after any piece")
async def broken_stream(case: Case) -> None:
    async with case.web():
        pieces = len(str(SCRIPTS["desk hello"][0]).split())
        at = case.chance.randrange(pieces)
        case.refuse({case.chance.choice(["cut", "stall"]): at})
        turn = await case.send("hello")
        worker = await case.worker(silence=2.0)
        await case.settled()
        stored = await turn.read()
        assert stored.state == ("completed" if at == 0 else "failed"), "a part is never the answer"
        again = await case.send("hello")
        await case.settled()
        assert (await again.read()).answer == SCRIPTS["desk hello"][0]
        assert await worker.drained()


@fault(28, "malformed arguments, an unknown tool, and the same call id twice")
async def odd_calls(case: Case) -> None:
    async with case.web():
        turn = await case.send("odd")
        await case.finish()
        assert (await turn.read()).state == "completed"
        assert len([each for each in await turn.messages() if isinstance(each, ToolMessage)]) == 5


BROKEN = ("raises", "hangs", "hangs in a thread", "ends its child", "exits")


@fault(29, "a tool raises, hangs, hangs in a thread, loses its child process or exits")
async def broken_tool(case: Case) -> None:
    async with case.web():
        turn = await case.send(f"misuse {case.chance.choice(BROKEN)}")
        other = await case.send("pay", "c2")
        worker = await case.worker()
        await case.settled()
        assert {(await each.read()).state for each in (turn, other)} == {"completed"}
        assert await worker.drained()


@fault(30, "a tool returns too much, a cycle, or what no text can be")
async def odd_results(case: Case) -> None:
    async with case.web():
        turn = await case.send(f"misuse {case.chance.choice([how for how in MISUSES if how not in BROKEN])}")
        await case.finish()
        assert (await turn.read()).state == "completed"
