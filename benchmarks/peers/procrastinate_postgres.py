"""procrastinate: each step is a job, which defers the next one with its result.

It is a queue without a journal: the history is in the process, so a crash loses it. These are the least rows of a step.
"""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

from procrastinate import App, PsycopgConnector

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, SCRIPT, Outcome

DISTRIBUTIONS = ("procrastinate",)


class Postgres:
    def __init__(self, tool):
        self.tool = tool
        self.runs = {}
        """By run: its script, its history and the future of its text."""

    async def open(self, path):
        self.app = App(connector=PsycopgConnector(conninfo=path))
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()
        self.step = self.app.task(name="step")(self.do_step)
        # A bell that rings while the worker looks for jobs is lost: by default, the next job then waits five seconds.
        self.worker = asyncio.create_task(
            self.app.run_worker_async(
                concurrency=50, fetch_job_polling_interval=0.02, install_signal_handlers=False, delete_jobs="never"
            )
        )

    async def do_step(self, run, result):
        script, history, text = self.runs[run]
        if result is not None:
            history.append(result)
        turn = await script.next(1 + len(history))
        if not turn.calls:
            text.set_result(turn.text)
            return
        (call,) = turn.calls
        history.append([call.id, call.name, call.arguments])
        await self.step.defer_async(run=run, result=await self.tool(**json.loads(call.arguments)))

    async def run(self):
        run, history, text = str(uuid4()), [], asyncio.get_running_loop().create_future()
        self.runs[run] = SCRIPT.get(), history, text
        await self.step.defer_async(run=run, result=None)
        found, turns = await text, len(history) // 2 + 1
        return Outcome(found, lambda: (turns * PROMPT_TOKENS, turns * COMPLETION_TOKENS))

    async def close(self):
        self.worker.cancel()
        await asyncio.gather(self.worker, return_exceptions=True)
        await self.app.close_async()


build = Postgres
