"""DBOS with a SQLite file, the model's answer and the tool's result each a step of its own: two rows a step."""

from __future__ import annotations

import json

from dbos import DBOS

from benchmarks.common import SCRIPT
from benchmarks.peers.dbos_step import DISTRIBUTIONS, TOOLS, Durable

__all__ = ["DISTRIBUTIONS", "build"]


@DBOS.step()
async def ask(messages):
    turn = await SCRIPT.get().next(messages)
    return turn.text, [(call.id, call.name, call.arguments) for call in turn.calls]


@DBOS.step()
async def call(name, arguments):
    return await TOOLS[name](**json.loads(arguments))


@DBOS.workflow()
async def apart():
    history = []
    while True:
        text, calls = await ask(1 + len(history))
        if not calls:
            return text, len(history) // 2 + 1
        ((_id, name, arguments),) = calls
        history += (calls, await call(name, arguments))


class Agent(Durable):
    workflow = staticmethod(apart)


build = Agent
