"""Count the work behind a run: calls, loop callbacks, commits and bytes instead of seconds.

On one version of Python, the counts of one thread repeat exactly, whatever else the machine does. Each probe warms up
first, so that a count has only what happens every time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.sqlite_log import written
from benchmarks.trace import one_turn
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider

from concertino import (
    AgentConfig,
    Chat,
    Conversation,
    MemoryStore,
    ModelRequest,
    Resources,
    Scope,
    SqliteStore,
    ToolContext,
    ToolOrchestrator,
    tool,
)
from concertino.messages import (
    AssistantMessage,
    Message,
    MessagePart,
    StopReason,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.observability import OpenTelemetry
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel, call
from concertino.usage import Tokens
from tests.guards.counter import Counter, Counts
from tests.guards.served import served

Store = MemoryStore | SqliteStore | None
STEPS = 20
"""Steps of a long run. A step costs what this many cost beyond a run of one step, divided."""
TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps. "


@contextmanager
def counting() -> Iterator[Counter]:
    """Install a counter for this thread and those that start inside the `with` block."""
    counter = Counter()
    sys.setprofile(counter)
    threading.setprofile(counter)
    try:
        yield counter
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]  # None removes it
        sys.setprofile(None)


# -- workloads -------------------------------------------------------------------------------------------------------


def _agent(size: int) -> AgentConfig:
    text = (TEXT * (size // len(TEXT) + 1))[:size]

    @tool(effect="read")
    async def work(n: int) -> str:
        """Return a text."""
        return text

    class Worker(AgentConfig):
        name = "worker"
        tools = (work,)
        tool_call_limit = 1_000_000

    return Worker()


async def _run(agent: AgentConfig, steps: int, store: Store, run_id: str) -> None:
    with ScriptedModel(*[call("work", n=n) for n in range(steps)], "done") as model:
        await ToolOrchestrator(
            Chat(model=model, message="go"), agent, run_id=run_id, resources=Resources(store=store)
        ).run()


async def _answer(chat: Chat, agent: AgentConfig) -> None:
    await ToolOrchestrator(chat, agent).run()


class _Talker:
    """A model that answers in a number of pieces, each in a callback of its own if *paced*."""

    provider, name = "scripted", "talker"

    def __init__(self, deltas: int, *, paced: bool = False) -> None:
        self.deltas = deltas
        self.paced = paced

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer."""
        for _ in range(self.deltas):
            if self.paced:
                await asyncio.sleep(0)
            yield TextChunk("word ")
        yield Reply(AssistantMessage((Text("word " * self.deltas),), "end", self.name), Tokens(10, self.deltas))

    async def close(self) -> None:
        """Release nothing."""


async def _stream(agent: AgentConfig, deltas: int) -> None:
    async for _ in ToolOrchestrator(Chat(model=_Talker(deltas), message="go"), agent).stream():
        pass


async def _follow(runtime: Runtime, agent: AgentConfig, deltas: int, *, paced: bool = False) -> None:
    run = await runtime.start(Chat(model=_Talker(deltas, paced=paced), message="go"), agent.name)
    async for _ in run.events():
        pass
    await run.result()


def _history(messages: int) -> tuple[Message, ...]:
    found: list[Message] = [UserMessage("hello")]
    while len(found) < messages - 2:
        call_id = f"h{len(found)}"
        found += [
            AssistantMessage((Text(TEXT), ToolCall(call_id, "work", '{"n": 1}')), "tool_calls", "talker"),
            ToolMessage(call_id, "work", TEXT * 4),
        ]
    return (*found, AssistantMessage((Text("ok"),), "end", "talker"))


class _Tree(AgentConfig):
    """An agent that starts *width* agents of the next level."""

    def __init__(self, levels: int, width: int) -> None:
        self.name = f"level{levels}"
        self.levels = levels

        @tool(effect="read")
        async def below(n: int, ctx: ToolContext) -> str:
            """Start a sub-agent."""
            return (await ctx.spawn(_Tree(levels - 1, width), "go")).text

        self.tools = (below,) if levels else ()
        self.width = width


