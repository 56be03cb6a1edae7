"""The error of our request sizes against billed ones, over real transcripts with the usage of each call.

`python -m benchmarks.context_counts [FOLDER]`; by default, the transcripts next to the repository.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
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
from concertino.token_engine import EstimatingCounter, Retention, TokenStatistics
from concertino.token_engine.counting.sizes import measure_with
from concertino.token_engine.view import View
from concertino.token_engine.window import Window

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts" / "mini-swe-agent-deepseek"
SETTLED = 50
"""Messages after which errors are measured."""


def errors(messages: list[dict[str, Any]]) -> Iterator[float]:
    """Yield the relative error of each request's size, estimated before it was sent."""
    counter = EstimatingCounter()
    view, window = View(measure_with(counter)), Window(counter, 200_000, Retention(), TokenStatistics())
    for said in messages:
        used = ((said.get("extra") or {}).get("response") or {}).get("usage") or {}
        if said["role"] == "assistant" and used.get("prompt_tokens"):
            view.settle()
            guess = window.billed(view.tokens)
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
    """Print the errors."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED
    for path in sorted(folder.glob("*.json.gz")):
        found = sorted(errors(json.loads(gzip.decompress(path.read_bytes()))["messages"]))
        if found:
            p95 = found[int(0.95 * len(found))]
            mean = sum(found) / len(found)
            print(f"{path.name[:40]}: {len(found)} requests, mean {mean:.2%}, p95 {p95:.2%}, most {found[-1]:.2%}")


if __name__ == "__main__":
    main()
