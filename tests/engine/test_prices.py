"""Prices are loaded off the event loop, before the first attempt of a model ends."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys, threading
from concertino import AgentConfig, Chat, ToolOrchestrator
from concertino.testing import Answer, ScriptedModel

threads = []

def watch(event, args):
    if event == "import" and args[0] == "genai_prices":
        threads.append(threading.current_thread().name)

async def loaded():
    for thread in threading.enumerate():
        if thread.name == "concertino-prices":
            await asyncio.to_thread(thread.join)

sys.addaudithook(watch)
model = ScriptedModel(Answer(text="yes", before=loaded), name="gpt-4o")
model.provider = "openai"
result = asyncio.run(ToolOrchestrator(Chat("go", model=model), AgentConfig()).run())
print(result.usage[0].cost is not None, *threads)
"""


def test_the_first_run_of_a_process_loads_the_prices_in_a_thread() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "concertino-prices"]
