"""The world outside the workers: the airlines and the provider.

They serve one line of JSON for each connection. They note what they did before they answer, so a worker that is killed
takes nothing along.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from concertino.errors import ToolError
from concertino.messages import ToolMessage
from concertino.storage import decode_message
from concertino.usage import Tokens
from tests.airline.airline import Airline
from tests.airline.conftest import Published
from tests.airline.desk import READS

Json = dict[str, Any]
GOODBYE = "Thank you. Is there anything else?"
HALF_WAY = "So far, so good."
VOID = "this call was given up before it arrived"
REPEATED = ("OUTCOME_UNKNOWN", "approval timed out", VOID)
"""What the results begin with after which the model makes the same call again: it had no effect."""


@dataclass
class Guest:
    """One conversation, with an airline of its own."""

    name: str
    task: str
    steps: list[Json]
    airline: Airline
    bills: list[tuple[int, int, Tokens]] = field(default_factory=list)
    """The provider's log: turn, step of the turn and tokens of each request."""


class Outside:
    """All guests, and what happened."""

    def __init__(self, published: Published, folder: Path, seed: int) -> None:
        self.published = published
        self.calls, self.effects = folder / "calls", folder / "effects"
        """The logs of the provider and of the airlines, as the auditor reads them."""
        self.guests: dict[str, Guest] = {}
        self.answers: dict[str, Json] = {}
        """Of `once` calls, by key."""
        self.voided: set[str] = set()
        """Keys of `once` calls that a probe did not find: they come too late now."""
        self.seen: Counter[str] = Counter()
        self._random = random.Random(seed)

    def guest(self, name: str, task: str) -> Guest:
        """Add a conversation with a published task."""
        made = Guest(name, task, self.published.gold[task]["steps"], Airline(self.published.database))
        self.guests[name] = made
        return made

    @asynccontextmanager
    async def served(self, path: Path) -> AsyncIterator[None]:
        """Serve at a socket within a `with` block."""
        async with await asyncio.start_unix_server(self._serve, path, limit=1 << 24):
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # the worker is dead
            if line := await reader.readline():
                asked = json.loads(line)
                once = asked.get("tool", "calculate") not in READS
                answer = getattr(self, asked.pop("do"))(**asked)
                # Long after an effect, so that workers are killed between it and its record.
                await asyncio.sleep(self._random.uniform(0.01, 1.0 if once else 0.3))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    def execute(self, guest: str, tool: str, arguments: Json, key: str) -> Json:
        """Do the work of a tool's call."""
        once = tool not in READS
        if once and key in self.voided:
            self.seen["late"] += 1
            return {"error": VOID}
        try:
            answer = {"value": copy.deepcopy(getattr(self.guests[guest].airline, tool)(**copy.deepcopy(arguments)))}
        except ToolError as error:
            answer = {"error": str(error)}
        if once:
            self.seen["once"] += 1
            self.answers[key] = answer
        _note(
            self.effects, {"what": "once" if once else "read", "key": key, "tool": tool, "applied": "value" in answer}
        )
        return answer

    def probe(self, key: str) -> Json:
        """Say what came of a `once` call; one that has not come is refused from now on."""
        self.seen["probed"] += 1
        if key not in self.answers:
            self.voided.add(key)
        return self.answers.get(key, {})

    def ask(self, guest: str, turn: int, step: int, messages: list[str]) -> Json:
        """Answer as the model: the next published step; the same one again if it had no effect."""
        found = self.guests[guest]
        tokens = Tokens(prompt=100 + sum(map(len, messages)) // 4, completion=10 + len(found.bills))
        found.bills.append((turn, step, tokens))
        _note(self.calls, {"request": {"messages": messages}, "tokens": [tokens.prompt, tokens.completion]})
        results = [each.content for each in map(decode_message, messages) if isinstance(each, ToolMessage)]
        repeats = [result.startswith(REPEATED) for result in results]
        self.seen["asked"] += 1
        self.seen["repeated"] += any(repeats[-1:])
        done, most = repeats.count(False), len(found.steps) if turn == 2 else len(found.steps) // 2
        answer: Json = {"prompt": tokens.prompt, "completion": tokens.completion}
        if done >= most:
            return answer | {"text": GOODBYE if turn == 2 else HALF_WAY}
        wanted = found.steps[done]
        return answer | {"call": [f"call_{len(results)}", wanted["name"], json.dumps(wanted["arguments"])]}


def _note(log: Path, line: Json) -> None:
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
