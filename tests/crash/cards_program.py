"""A lead that hands results to sub-agents by their ids, in a process that kills itself at a point of its store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    ModelRequest,
    Resources,
    RunResult,
    Runtime,
    SqliteStore,
    delegate,
    tool,
)
from concertino.messages import ToolMessage, UserMessage
from concertino.testing import FaultyStore, Points, call
from tests.runtime.kit import Steady


@tool(effect="read")
async def search(query: str) -> str:
    """Search."""
    return f"all about {query}"


class Critic(AgentConfig[None]):
    name = "critic"
    prompt = "You judge."


class Writer(AgentConfig[None]):
    name = "writer"
    prompt = "You write."
    tools = (search, delegate(Critic(), description="Judges.", cards=True))


class Lead(AgentConfig[None]):
    name = "lead"
    prompt = "You lead."

    def __init__(self, *, background: bool) -> None:
        self.tools = (search, delegate(Writer(), description="Writes.", cards=True, background=background))


def results(request: ModelRequest) -> list[str]:
    """Return the results that a model reads, also those of background calls."""
    read = (
        m.content if isinstance(m, ToolMessage) else m.text if isinstance(m, UserMessage) and m.tool else ""
        for m in request.messages
    )
    return [text for text in read if text]


def hands(tool: str) -> Any:
    """Return a step that hands all cards to *tool*: those of results, and those that the agent was given."""

    def step(request: ModelRequest) -> Any:
        own = re.findall(r"\[card (\w+)\]$", "\n".join(results(request)), re.MULTILINE)
        given = [m.handle for m in request.messages if isinstance(m, ToolMessage) and m.name == "recall"]
        return call(tool, query="Do it.", cards=[*given, *own])

    return step


def quoting(request: ModelRequest) -> str:
    """Answer with the results, without their ids."""
    return " | ".join(text.partition("\n[card ")[0] for text in results(request))


def model(*, background: bool) -> Steady:
    """Return the model of all three agents; each box counts as an answer."""
    found = [call("search", query="tea"), call("search", query="coffee")]
    last = [quoting, quoting, quoting]
    return Steady(
        scripts={
            "You lead": [found, hands("writer"), *last],
            "You write": ["", call("search", query="milk"), hands("critic"), *last],
            "You judge": ["", *last],
        }
    )


async def run(folder: Path, points: Points, *, background: bool = False) -> RunResult:
    """Start the run or resume it, until it has ended."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        asked = model(background=background)
        runtime = Runtime([Lead(background=background)], Resources(store=faulty, models=lambda _: asked))
        stored = await store.run(OPERATOR, "run_1")
        if stored is not None and stored.end is not None:
            return await runtime.result(OPERATOR, "run_1")
        if stored is None:
            live = await runtime.start(Chat("go", model=asked), "lead", run_id="run_1")
        else:
            live = await runtime.resume(OPERATOR, "run_1")
        result = await live.result()
        await runtime.close()
        return result
