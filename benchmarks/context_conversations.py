"""Conversations with planted facts: recorded ones from the data next to the repository, or drawn ones without it."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from concertino.messages import AssistantMessage, Message, MessagePart, Text, ToolCall, ToolMessage, UserMessage

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FACT = re.compile(r"F-[0-9a-f]{8}")
KINDS = {
    "constraint": "Never touch {fact}.",
    "user id": "My id is {fact}.",
    "decision": "I decided to use {fact}.",
    "result": "path: src/{fact}.py",
    "error": "Error: {fact} failed",
}
"""Kinds of facts: the first two are planted in messages of the user, the third in answers, the others in results."""
FACTS = 36


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation, the seconds before each of its answers, and the facts planted in it."""

    kind: str
    messages: Sequence[Message]
    gaps: Sequence[float]
    facts: dict[str, tuple[str, int]]
    """By fact: its kind, and the index of its message."""
    system: str


def conversation(kind: str, messages: Sequence[Message], seed: int = 0) -> Conversation:
    """Return *messages* as a conversation with planted facts and drawn gaps."""
    chance = random.Random(seed)
    planted = list(messages)
    facts: dict[str, tuple[str, int]] = {}
    roles = {"constraint": "user", "user id": "user", "decision": "assistant", "result": "tool", "error": "tool"}
    for number in range(FACTS):
        label = tuple(KINDS)[number % len(KINDS)]
        places = [index for index, message in enumerate(planted) if message.role == roles[label]]
        if not places:
            continue
        index, fact = chance.choice(places), f"F-{chance.getrandbits(32):08x}"
        planted[index] = _with(planted[index], KINDS[label].format(fact=fact), last=label == "error")
        facts[fact] = label, index
    gaps = []
    for before, message in pairwise(planted):
        if message.role == "assistant":
            middle, spread = (2.7, 0.8) if before.role == "tool" else (4.1, 1.2)
            gaps.append(chance.lognormvariate(middle, spread) + (chance.random() < 0.02) * chance.uniform(480, 5_400))
    return Conversation(kind, planted, gaps, facts, "You are an agent. Follow the rules of the product. " * 120)


def joined(kind: str, parts: Sequence[Sequence[Message]], seed: int = 0) -> Conversation:
    """Return several conversations as one, with unique ids of calls."""
    return conversation(kind, _renumbered([message for part in parts for message in part]), seed)


def recorded() -> dict[str, list[list[Message]]]:
    """Return the recorded conversations by kind; empty if there are none."""
    if not DATA.exists():
        return {}
    transcripts = DATA / "transcripts"
    coding = [_coding(_load(path)["messages"]) for path in sorted(transcripts.glob("mini-swe-agent-deepseek/*.gz"))]
    service = [
        _service(run["messages"])
        for run in _load(transcripts / "tau2-airline-claude-sonnet-4-5" / "results.json.gz")["simulations"]
    ]
    service += [_service(run["traj"]) for run in _load(transcripts / "tau-bench-airline-gpt-4o" / "runs.json.gz")]
    return {
        "coding": coding,
        "service": [_renumbered(each) for each in service],
        "chains": [_chain(_pages("peps"), seed) for seed in range(4)],
    }


@lru_cache
def _pages(corpus: str) -> list[str]:
    """Return the texts of a *corpus* of documents."""
    with gzip.open(DATA / "corpus" / f"{corpus}.jsonl.gz", "rt") as lines:
        documents = map(json.loads, lines)
        return [document.get("text") or document["content"] for document in documents]


def chained(*, unseen: bool = False) -> dict[str, Conversation]:
    """Return long conversations by kind; *unseen*: others than those that the settings were chosen with.

    Of the recorded coding sessions there are only few, so the unseen ones are the same in another order, with other
    facts.
    """
    if unseen:
        sessions = {"drawn": [drawn(seed) for seed in (11, 12)], "short": [drawn(seed, 60) for seed in range(21, 29)]}
    else:
        sessions = {"drawn": [drawn(seed) for seed in range(2)]}
    if found := recorded():
        cuts = (slice(None, None, -1), slice(50, 100), slice(2, 3)) if unseen else (slice(None), slice(50), slice(1))
        sessions |= {kind: found[kind][cut] for kind, cut in zip(("coding", "service", "chains"), cuts, strict=True)}
    return {kind: joined(kind, parts, 7 * unseen) for kind, parts in sessions.items()}


