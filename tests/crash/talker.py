"""A conversation of two messages, killed at each point in turn, and what another process makes of it.

    python -m tests.crash.talker FOLDER

prints a line of JSON for each point: its name, the messages that were accepted before it, and the turns after recovery.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from concertino import AgentConfig, ModelRequest, Resources, Runtime, Scope, SqliteStore, UserMessage
from concertino.testing import Answer, FaultyModel, FaultyStore, Points, ScriptedModel

ANN = Scope("acme", "ann")
MESSAGES = ("one", "two")


class Desk(AgentConfig[None]):
    """It answers with what it is sent."""

    name = "desk"


def echo(request: ModelRequest) -> str:
    """The user's messages."""
    return " ".join(message.text for message in request.messages if isinstance(message, UserMessage))


async def talk(folder: Path, nth: int) -> None:
    """Send both messages, the second during the first one's turn. Die at the *nth* point."""
    passed = 0

    def at(name: str, number: int) -> None:
        nonlocal passed
        if number and name.startswith(("append", "queue_turn", "model", "release")):
            passed += 1
            if passed == nth:
                note(folder, "point", name)
                os.kill(os.getpid(), signal.SIGKILL)

    sent = asyncio.Event()
    points, script = Points(at), ScriptedModel(Answer(text="one", midway=sent.wait), *[echo] * 5)
    opened = await SqliteStore.open(folder / "talk.db")
    resources = Resources(store=FaultyStore(opened, points), model=FaultyModel(script, points))
    async with Runtime([Desk()], resources, sweep=0.02) as runtime:
        conversation = await runtime.conversation(ANN, "c", agent="desk")
        for message in MESSAGES:
            turn = await conversation.send(message, key=message)
            note(folder, "accepted", message)
        sent.set()
        await turn.result()
    await opened.close()


async def recover(folder: Path) -> None:
    """Let the watchdog do what is left, then send both messages again, as a client does that was not answered."""
    async with await SqliteStore.open(folder / "talk.db") as store:
        resources = Resources(store=store, model=ScriptedModel(*[echo] * 5))
        async with Runtime([Desk()], resources, sweep=0.02) as runtime:
            conversation = await runtime.conversation(ANN, "c", agent="desk")
            while (await conversation.read()).busy:  # noqa: ASYNC110 - the watchdog does not announce what it does
                await asyncio.sleep(0.005)
            note(folder, "left", [turn.message for turn in await conversation.turns()])
            for message in MESSAGES:
                await (await conversation.send(message, key=message)).result()
            note(folder, "turns", [[turn.message, turn.answer, turn.state] for turn in await conversation.turns()])
            note(folder, "all", len(await store.all_turns(ANN, "c")))


def note(folder: Path, name: str, value: Any) -> None:
    """Write a line that survives a kill."""
    with (folder / "notes").open("a") as notes:
        notes.write(json.dumps([name, value]) + "\n")


def live(work: Any) -> bool:
    """Do *work* in a process of its own. Return whether it came to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(work)
        finally:
            os._exit(0)
    work.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def main(folder: Path) -> None:
    """Kill at the first point, at the second, and so on, until no life passes so many."""
    for nth in range(1, 200):
        place = folder / str(nth)
        place.mkdir()
        survived = live(talk(place, nth))
        live(recover(place))
        notes = [json.loads(line) for line in (place / "notes").read_text().splitlines()]
        found: dict[str, Any] = {"accepted": [value for name, value in notes if name == "accepted"]}
        found |= {name: value for name, value in notes if name != "accepted"}
        print(json.dumps({"killed": not survived, **found}), flush=True)
        if survived:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
