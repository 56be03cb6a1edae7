"""The world outside of the faults, in processes that no fault hits.

    python -m tests.faults.outside effects|provider SOCKET

The receiver of effects is that of the crash tests. The provider answers by its agent, the first word of the last
message of the user, and how often it has answered since. A file `refusals` in the folder of a case lists what it does
instead, for one request each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.crash.outside import Say, effect, serve, write_line

Call = tuple[str, Any]
Turn = list[Call] | str


def _at(place: int) -> dict[str, Any]:
    return {"place": place}


WAITS: Turn = [("await_result", _at(number)) for number in range(3)]
SCRIPTS: dict[str, list[Turn]] = {
    "desk work": [
        [
            ("look", _at(1)),
            ("note", _at(2)),
            ("pay", _at(3)),
            ("mail", _at(4)),
            ("child", {"query": "one"}),
            ("clerk", {"query": "two"}),
        ],
        [("pay", _at(5)), ("look", _at(6))],
        "the work is done",
    ],
    "desk pay": [[("look", _at(1)), ("note", _at(2)), ("pay", _at(3)), ("mail", _at(4))], "all is paid"],
    "desk hello": ["hello to you too, and a good day"],
    "desk wait": [WAITS, "the waits are over"],
    "desk sign": [[("sign", _at(1))], "that was signed"],
    "desk hold": [[("note", _at(1)), ("hold", _at(2))], "no longer held"],
    "desk ask": [[("clerk", {"query": "two"})], "the clerk has answered"],
    "desk poison": [[("poison", _at(1))], "nobody gets here"],
    "desk odd": [
        [
            ("look", "{not JSON"),
            ("invented", _at(2)),
            ("look", {"place": "nowhere"}),
            ("look", _at(4)),
            ("look", _at(5)),
        ],
        "that was odd",
    ],
    "child": [[("note", _at(1)), ("mail", _at(2))], "the child is done"],
    "clerk": [[("sign", _at(1)), ("look", _at(2))], "the clerk is done"],
}
"""By agent, and the first word of the message: what the model says in each step."""
TWICE = "the same id"
"""The id of both last calls of `odd`."""
_numbers = count(1)


async def answer(asked: dict[str, Any], say: Say) -> None:
    """Answer as a model, or refuse."""
    request = asked["request"]
    refusal = _refusal(Path(asked["log"]).with_name("refusals"))
    if "status" in refusal:
        write_line(asked["log"], {"request": request, "tokens": None})
        await say({"status": refusal["status"], "retry_after": refusal.get("retry_after")})
        return
    tokens = [100 + len(request["messages"]), next(_numbers)]  # no two answers have the same usage
    write_line(asked["log"], {"request": request, "tokens": tokens})
    turn, step, agent = _turn(request)
    words = (turn if isinstance(turn, str) else f"step {step + 1} of {agent}").split()
    for number, word in enumerate(words):
        if refusal.get("cut") == number:
            return
        if refusal.get("stall") == number:
            await asyncio.Event().wait()
        await say({"text": f" {word}" if number else word})
        await asyncio.sleep(0.0005)
    calls = [] if isinstance(turn, str) else _calls(turn, f"{agent}-{len(request['messages'])}")
    await say({"end": True, "text": " ".join(words), "calls": calls, "tokens": tokens})


def _turn(request: dict[str, Any]) -> tuple[Turn, int, str]:
    """Return what the model says, how often it has answered the message, and the agent."""
    agent = request["system"].split()[3].strip(".")
    messages = [json.loads(text) for text in request["messages"]]
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    step = sum(message["role"] == "assistant" for message in messages[last:])
    word, *more = messages[last]["text"].split()
    if word == "misuse":
        return [[("misuse", {"how": " ".join(more)})], "that was misused"][step], step, agent
    return SCRIPTS[agent if agent in SCRIPTS else f"{agent} {word}"][step], step, agent


def _calls(turn: list[Call], prefix: str) -> list[list[str]]:
    made = []
    for number, (name, given) in enumerate(turn):
        arguments = given if isinstance(given, str) else json.dumps(given)
        made.append([f"{prefix}-{number}", name, arguments])
    if any(name == "invented" for name, _ in turn):
        made[-1][0] = made[-2][0] = TWICE
    return made


def _refusal(path: Path) -> dict[str, Any]:
    """Take the first refusal of a case."""
    if not path.exists():
        return {}
    first, *left = json.loads(path.read_text())
    path.write_text(json.dumps(left)) if left else path.unlink()
    return dict(first)


if __name__ == "__main__":
    asyncio.run(serve({"effects": effect, "provider": answer}[sys.argv[1]], sys.argv[2]))
