"""The cost of the context window over traces of long conversations: `python -m benchmarks.context`.

Each trace runs through `ToolOrchestrator`. The model answers with as many tokens as the trace, bills like a provider
with a prompt cache, and writes summaries of 8 % of their span. Time passes as in the trace.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import context_traces as traces
from benchmarks.context_cost import Cache, optimum, sliding
from benchmarks.context_traces import Trace
from concertino import (
    AgentConfig,
    Chat,
    Continue,
    Finish,
    Limits,
    NextStep,
    Resources,
    RunContext,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.events import CacheMiss, ContextEdited, RunEnded
from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from concertino.orchestrator import run as runs
from concertino.orchestrator.model_call.summarize import ASKS
from concertino.providers.base import ModelEvent, ModelRequest, Reply
from concertino.token_engine import Retention, TokenEngine
from concertino.token_engine.caching.rules import cache_rule
from concertino.token_engine.counting.sizes import FRAME, measure_with
from concertino.token_engine.recall import digest
from concertino.usage import Tokens

MODELS = {
    "Anthropic, 5 min": "anthropic:claude-sonnet-4-5",
    "OpenAI, any prefix": "openai:gpt-5",
    "Gemini": "google:gemini-3-pro",
}
RESERVE = 2_000


class Words:
    """Counts one token for each word, so that texts have exactly the sizes of the trace."""

    name = "words"
    exact = True

    def count(self, text: str) -> int:
        return text.count("w")

    def cut(self, text: str, limit: int) -> str:
        return text[: 2 * limit]


COUNTER = Words()
MEASURE = measure_with(COUNTER)


def text(tokens: int) -> str:
    """Return a text for a message of *tokens*, including its frame."""
    return "w " * max(tokens - FRAME, 0)


@dataclass
class Clock:
    """The time of the trace."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Provider:
    """A model that answers as in the trace, and bills the requests."""

    trace: Trace
    spec: str
    clock: Clock
    provider: str = field(init=False)
    name: str = field(init=False)
    summarizes: bool = True
    position: int = 0
    summaries: int = 0
    summary_cost: float = 0.0
    summary_input: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        self.provider, _, self.name = self.spec.partition(":")
        self.cache = Cache(cache_rule(self.provider, self.name))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next answer, or a summary."""
        asked = request.messages[-1]
        blocks: list[tuple[object, int]] = [("system", self.trace.system)]
        blocks += [(_key(message), MEASURE(message)[0]) for message in request.messages]
        marks = None if request.breakpoints is None else [mark + 1 for mark in request.breakpoints]
        if marks is not None and len(marks) < 4:
            marks.insert(0, 0)  # system and tools
        size, before = sum(tokens for _, tokens in blocks), self.cache.cost
        if isinstance(asked, UserMessage) and asked.text.startswith(ASKS):
            hit = self.cache.bill(blocks, marks, self.clock.now)
            words = max(int(0.08 * self._told(request)), 20)
            self.summaries += 1
            self.cache.cost += self.cache.rule.output * words
            self.summary_cost += self.cache.cost - before
            self.summary_input += size
            self.cache.sent, self.cache.hit = self.cache.sent - size, self.cache.hit - hit
            yield Reply(AssistantMessage((Text("w " * words),)), Tokens(prompt=size, cached=hit, completion=words))
            return
        count, _ = self.trace.requests[self.position]
        self.position += 1
        hit = self.cache.bill(blocks, marks, self.clock.now)
        self.peak = max(self.peak, size)
        parts: list[Any] = [Text(text(self.trace.messages[count][1]))]
        calls = self.trace.messages[count + 1 : count + 2]
        if calls and calls[0][0] == "t":
            parts.append(ToolCall(f"c{count}", "work", f'{{"tokens": {calls[0][1]}}}'))
        yield Reply(AssistantMessage(tuple(parts)), Tokens(prompt=size, cached=hit, completion=1))

    def _told(self, request: ModelRequest) -> int:
        """Return the tokens of the span to summarize.

        The request names it: the messages after the last earlier summary, without the newest ones.
        """
        asked = request.messages[-1]
        assert isinstance(asked, UserMessage)
        found = re.search(r"up to its last (\d+) messages", asked.text)
        if found is None:  # a merge of earlier summaries: half of them
            return COUNTER.count(asked.text) * 6
        kept = int(found[1])
        told = list(request.messages)[: -1 - kept]
        if "after the last of them" in asked.text:
            first = max(place for place, message in enumerate(told) if _is_summary(message)) + 1
            told = told[first:]
        return sum(MEASURE(message)[0] for message in told)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def reduced(tokens: int) -> int:
    """Return the tokens of the digest of a result of *tokens*, for the engine and the offline optimum alike."""
    return MEASURE(ToolMessage("", "work", digest(ToolMessage("", "work", text(tokens)), recallable=False)))[0]


def _is_summary(message: Message) -> bool:
    return message.role == "system" and message.text.startswith("Summary of the conversation")


def _key(message: Message) -> object:
    return (message.role, message.call_id, message.content) if isinstance(message, ToolMessage) else message


@tool(effect="read")
async def work(tokens: int) -> str:
    """Work."""
    return text(tokens)


class Driver(AgentConfig[None]):
    """Measures at each request the share of the last fifty messages that is sent unchanged."""

    tool_call_limit = 10**9

    def __init__(self, clock: Clock, provider: Provider) -> None:
        self.clock = clock
        self.provider = provider
        self.verbatim: list[float] = []

    def get_model_id(self, run: RunContext[None]) -> str:
        self.clock.now += self.provider.trace.requests[self.provider.position][1]
        return run.model_id

    def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        more = run.state.has_tool_calls and self.provider.position < len(self.provider.trace.requests)
        return Continue() if more else Finish()

    def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
        newest = list(run.messages)[-50:]
        here = {id(message) for message in request.messages}
        sizes = [(MEASURE(message)[0], id(message) in here) for message in newest]
        self.verbatim.append(sum(t for t, kept in sizes if kept) / max(sum(t for t, _ in sizes), 1))
        return request


async def drive(trace: Trace, spec: str, retention: Retention) -> dict[str, float]:
    """Return the figures of one trace at one provider."""
    clock = Clock()
    provider = Provider(trace, spec, clock)
    vars(runs)["TokenEngine"] = partial(TokenEngine, clock=clock)  # the trace's time
    agent = Driver(clock, provider)
    history: list[Message] = []
    context, misses, edits = None, 0, 0
    place = 0
    while provider.position < len(trace.requests):
        count, _ = trace.requests[provider.position]
        said = "".join(text(tokens) for who, tokens in trace.messages[place:count] if who == "u") or "w "
        chat = Chat(
            model=provider, message=said, history=tuple(history), context=context, system_prompt="w " * trace.system
        )
        agent.allow_prompt_override = True
        async for event in ToolOrchestrator(
            chat,
            agent,
            _registry(),
            resources=Resources(
                counter=COUNTER,
                retention=retention,
                limits=lambda *_: Limits(context=trace.limit + RESERVE, output=RESERVE, tool_calls=10**9),
            ),
        ).stream():
            misses += isinstance(event, CacheMiss)
            edits += isinstance(event, ContextEdited)
            if isinstance(event, RunEnded):
                assert event.result.status == "completed", event.result.error
                history += event.result.messages
                context = event.result.context
        place = trace.requests[provider.position - 1][0] + 1
    cache = provider.cache
    return {
        "cost": cache.cost,
        "hit": cache.hit / cache.sent,
        "verbatim": statistics.mean(agent.verbatim),
        "peak": provider.peak,
        "summaries": provider.summaries,
        "summary_share": provider.summary_cost / cache.cost,
        "summary_input": provider.summary_input / sum(tokens for _, tokens in trace.messages),
        "edits": edits,
        "misses": misses,
    }


def _registry() -> ToolRegistry:
    return ToolRegistry([work])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument("--traces", type=Path, metavar="FILE", help="JSON: see benchmarks/context_traces.py")
    parser.add_argument("--drawn", type=int, default=60, help="random conversations to compare with the optimum")
    parser.add_argument("--patience", type=float, help="patience to use instead of the default")
    arguments = parser.parse_args()
    found = traces.from_file(arguments.traces) if arguments.traces else traces.shared()
    retention = Retention(patience=arguments.patience) if arguments.patience else Retention()
    if not found:
        print("no traces found next to this clone (../shared/bench/token_engine): pass a file with --traces")
    titles = ("trace, provider", "x sliding", "hits", "last 50 verbatim", "peak", "summaries", "input/history", "edits")
    print(f"| {' | '.join((*titles, 'misses'))} |\n| --- |{' ---: |' * len(titles)}")
    for trace in found:
        for label, spec in MODELS.items():
            got = asyncio.run(drive(trace, spec, retention))
            base = sliding(trace, cache_rule(*spec.split(":")))
            print(
                f"| {trace.name}, {label} | {got['cost'] / base:.3f} | {got['hit']:.1%} | {got['verbatim']:.0%} | "
                f"{got['peak']:,} | {got['summaries']} | {got['summary_input']:.2f} | {got['edits']} | "
                f"{got['misses']} |",
                flush=True,
            )
    _against_optimum(arguments.drawn, found)


def _against_optimum(drawn: int, found: Sequence[Trace]) -> None:
    spec = MODELS["Anthropic, 5 min"]
    rule = cache_rule(*spec.split(":"))
    careful = Retention(patience=1.0, floor=0, summaries=False)  # the optimum knows no floor
    ratios = []
    for trace in [*found, *map(traces.drawn, range(drawn))]:
        ratio = asyncio.run(drive(trace, spec, careful))["cost"] / optimum(trace, rule, reduced)
        if trace in found:
            print(f"{trace.name}, results only, patience 1: {ratio:.3f} of the offline optimum")
        else:
            ratios.append(ratio)
    if ratios:
        ratios.sort()
        print(
            f"{drawn} drawn conversations, results only, patience 1, of the offline optimum: median "
            f"{statistics.median(ratios):.3f}, p95 {ratios[int(0.95 * len(ratios))]:.3f}, most {ratios[-1]:.3f}"
        )


if __name__ == "__main__":
    main()
