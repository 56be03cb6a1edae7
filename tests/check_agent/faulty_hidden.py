"""Agents whose faults hide: in threads, in other variables than their own, in one tool, behind a stop."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from contextlib import suppress
from typing import Any

from concertino import AssistantMessage, DataPolicy, ModelRequest, SystemMessage, Text, ToolCall, ToolData, Turn
from concertino.messages import ToolMessage

from .kit import Base, faulty

# -- resume: what a new process does not have --------------------------------------------------------------------------


class Counting(Base):
    """Tells how many steps it has counted."""

    def count(self, run_id: str) -> None:
        raise NotImplementedError

    def counted(self, run_id: str) -> int:
        raise NotImplementedError

    def after_step(self, run: Any, outcome: Any) -> Any:
        self.count(run.id)
        return outcome

    def conclude(self, run: Any, text: str) -> str:
        return f"{text} ({self.counted(run.id)} steps)"


@faulty("resume")
class CountsInTheThread(Counting):
    local = threading.local()

    def count(self, run_id: str) -> None:
        vars(self.local)[run_id] = self.counted(run_id) + 1

    def counted(self, run_id: str) -> int:
        return int(vars(self.local).get(run_id, 0))


@faulty("resume")
class CountsByName(Counting):
    def count(self, run_id: str) -> None:
        globals().setdefault("STEPS", {})[run_id] = self.counted(run_id) + 1

    def counted(self, run_id: str) -> int:
        return int(globals().get("STEPS", {}).get(run_id, 0))


@faulty("resume")
class CountsInAFunction(Counting):
    def count(self, run_id: str) -> None:
        vars(CountsInAFunction.count)[run_id] = self.counted(run_id) + 1

    def counted(self, run_id: str) -> int:
        return int(vars(CountsInAFunction.count).get(run_id, 0))


class Counter:
    """A helper with a lock, which cannot be copied."""

    numbers: dict[str, int] = {}
    lock = threading.Lock()

    @classmethod
    def add(cls, name: str) -> None:
        with cls.lock:
            cls.numbers[name] = cls.numbers.get(name, 0) + 1


@faulty("resume")
class CountsInAHelper(Counting):
    def count(self, run_id: str) -> None:
        Counter.add(run_id)

    def counted(self, run_id: str) -> int:
        return Counter.numbers.get(run_id, 0)


@faulty("resume")
class CountsInTheEnvironment(Counting):
    def count(self, run_id: str) -> None:
        os.environ[f"STEPS_{run_id}"] = str(self.counted(run_id) + 1)

    def counted(self, run_id: str) -> int:
        return int(os.environ.get(f"STEPS_{run_id}", "0"))


@faulty("resume")
class CountsInAQueue(Counting):
    def __init__(self) -> None:
        self.steps: queue.Queue[str] = queue.Queue()

    def count(self, run_id: str) -> None:
        self.steps.put(run_id)

    def counted(self, run_id: str) -> int:
        return list(self.steps.queue).count(run_id)


@faulty("resume")
class CountsInNewAttributes(Counting):
    def count(self, run_id: str) -> None:
        setattr(type(self), f"steps_{run_id}", self.counted(run_id) + 1)

    def counted(self, run_id: str) -> int:
        return int(getattr(type(self), f"steps_{run_id}", 0))


# -- stop --------------------------------------------------------------------------------------------------------------


@faulty("stop")
class LeavesItsWork(Base):
    async def conclude(self, run: Any, text: str) -> str:
        ready = asyncio.Event()
        work = asyncio.create_task(ready.wait())
        await asyncio.sleep(0.01)
        ready.set()
        await asyncio.shield(work)
        return text


@faulty("stop")
class WorksOnInFinally(Base):
    async def prepare(self, run: Any) -> list[SystemMessage]:
        stopped = True
        try:
            await asyncio.sleep(0.01)
            stopped = False
        finally:
            await asyncio.sleep(600 if stopped else 0)
        return []


@faulty("stop")
class RaisesAnother(Base):
    async def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        await asyncio.sleep(0)
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            raise RuntimeError("interrupted") from None
        return request


# -- blocking ----------------------------------------------------------------------------------------------------------


@faulty("blocking")
class JoinsAThread(Base):
    def conclude(self, run: Any, text: str) -> str:
        thread = threading.Thread(target=time.sleep, args=(0.05,))
        thread.start()
        thread.join()
        return text


@faulty("blocking")
class WaitsForAnEvent(Base):
    def after_step(self, run: Any, outcome: Any) -> Any:
        threading.Event().wait(0.001)
        return outcome


@faulty("blocking")
class WaitsForAQueue(Base):
    async def prepare(self, run: Any) -> list[SystemMessage]:
        with suppress(queue.Empty):
            queue.SimpleQueue[int]().get(timeout=0.001)
        return []


@faulty("blocking")
class WaitsForALock(Base):
    def should_send_tools(self, run: Any) -> bool:
        lock = threading.Lock()
        with lock:
            lock.acquire(timeout=0.001)
        return True


@faulty("blocking")
class ReadsTheClock(Base):
    def should_send_tools(self, run: Any) -> bool:
        for _ in range(5_000):
            time.monotonic()
        return True


# -- policy ------------------------------------------------------------------------------------------------------------


@faulty("policy")
class ShowsOneTool(Base):
    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(tools={"pay": ToolData(arguments="redact", results="redact")})

    def handle_special_tools(self, run: Any, call: ToolCall, outcome: Any) -> None:
        run.emit("seen", {"result": outcome.content})


@faulty("policy")
class ShowsCapitals(Base):
    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(other_tools=ToolData(arguments="redact"))

    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        run.notify("note", str(arguments).upper())
        return super().authorize_tool_call(run, call, arguments)


# -- answer, message, unstable -----------------------------------------------------------------------------------------


@faulty("answer")
class AnswersWithALine(Base):
    def conclude(self, run: Any, text: str) -> str:
        return text if run.state.step == 1 else "\n"


@faulty("answer")
class ReadsTheTextAway(Base):
    def interpret_response(self, run: Any, message: AssistantMessage) -> Turn:
        parts = tuple(part for part in message.parts if not isinstance(part, Text))
        return Turn(AssistantMessage(parts), message.tool_calls)


@faulty("message")
class HidesTheResults(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        called = (AssistantMessage, ToolMessage)
        request.messages = [each for each in request.messages if not isinstance(each, called)]
        return request


@faulty("unstable")
class NamesAnAddress(Base):
    def preprocess_tool_arguments(self, run: Any, call: ToolCall) -> dict[str, Any]:
        return {"place": f"{id(object())}", "account": "A", "euros": 1} if call.name == "pay" else {"place": "x"}
