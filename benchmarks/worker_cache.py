"""The share of a worker's prompts that a provider reads from its cache: `python -m benchmarks.worker_cache`."""

from __future__ import annotations

import asyncio
import json

from benchmarks.context_policies import Cache
from concertino import MemoryStore, ModelRequest, Resources, Runtime, Scope, ToolRegistry, tool
from concertino.agents import PreEnrichment, WorkerAgent, WorkerDefinition
from concertino.cache_rules import cache_rule
from concertino.messages import AssistantMessage
from concertino.testing import ScriptedModel
from concertino.token_engine import EstimatingCounter

MODELS = (("anthropic", "claude-sonnet-5-5"), ("openai", "gpt-5.1"), ("google", "gemini-3.8-flash"))
PASSES, TURNS, RESULT, PROMPT = 5, 3, 2_000, 8_000
"""Passes of a turn, turns of the conversation, and the characters of a result and of the prompt."""


@tool(effect="read")
async def look_up(number: int) -> str:
    """Look up a record."""
    return f"record {number}: " + "abcdefg " * (RESULT // 8)


def decision(number: int, *, last: bool) -> str:
    """Return a decision with two calls, or with the answer."""
    calls = [{"tool": "look_up", "params": {"number": 2 * number + each}} for each in (0, 1)]
    return json.dumps(
        {
            "thinking": "I need the next two records to compare them with the ones before. " * 3,
            "tool_calls": [] if last else calls,
            "should_respond": last,
            "response": "The answer. " * 40 if last else None,
            "confidence": "high",
            "document_updates": {"findings": f"the records of pass {number} " * 8},
        }
    )


async def measure(provider: str, name: str) -> float:
    """Return the share of the input that a conversation's requests read from the cache."""
    before = PreEnrichment(default_tools=[("look_up", {"number": 0})])
    script = ["[]", *[decision(number, last=number == PASSES) for number in range(1, PASSES + 1)]]
    model = ScriptedModel(*script * TURNS, name=name)
    model.provider = provider
    definition = WorkerDefinition(
        id="clerk", name="Clerk", system_prompt="You know it all. " * (PROMPT // 17), pre_enrichment=before
    )
    worker = WorkerAgent(definition, ToolRegistry([look_up]))
    async with Runtime([worker], Resources(model=model, store=MemoryStore())) as runtime:
        conversation = await runtime.conversation(Scope("acme", "ann"), agent="clerk")
        for turn in range(TURNS):
            await (await conversation.send(f"Question {turn}?")).result()
    cache, counter = Cache(cache_rule(provider, name)), EstimatingCounter()
    hit = sent = 0
    for number, request in enumerate(each for each in model.requests if each.output_schema is not None):
        parts = [(what, tokens, 1) for what, tokens in blocks(request, counter)]
        hit += cache.bill(parts, marks(request), 20.0 * number)
        sent += sum(tokens for _, tokens, _ in parts)
    return hit / sent


def blocks(request: ModelRequest, counter: EstimatingCounter) -> list[tuple[object, int]]:
    """Return the system prompt and the messages with their tokens."""
    texts = [
        each.text if isinstance(each, AssistantMessage) else getattr(each, "content", "") or each.text  # type: ignore[union-attr]
        for each in request.messages
    ]
    return [(text, counter.count(text)) for text in (request.system, *texts)]


def marks(request: ModelRequest) -> tuple[int, ...] | None:
    """Return the blocks with a cache breakpoint; None if the provider has none."""
    return None if request.breakpoints is None else (0, *[place + 1 for place in request.breakpoints])


def main() -> None:
    """Print the share for each model."""
    for provider, name in MODELS:
        print(f"{provider}:{name}: {asyncio.run(measure(provider, name)):.0%} of the input read from the cache")


if __name__ == "__main__":
    main()
