"""The estimate of tokens next to a tokenizer, and the error of request sizes against billed ones.

`python -m benchmarks.context_counts [FOLDER]` prints the ratio for each kind of text, the errors over real transcripts
with the usage of each call (by default, those next to the repository), and the largest requests of long conversations.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from concertino.messages import (
    AssistantMessage,
    Message,
    MessagePart,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    UserMessage,
)
from concertino.providers.openai import TiktokenCounter
from concertino.token_engine import EstimatingCounter, Retention
from concertino.token_engine.counting.sizes import size_of
from concertino.token_engine.view import View
from concertino.token_engine.window import Window

from .context import MODELS, drive
from .context_conversations import Conversation, chained
from .context_policies import Sizes
from .text_kinds import TEXTS

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts" / "mini-swe-agent-deepseek"
WINDOWS = (8_000, 16_000, 32_000, 64_000)
FACTORS = (0.8, 1.0, 1.3)
"""Tokens of the provider per token of o200k_base: other tokenizers make fewer or more."""
SETTLED = 50
"""Messages after which errors are measured."""


def errors(messages: list[dict[str, Any]]) -> Iterator[float]:
    """Yield the relative error of each request's size, estimated before it was sent."""
    counter = EstimatingCounter()
    view, window = View(partial(size_of, counter, "")), Window(counter, 200_000, Retention())
    for said in messages:
        used = ((said.get("extra") or {}).get("response") or {}).get("usage") or {}
        if said["role"] == "assistant" and used.get("prompt_tokens"):
            view.settle()
            guess = window.expected(view.tokens)
            if len(view.record) > SETTLED:
                yield abs(guess - used["prompt_tokens"]) / used["prompt_tokens"]
            window.observe(view.tokens, used["prompt_tokens"])
        view.record.append(_message(said))


def _message(said: dict[str, Any]) -> Message:
    content = said.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    if said["role"] == "system":
        return SystemMessage(text)
    if said["role"] != "assistant":
        return UserMessage(text)
    calls = said.get("tool_calls") or []
    parts: list[MessagePart] = [Reasoning(said["reasoning_content"])] if said.get("reasoning_content") else []
    parts += [Text(text)] if text else []
    parts += [ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]
    return AssistantMessage(tuple(parts))


def main() -> None:
    """Print the ratios and the errors."""
    estimate, exact = EstimatingCounter().count, TiktokenCounter().count
    ratios = sorted((estimate(text) / exact(text), name) for name, text in TEXTS.items())
    print("estimate / o200k_base: " + ", ".join(f"{name} {ratio:.2f}" for ratio, name in ratios))
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED
    every: list[float] = []
    for path in sorted(folder.glob("*.json.gz")):
        found = list(errors(json.loads(gzip.decompress(path.read_bytes()))["messages"]))
        _print(path.name[:40], found)
        every += found
    _print("all", every)
    for factor in FACTORS:
        for kind, played in (
            chained() | {f"unseen {kind}": each for kind, each in chained(unseen=True).items()}
        ).items():
            shares = [largest(played, window, factor) / window for window in WINDOWS]
            print(f"largest request, tokens of {factor} x o200k_base, {kind}: " + ", ".join(f"{s:.1%}" for s in shares))


def largest(played: Conversation, window: int, factor: float) -> float:
    """Return the tokens of the largest request with those reserved for its answer."""
    played = _within(played, int(0.95 * min(2_000, window // 4) / factor))
    found, _ = asyncio.run(drive(played, MODELS["A"], window, Retention(), Sizes(factor)))
    return found.most


def _within(played: Conversation, most: int) -> Conversation:
    """Return *played* with answers of at most *most* tokens and their calls: a provider ends a longer one."""
    counter, messages = TiktokenCounter(), list(played.messages)
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and counter.count(message.text) > most:
            messages[index] = replace(message, parts=(Text(counter.cut(message.text, most)), *message.tool_calls))
    return replace(played, messages=messages)


def _print(name: str, found: list[float]) -> None:
    if found:
        found = sorted(found)
        p95, p99 = (found[int(share * len(found))] for share in (0.95, 0.99))
        mean = sum(found) / len(found)
        print(f"{name}: {len(found)} requests, mean {mean:.2%}, p95 {p95:.2%}, p99 {p99:.2%}, most {found[-1]:.2%}")


if __name__ == "__main__":
    main()
