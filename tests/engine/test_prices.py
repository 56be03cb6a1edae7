"""Prices are loaded off the event loop, before the first attempt of a model ends; reports outlive their function."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Resources, Tokens, ToolOrchestrator
from concertino.events import Notice
from concertino.testing import ScriptedModel

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


class PriceList:
    """A product's prices behind a lock, which can be neither copied nor pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def price(self, provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal | None, str]:
        with self._lock:
            return Decimal(tokens.prompt), "v1"


async def test_a_result_is_copied_and_pickled_with_its_costs() -> None:
    resources = Resources(price=PriceList().price)
    result = await ToolOrchestrator(Chat("go", model=ScriptedModel("yes")), AgentConfig(), resources=resources).run()
    for copied in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert copied == result
        assert (copied.report.cost, copied.report.untrimmed_cost) == (10, 10)
    assert [sent for sent, *_ in dataclasses.asdict(result)["report"]["billed"]] == [10]


def _fails(*_: object) -> Any:
    raise ZeroDivisionError("no table")


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        (_fails, "raised ZeroDivisionError: no table"),
        (lambda model: (Decimal(1), "ours"), "raised TypeError"),
        (lambda *_: 0.5, "raised TypeError: cannot unpack"),
        (lambda *_: (0.5, "ours"), "returned (0.5, 'ours')"),
        (lambda *_: (Decimal(1), None), "returned (Decimal('1'), None)"),
    ],
)
async def test_an_attempt_is_booked_without_a_cost_if_the_function_of_prices_fails(
    price: Callable[..., Any], problem: str
) -> None:
    run = ToolOrchestrator(Chat("go", model=ScriptedModel("yes")), AgentConfig(), resources=Resources(price=price))
    (notice,) = [event async for event in run.stream() if isinstance(event, Notice)]
    assert notice.code == "price_failed"
    assert problem in notice.text
    assert "return a Decimal" in notice.text
    assert (run.result.status, run.result.text) == ("completed", "yes")
    ((record,),) = (run.result.usage,)
    assert (record.cost, record.tokens.prompt, record.source) == (None, 10, "measured")
    assert run.result.report is not None
    assert run.result.report.cost is None