class _TreeModel(_Talker):
    """A model for every level of a tree: it calls the tool, if there is one, until it sees results."""

    def __init__(self, width: int) -> None:
        super().__init__(0)
        self.width = width

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Call the tool, or end."""
        if request.tools and request.messages[-1].role == "user":
            parts: tuple[MessagePart, ...] = tuple(
                ToolCall(f"c{n}", "below", f'{{"n": {n}}}') for n in range(self.width)
            )
        else:
            parts = (Text("done"),)
        stop: StopReason = "tool_calls" if len(parts) > 1 else "end"
        yield Reply(AssistantMessage(parts, stop, self.name), Tokens(10, 5))


# -- probes ----------------------------------------------------------------------------------------------------------


async def _steps(counter: Counter, size: int, store: Store) -> tuple[Counts, Counts]:
    """Return the counts of a run without a step, and of a step."""
    agent = _agent(size)
    for warm_up in range(3):
        await _run(agent, 2, store, f"warm-up-{warm_up}")
    # The writer of a store may wake once more on a loaded machine: the least of three counts
    # varies by a few calls, and the ceiling allows for them.
    starts = [await counter.count(partial(_run, agent, 0, store, f"start-{attempt}")) for attempt in range(3)]
    start: Counts = {name: min(each[name] for each in starts) for name in starts[0]}
    one = await counter.count(lambda: _run(agent, 1, store, "short"))
    many = await counter.count(lambda: _run(agent, 1 + STEPS, store, "long"))
    return start, {name: -((one[name] - many[name]) // STEPS) for name in one}


async def _in_memory(counter: Counter) -> Iterator[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name, size, stored in (
        ("step", 4, False),
        ("step, 1 kB", 1_000, False),
        ("MemoryStore step, 1 kB", 1_000, True),
    ):
        start, step = await _steps(counter, size, MemoryStore() if stored else None)
        if size == 4 or stored:
            run = "MemoryStore start and end" if stored else "start and end"
            found += [(f"{run}: calls", start["calls"]), (f"{run}: loop callbacks", start["callbacks"])]
        found += [(f"{name}: calls", step["calls"]), (f"{name}: loop callbacks", step["callbacks"])]
    return iter(found)


async def _on_disk(counter: Counter) -> Iterator[tuple[str, int]]:
    agent = _agent(1_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        async with await SqliteStore.open(path) as store:
            logged = []
            for steps in (1, 0, STEPS):  # the first run warms up
                await _run(agent, steps, store, f"disk-{steps}")
                logged.append(written(Path(f"{path}-wal")))
            start, step = await _steps(counter, 1_000, store)
    run, long_run = logged[1].since(logged[0]), logged[2].since(logged[1])
    steps_alone = long_run.since(run)
    return iter(
        [
            ("SqliteStore start and end: calls in the package", start["package_calls"]),
            ("SqliteStore start and end: commits", run.commits),
            ("SqliteStore start and end: bytes", run.bytes),
            ("SqliteStore step, 1 kB: calls in the package", step["package_calls"]),
            (f"SqliteStore {STEPS} steps, 1 kB: commits", steps_alone.commits),
            (f"SqliteStore {STEPS} steps, 1 kB: bytes", steps_alone.bytes),
        ]
    )


async def _deltas(counter: Counter) -> Iterator[tuple[str, int]]:
    agent = _agent(4)
    found: list[tuple[str, int]] = []
    async with Runtime(
        [agent], Resources(store=MemoryStore(), models=lambda _: _Talker(0)), sweep=3600, lease=3600
    ) as runtime:
        streams = {"delta": partial(_stream, agent), "live delta": partial(_follow, runtime, agent)}
        for name, stream in streams.items():
            await stream(100)
            few, many = [await counter.count(partial(stream, deltas)) for deltas in (100, 300)]
            found.append((f"100 {name}s: calls", (many["calls"] - few["calls"]) // 2))
    return iter(found)


async def _growth(counter: Counter) -> Iterator[tuple[str, int]]:
    """Return what must not grow: the work for a new message, and for a run in a deep tree."""
    agent = _agent(4)
    found: list[tuple[str, int]] = []
    for messages in (100, 1_000):
        past = _history(messages)
        first = await ToolOrchestrator(Chat(model=_Talker(1), message="go", history=past), agent).run()
        chat = Chat(model=_Talker(1), message="on", history=(*past, *first.messages), context=first.context)
        await _answer(chat, agent)
        counts = await counter.count(partial(_answer, chat, agent))
        found.append((f"next turn after {messages:,} messages: calls", counts["calls"]))
    for levels, runs in ((1, 5), (3, 85)):
        chat, tree = Chat(model=_TreeModel(4), message="go"), _Tree(levels, 4)
        await _answer(chat, tree)
        counts = await counter.count(partial(_answer, chat, tree))
        found.append((f"tree of {levels + 1} levels: calls per run", counts["calls"] // runs))
    return iter(found)


async def _feed_growth() -> Iterator[tuple[str, int]]:
    """Return the instructions of Python that a live delta takes: a loop within one call shows only there."""
    agent, found = _agent(4), []
    async with Runtime(
        [agent], Resources(store=MemoryStore(), models=lambda _: _Talker(0)), sweep=3600, lease=3600
    ) as runtime:
        await _follow(runtime, agent, 50, paced=True)
        totals = []
        for deltas in (50, 150, 500, 600):
            with instructions() as executed:
                await _follow(runtime, agent, deltas, paced=True)
            totals.append(sum(executed))
        # Timers differ a little from one process to the next, so these counts are rounded up.
        few, many = [-(-(end - begin) // 100 // 250) * 250 for begin, end in (totals[:2], totals[2:])]
        found = [("live delta after 100: instructions", few), ("live delta after 550: instructions", many)]
    return iter(found)


async def _conversations(counter: Counter) -> Iterator[tuple[str, int]]:
    """Return the work for a turn of a short and of a long conversation, in all threads of a process that holds it."""
    agent, found = _agent(4), []
    for messages in (100, 1_000):
        steps = [call("work", n=n) for n in range(messages // 2 - 1)]
        resources = Resources(store=MemoryStore(), model=ScriptedModel(*steps, *["ok"] * 6))
        async with Runtime([agent], resources, sweep=3600, lease=3600) as runtime:
            conversation = await runtime.conversation(Scope("acme", "ann"), agent=agent)

            async def turn(conversation: Conversation = conversation) -> None:
                await (await conversation.send("go")).result()

            for _ in range(3):
                await turn()
            # As in `_steps`: a batch of events more or less.
            calls = min([(await counter.count(turn))["package_calls"] for _ in range(3)])
            found.append((f"turn of a conversation of {messages:,} messages: calls in the package", calls))
    return iter(found)


async def _step_instructions() -> Iterator[tuple[str, int]]:
    """Return the instructions of Python that a run without a step takes, and a step: they grow also within a call."""
    agent, totals = _agent(4), []
    for warm_up in range(3):
        await _run(agent, 2, None, f"warm-up-{warm_up}")
    for steps in (0, 1, 1 + STEPS):
        with instructions() as executed:
            await _run(agent, steps, None, "counted")
        totals.append(sum(executed))
    start, one, many = totals
    return iter([("start and end: instructions", start), ("step: instructions", (many - one) // STEPS)])


async def _observed() -> Iterator[tuple[str, int]]:
    """Return the instructions of Python that the observer of OpenTelemetry adds to a step, in the event loop."""
    agent, telemetry, totals = _agent(4), OpenTelemetry(TracerProvider(shutdown_on_exit=False), NoOpMeterProvider()), []
    for observers in ((), (telemetry,)):
        for steps in (2, 1, 1 + STEPS):  # the first run warms up
            with ScriptedModel(*[call("work", n=n) for n in range(steps)], "done") as model:
                run = ToolOrchestrator(Chat("go", model=model), agent, observers=observers)
                with instructions() as executed:
                    await run.run()
            totals.append(sum(executed))
    _, one, many, _, one_traced, many_traced = totals
    telemetry.flush(60)
    # Whether a span wakes the thread depends on time, so the count is rounded up.
    return iter([("traced step: instructions more", -(-(many_traced - one_traced - many + one) // STEPS // 250) * 250)])


async def _memory() -> Iterator[tuple[str, int]]:
    """Return the bytes of a run in progress, at the peak of many, rounded up."""
    agent, runs = _agent(4), 100

    async def crowd() -> None:
        await asyncio.gather(*[_answer(Chat(model=_Talker(2, paced=True), message="go"), agent) for _ in range(runs)])

    await crowd()
    gc.collect()
    tracemalloc.start()
    await crowd()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return iter([(f"{runs} runs at once: bytes of a run", -(-peak // runs // 256) * 256)])


@contextmanager
def instructions() -> Iterator[list[int]]:
    """Count the instructions of Python code that this thread executes inside the `with` block."""
    executed = [0]

    def count(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        executed[0] += event == "opcode"
        return count

    gc.collect()
    gc.disable()
    sys.settrace(count)
    try:
        yield executed
    finally:
        sys.settrace(None)
        gc.enable()


def _import() -> dict[str, int]:
    """Import the package in a process of its own and count what that loads and generates."""
    code = """
import sys
generated, before = [], set(sys.modules)
sys.addaudithook(lambda event, args: generated.append(1) if event == "compile" and args[1] == "<string>" else None)
import concertino, json
own = [name for name in sys.modules if name.startswith("concertino")]
print(json.dumps({
    "import: modules": len(set(sys.modules) - before),
    "import: modules of the package": len(own),
    "import: methods generated": len(generated),
}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def measure() -> dict[str, int]:
    """Return every count by name."""
    found: dict[str, int] = {}
    with counting() as counter:
        for probe in (_in_memory, _on_disk, _deltas, served, _growth, _conversations):
            found.update(asyncio.run(probe(counter)))
    for uncounted in (_feed_growth, _step_instructions, _observed, _memory):
        found.update(asyncio.run(uncounted()))
    trace = one_turn()
    found |= {"turn: files entered": len(trace.files), "turn: calls between files": trace.between.total()}
    return found | _import()
