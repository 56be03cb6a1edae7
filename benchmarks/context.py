"""What the model still sees, and what that costs: `python -m benchmarks.context [--quick]`.

Conversations with planted facts run through `ToolOrchestrator` and through published policies. The provider counts with
o200k_base, has a prompt cache, and writes faithful summaries of 8 % of their span after some reasoning. The engine
counts with its default counter. Costs are those of the input and of the summaries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks.context_conversations import Conversation, chained, conversation, recorded
from benchmarks.context_policies import POLICIES, REASONING, Cache, Figures, Part, Sizes, part_of, simulate, summary_of
from concertino import (
    AgentConfig,
    Chat,
    Continue,
    Finish,
    Limits,
    NextStep,
    Resources,
    Retention,
    RunContext,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.cache_rules import CacheRule, cache_rule
from concertino.events import CacheMiss, ContextEdited, RunEnded
from concertino.messages import AssistantMessage, Message, Text, ToolMessage
from concertino.orchestrator import run as runs
from concertino.providers.base import ModelEvent, ModelRequest, Reply
from concertino.testing import asks_for_summary
from concertino.token_engine import TokenEngine
from concertino.usage import Tokens

MODELS = {"A": "anthropic:claude-sonnet-4-5", "O": "openai:gpt-5", "G": "google:gemini-3-pro"}
"""By letter: a provider with cache breakpoints, and two that cache any prefix."""


def rule_of(spec: str) -> CacheRule:
    """Return the cache rule of a model (`provider:name`)."""
    provider, _, name = spec.partition(":")
    return cache_rule(provider, name)


@dataclass
class Clock:
    """The time of the conversation."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Provider:
    """A model that answers as in the conversation, bills the requests, and looks for the facts in them."""

    played: Conversation
    spec: str
    sizes: Sizes
    clock: Clock = field(default_factory=Clock)
    figures: Figures = field(default_factory=Figures)
    position: int = 0
    summarizes: bool = True
    system: int = 0
    """Tokens of system prompt and tools in the first request."""

    def __post_init__(self) -> None:
        self.provider, _, self.name = self.spec.partition(":")
        self.cache = Cache(cache_rule(self.provider, self.name))
        self.answers = [n for n, message in enumerate(self.played.messages) if message.role == "assistant"]

    def fixed(self, request: ModelRequest) -> int:
        return self.sizes.count(request.system) + sum(self.sizes.count(spec.text) for spec in request.tools)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next answer, or a summary."""
        figures, sizes, rule = self.figures, self.sizes, self.cache.rule
        self.system = self.system or self.fixed(request)
        parts: list[Part] = [((request.system, len(request.tools)), self.fixed(request), 1)]
        parts += [part_of(_key(message), message, sizes) for message in request.messages]
        marks = None if request.breakpoints is None else [mark + 1 for mark in request.breakpoints]
        if marks is not None and len(marks) < 4:
            marks.insert(0, 0)  # system and tools
        size, before = sum(tokens for _, tokens, _ in parts), self.cache.cost
        hit = self.cache.bill(parts, marks, self.clock.now)
        figures.most = max(figures.most, size + (request.max_output_tokens or 0))
        if asks_for_summary(request):
            text = self._summary(request)
            output = rule.output * (sizes.count(text) + REASONING)
            figures.summaries += 1
            figures.summary_input += size
            figures.summary_input_cost += self.cache.cost - before
            figures.summary_output_cost += output
            self.cache.cost += output
            yield Reply(AssistantMessage((Text(text),)), Tokens(size, sizes.count(text) + REASONING, hit))
            return
        index = self.answers[self.position]
        self.position += 1
        if figures.requests % 5 == 0:
            recallable = any(spec.name == "recall" for spec in request.tools)
            figures.look(self.played, index, request.messages, sizes, recallable=recallable)
        figures.requests += 1
        answer = self.played.messages[index]
        assert isinstance(answer, AssistantMessage)
        yield Reply(answer, Tokens(size, 1, hit))

    def _summary(self, request: ModelRequest) -> str:
        """Return a faithful summary of the span that the request names."""
        asked = request.messages[-1].text  # type: ignore[union-attr]
        span = request.messages[:-1] or request.messages  # a transcript is in the same message
        words = re.search(r"at most ([\d,]+) words", asked)
        return summary_of(span, self.sizes, int(1.35 * int(words[1].replace(",", ""))) if words else 2_000)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _key(message: Message) -> object:
    if isinstance(message, ToolMessage):
        return message.role, message.call_id, message.content
    return message.parts if isinstance(message, AssistantMessage) else (message.role, message.text)


class Driver(AgentConfig[None]):
    """Lets the time of the conversation pass."""

    tool_call_limit = 10**9
    allow_prompt_override = True

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def get_model_id(self, run: RunContext[None]) -> str:
        self.provider.clock.now += self.provider.played.gaps[self.provider.position]
        return run.model_id

    def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        more = run.state.has_tool_calls and self.provider.position < len(self.provider.answers)
        return Continue() if more else Finish()


async def drive(
    played: Conversation, spec: str, window: int, retention: Retention, sizes: Sizes
) -> tuple[Figures, int]:
    """Return the figures of the engine, and the tokens of system prompt and tools in the first request."""
    results = {message.call_id: message.content for message in played.messages if isinstance(message, ToolMessage)}

    @tool(effect="read")
    async def work(id: str, of: str) -> str:
        """Work."""
        return results.get(id, of)

    provider = Provider(played, spec, sizes)
    output = min(2_000, window // 4)
    resources = Resources(
        retention=retention,
        limits=lambda *_: Limits(context=window, output=output, tool_calls=10**9, steps=10**6, model_calls=10**6),
    )
    history: list[Message] = []
    context, place = None, 0
    with patch.object(runs, "TokenEngine", partial(TokenEngine, clock=provider.clock)):  # the conversation's time
        while provider.position < len(provider.answers):
            until = provider.answers[provider.position]
            said = "\n".join(message.text for message in played.messages[place:until] if message.role == "user") or "-"
            chat = Chat(model=provider, message=said, history=history, context=context, system_prompt=played.system)
            async for event in ToolOrchestrator(
                chat, Driver(provider), ToolRegistry([work]), resources=resources
            ).stream():
                provider.figures.misses += isinstance(event, CacheMiss)
                provider.figures.edits += isinstance(event, ContextEdited)
                if isinstance(event, RunEnded):
                    assert event.result.status == "completed", event.result.error
                    history = [*history, *event.result.messages]
                    context = event.result.context
            place = provider.answers[provider.position - 1] + 1
    provider.figures.cost = provider.cache.cost
    return provider.figures, provider.system


def frontier(played: Conversation, spec: str, window: int, retentions: dict[str, Retention], sizes: Sizes) -> None:
    """Print a table of what each policy shows and costs."""
    rule, ours, system = rule_of(spec), dict[str, Figures](), 0
    for name, retention in retentions.items():
        ours[name], system = asyncio.run(drive(played, spec, window, retention, sizes))
    limit = window - min(2_000, window // 4) - system
    found = {policy.name: simulate(played, policy(sizes, limit), rule, system) for policy in POLICIES} | ours
    whole, sliding = found["no trimming"].cost, found["sliding window"].cost
    published = min(found[policy.name].cost for policy in POLICIES[2:])
    history = sum(map(sizes.tokens, played.messages))
    for name, got in found.items():
        if name == "no trimming" and window < history:
            continue
        shares = (got.verbatim, got.summary, got.recallable, got.lost)
        print(
            f"| {played.kind} {history // 1_000}k, {window // 1_000}k | {name} | "
            + "/".join(f"{100 * got.share(share):.0f}" for share in shares)
            + f" | {got.constraints_verbatim / max(got.constraints, 1):.0%} | {got.cost / whole:.3f} | "
            f"{got.cost / sliding:.3f} | {got.cost / published:.3f} | {got.summaries} | "
            f"{got.summary_input / history:.2f} | {got.summary_input_cost / got.cost:.1%}"
            f"+{got.summary_output_cost / got.cost:.1%} | {got.most:,} | {got.misses} |",
            flush=True,
        )


def natural(kind: str, parts: Sequence[Sequence[Message]], spec: str, retention: Retention, sizes: Sizes) -> None:
    """Print what conversations of natural length cost in a window of 200,000 tokens, relative to no trimming."""
    ratios = []
    for seed, part in enumerate(parts):
        played = conversation(kind, part, seed)
        ours, system = asyncio.run(drive(played, spec, 200_000, retention, sizes))
        whole = simulate(played, POLICIES[0](sizes, 10**9), rule_of(spec), system).cost
        ratios.append(ours.cost / whole)
    print(
        f"{kind}, {len(ratios)} of natural length: {statistics.mean(ratios):.3f} of no trimming, most {max(ratios):.3f}"
    )


HEADER = (
    "conversation, window", "policy", "verbatim/summary/recallable/lost", "constraints", "x untrimmed", "x sliding",
    "x cheapest with summaries", "summaries", "their input/history", "their share of the bill", "largest request",
    "misses",
)  # fmt: skip


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one provider and three windows")
    parser.add_argument(
        "--kinds",
        nargs="*",
        help="kinds of conversations: drawn; with --unseen, short; with recordings, coding, service, chains",
    )
    parser.add_argument("--windows", nargs="*", type=int)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of `Retention`")
    parser.add_argument("--models", nargs="*", choices=MODELS)
    parser.add_argument("--unseen", action="store_true", help="other conversations than the settings were chosen with")
    chosen = parser.parse_args(arguments)
    settings: dict[str, Any] = {name: json.loads(value) for name, _, value in (s.partition("=") for s in chosen.set)}
    retention, sizes, found, played = Retention(**settings), Sizes(), recorded(), chained(unseen=chosen.unseen)
    kinds = chosen.kinds or (("coding", "service") if chosen.quick and found else tuple(played))
    if unknown := sorted(set(kinds) - set(played)):
        hint = "" if chosen.unseen else "; --unseen also has short"
        parser.error(f"invalid --kinds {', '.join(unknown)!r}: choose from {', '.join(played)}{hint}")
    windows = chosen.windows or ((16_000, 64_000) if chosen.quick else (8_000, 16_000, 32_000, 64_000, 200_000))
    print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    for kind in kinds:
        for window in windows:
            if kind == "chains" and window < 32_000:
                continue
            for model in chosen.models or ("A",):
                frontier(played[kind], MODELS[model], window, {"concertino": retention}, sizes)
    if not chosen.kinds:
        for kind in found:
            natural(kind, found[kind][:: 6 if chosen.quick else 1], MODELS["A"], retention, sizes)


if __name__ == "__main__":
    main(sys.argv[1:])