@lru_cache(maxsize=4)
def fresh(seed: int) -> dict[str, Conversation]:
    """Return long conversations by kind, drawn with *seed*: other lengths, orders, excerpts, gaps and facts."""
    chance, found = random.Random(f"long {seed}"), recorded()
    sessions = {
        "drawn": [drawn(chance.getrandbits(32), chance.randint(120, 300)) for _ in range(2)],
        "short": [drawn(chance.getrandbits(32), chance.randint(30, 90)) for _ in range(8)],
        "logs": [_logs(chance.getrandbits(32), chance.randint(80, 200)) for _ in range(2)],
    }
    if found:
        sessions["coding"] = [_excerpt(chance, chance.choice(found["coding"])) for _ in range(6)]
        sessions["service"] = chance.sample(found["service"], chance.randint(40, 75))
        sessions["chains"] = [_chain(_pages("peps"), chance.getrandbits(32), chance.randint(60, 140))]
        sessions["bank"] = [
            _chain(_pages("banking"), chance.getrandbits(32), chance.randint(60, 140)) for _ in range(2)
        ]
    return {kind: joined(kind, parts, chance.getrandbits(32)) for kind, parts in sessions.items()}


@lru_cache(maxsize=4)
def fresh_natural(seed: int) -> dict[str, Conversation]:
    """Return conversations of natural length, drawn with *seed*."""
    chance, found = random.Random(f"natural {seed}"), recorded()
    sessions = {f"drawn {n}": drawn(chance.getrandbits(32), chance.randint(10, 200)) for n in range(6)}
    sessions |= {f"logs {n}": _logs(chance.getrandbits(32), chance.randint(10, 100)) for n in range(3)}
    for n in range(4 if found else 0):
        sessions[f"coding {n}"] = _excerpt(chance, chance.choice(found["coding"]))
        sessions[f"service {n}"] = chance.choice(found["service"])
        for kind in ("peps", "banking"):
            sessions[f"{kind} {n}"] = _chain(_pages(kind), chance.getrandbits(32), chance.randint(10, 80))
    return {kind: conversation(kind, part, chance.getrandbits(32)) for kind, part in sessions.items()}


