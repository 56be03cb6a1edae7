"""DBOS with a SQLite file: a workflow whose step asks the model and runs the tool, so one row a step.

A crash between the answer and the result asks the model again. Its file has a rollback journal, not WAL: its default.
"""

from __future__ import annotations

import json

from dbos import DBOS

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, SCRIPT, Outcome

DISTRIBUTIONS = ("dbos",)
TOOLS = {}
"""Tools by name. Workflows are module functions and find the tool here."""


@DBOS.step()
async def step(messages):
    turn = await SCRIPT.get().next(messages)
    if not turn.calls:
        return turn.text, None
    (call,) = turn.calls
    return [call.id, call.name, call.arguments], await TOOLS[call.name](**json.loads(call.arguments))


@DBOS.workflow()
async def together():
    history = []
    while True:
        answer, result = await step(1 + len(history))
        if result is None:
            return answer, len(history) // 2 + 1
        history += (answer, result)


class Durable:
    workflow = staticmethod(together)

    def __init__(self, tool):
        TOOLS[tool.__name__] = tool

    async def open(self, path):
        DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"})
        DBOS.launch()

    async def run(self):
        text, turns = await self.workflow()
        return Outcome(text, lambda: (turns * PROMPT_TOKENS, turns * COMPLETION_TOKENS))

    async def close(self):
        DBOS.destroy()


build = Durable