def _excerpt(chance: random.Random, messages: Sequence[Message]) -> list[Message]:
    """Return the first messages of a tool loop, and a part of the rest that begins with an answer."""
    answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
    start = answers[int(chance.random() ** 2 * len(answers) / 2)]
    end = answers[chance.randint(2 * len(answers) // 3, len(answers) - 1)]
    return _renumbered([*messages[: answers[0]], *messages[start:end], AssistantMessage((Text("Done."),))])


def _logs(seed: int, steps: int) -> list[Message]:
    """Return a random tool loop with results full of numbers, ids and paths."""
    chance = random.Random(seed)

    def result() -> str:
        lines = min(max(int(chance.lognormvariate(3, 1)), 1), 300)
        return "\n".join(
            f"2026-11-{chance.randint(1, 30):02} {chance.choice(('INFO', 'WARN'))} /srv/{chance.getrandbits(64):x}.py:"
            f"{chance.randint(1, 999)} took={chance.random():.4f}s id={chance.getrandbits(48)}"
            for _ in range(lines)
        )

    return _loop(chance, steps, lambda middle: result()[: 5 * middle], result)


def drawn(seed: int, steps: int = 240) -> list[Message]:
    """Return a random tool loop with parallel calls and occasional messages of the user."""
    chance = random.Random(seed)

    def words(middle: int) -> str:
        count = min(max(int(chance.lognormvariate(0, 0.7) * middle), 3), 20 * middle)
        return " ".join(
            chance.choice(("order", "list", "of", "the", "found", "value", "42", "line")) for _ in range(count)
        )

    return _loop(chance, steps, words, lambda: words(250))


def _chain(pages: Sequence[str], seed: int, steps: int = 90) -> list[Message]:
    """Return a research loop that reads long excerpts, often several at once."""
    chance = random.Random(seed)

    def page() -> str:
        text = chance.choice(pages)
        start, size = chance.randrange(max(len(text) - 2_000, 1)), int(chance.lognormvariate(8, 1))
        return text[start : start + min(size, 24_000)] or "-"

    return _loop(chance, steps, lambda middle: page()[: 5 * middle], page)


def _loop(chance: random.Random, steps: int, words: Callable[[int], str], result: Callable[[], str]) -> list[Message]:
    messages: list[Message] = [UserMessage(words(120))]
    for step in range(steps):
        if step and chance.random() < 0.06:
            messages += [AssistantMessage((Text(words(60)),)), UserMessage(words(40))]
        calls = [ToolCall(f"c{step}_{n}", "work", "{}") for n in range(chance.choice((1, 1, 1, 2, 4)))]
        messages.append(AssistantMessage((Text(words(40)), *calls), "tool_calls"))
        messages += [ToolMessage(call.id, "work", result()) for call in calls]
    return _renumbered([*messages, AssistantMessage((Text(words(60)),))])


def _load(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _coding(found: Sequence[dict[str, Any]]) -> list[Message]:
    """Return a tool loop in which each answer is a call, and each message after it its result."""
    messages: list[Message] = []
    for said in found:
        content = said.get("content") or ""
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if said["role"] == "assistant":
            messages.append(AssistantMessage((Text(text or "-"), ToolCall("c", "work", "{}")), "tool_calls"))
        elif messages and messages[-1].role == "assistant":
            messages.append(ToolMessage("c", "work", text or "-"))
        elif said["role"] == "user":
            messages.append(UserMessage(text))
    if messages[-1].role == "assistant":
        messages.pop()
    return _renumbered([*messages, AssistantMessage((Text("Done."),))])


def _service(found: Sequence[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for said in found:
        text = said.get("content") or ""
        if said["role"] == "assistant" and messages:
            calls = [
                ToolCall(call["id"], "work", json.dumps(call.get("arguments") or call.get("function")))
                for call in said.get("tool_calls") or ()
            ]
            parts: list[MessagePart] = [Text(text)] if text else []
            if messages[-1].role == "assistant":
                messages.append(UserMessage("Go on."))
            messages.append(AssistantMessage((*parts, *calls) or (Text("-"),), "tool_calls" if calls else "end"))
        elif said["role"] == "user":
            messages.append(UserMessage(text or "-"))
        elif said["role"] == "tool":
            messages.append(ToolMessage(said.get("id") or said.get("tool_call_id") or "", "work", text or "-"))
    return [*messages, AssistantMessage((Text("Goodbye."),))] if messages[-1].role != "assistant" else messages


def _renumbered(messages: Sequence[Message]) -> list[Message]:
    """Return *messages* with unique ids of calls, also in their arguments; results follow their calls in order."""
    made: list[Message] = []
    numbers: Iterator[str] = (f"c{number}" for number in range(1_000_000))
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            parts = [_called(part, numbers) if part.kind == "tool_call" else part for part in message.parts]
            open_calls = [part.id for part in parts if part.kind == "tool_call"]
            made.append(replace(message, parts=tuple(parts)))
        elif isinstance(message, ToolMessage):
            if open_calls:
                made.append(replace(message, call_id=open_calls.pop(0)))
        else:
            made.append(message)
    return made


def _called(call: ToolCall, numbers: Iterator[str]) -> ToolCall:
    number = next(numbers)
    of = json.loads(call.arguments).get("of", call.arguments) if call.arguments.startswith('{"id"') else call.arguments
    return replace(call, id=number, arguments=json.dumps({"id": number, "of": of}))


def _with(message: Message, sentence: str, *, last: bool) -> Message:
    """Return *message* with *sentence* in its text: as its last line, or in the middle."""
    if isinstance(message, AssistantMessage):
        return replace(message, parts=(Text(sentence), *message.parts))
    text = message.content if isinstance(message, ToolMessage) else message.text
    middle = len(text) if last else max(text.find("\n", len(text) // 2), 0)  # between two lines
    text = f"{text[:middle]}\n{sentence}\n{text[middle:]}".strip("\n")
    return replace(message, content=text) if isinstance(message, ToolMessage) else replace(message, text=text)
