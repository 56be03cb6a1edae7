"""Published policies for a context window, the bill of a provider with a prompt cache, and the facts that are in view.

Costs are in tokens of uncached input. A request hits the longest cached prefix that has not expired. With cache
breakpoints, entries end at breakpoints only, and each breakpoint looks back a number of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.context_conversations import FACT, Conversation
from concertino.cache_rules import CacheRule
from concertino.messages import AssistantMessage, Message, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.token_engine.counting.sizes import FRAME, message_text

EVERY = 5
"""Facts are looked for in every fifth request."""
REASONING = 600
"""Tokens of reasoning before a summary."""
REACH = 20
"""Blocks before a breakpoint in which Anthropic looks for an entry ("Prompt caching")."""
RECORD = "[Record of the conversation]"
"""The beginning of a published policy's summary."""
Part = tuple[object, int, int]
"""A part of a request: its content, tokens and content blocks."""


class Sizes:
    """The provider's tokens of messages, *factor* times those of o200k_base, and their facts; each is read once."""

    def __init__(self, factor: float = 1.0) -> None:
        self._counter = TiktokenCounter()
        self._factor = factor
        self._known: dict[int, tuple[Message, int, frozenset[str]]] = {}

    def _read(self, message: Message) -> tuple[Message, int, frozenset[str]]:
        known = self._known.get(id(message))
        if known is None:
            text = message_text(message)
            known = message, self.count(text) + FRAME // 2, frozenset(FACT.findall(text))
            self._known[id(message)] = known
        return known

    def tokens(self, message: Message) -> int:
        return self._read(message)[1]

    def facts(self, message: Message) -> frozenset[str]:
        return self._read(message)[2]

    def count(self, text: str) -> int:
        return int(self._factor * self._counter.count(text))


@dataclass
class Cache:
    """A provider's cache, and the bill so far."""

    rule: CacheRule
    live: dict[int, float] = field(default_factory=dict)
    cost: float = 0.0

    def bill(self, parts: Sequence[Part], marks: Iterable[int] | None, now: float) -> int:
        """Charge a request of *parts*; return the tokens read from the cache.

        *marks*: positions of cache breakpoints, for a provider that uses them.
        """
        rule, total, state = self.rule, 0, 0
        states, sums = [], []
        for what, tokens, _ in parts:
            state, total = hash((state, what)), total + tokens
            states.append(state)
            sums.append(total)
        places: Iterable[int] = range(len(states) - 1, -1, -1)
        if rule.breakpoints:
            places = [place for mark in sorted(marks or (), reverse=True) for place in _reached(parts, mark)]
        hit, minimum = self._found(states, sums, places, now), self._minimum
        at = sorted(marks) if rule.breakpoints and marks is not None else range(len(states))
        for place in at:
            if sums[place] >= minimum:
                self.live[states[place]] = now
        written = (sums[max(at)] if at else 0) if rule.breakpoints else total
        self.cost += rule.read * hit + rule.write * max(written - hit, 0) + (total - max(written, hit))
        return hit

    def _found(self, states: list[int], sums: list[int], places: Iterable[int], now: float) -> int:
        rule = self.rule
        for place in places:
            if now - self.live.get(states[place], -1e18) <= rule.seconds:
                self.live[states[place]] = now
                found = sums[place] if rule.breakpoints else sums[place] // 128 * 128
                return found if found >= self._minimum else 0
        return 0

    @property
    def _minimum(self) -> int:
        """Return the tokens of the shortest prefix that is cached: of Claude Sonnet, or the longest of the others."""
        return 1_024 if self.rule.breakpoints else 4_096


def _reached(parts: Sequence[Part], mark: int) -> Iterator[int]:
    """Yield the places, back from *mark*, at which a provider looks for an entry."""
    left = REACH
    while mark >= 0 and left > 0:
        yield mark
        left -= parts[mark][2]
        mark -= 1


def part_of(what: object, message: Message, sizes: Sizes) -> Part:
    """Return *message* as a part of a request, known as *what*: an answer has a block for each text and call."""
    return what, sizes.tokens(message), len(message.parts) if isinstance(message, AssistantMessage) else 1


@dataclass
class Figures:
    """What a policy cost, and where the facts were at the requests."""

    cost: float = 0.0
    verbatim: int = 0
    summary: int = 0
    recallable: int = 0
    lost: int = 0
    constraints: int = 0
    constraints_verbatim: int = 0
    requests: int = 0
    summaries: int = 0
    summary_input: int = 0
    summary_input_cost: float = 0.0
    summary_output_cost: float = 0.0
    most: int = 0
    misses: int = 0
    edits: int = 0

    def look(
        self, conversation: Conversation, end: int, shown: Iterable[Message], sizes: Sizes, *, recallable: bool = False
    ) -> None:
        """Look for the facts of the first *end* messages in the messages *shown*."""
        verbatim: set[str] = set()
        summarized: set[str] = set()
        for message in shown:
            (summarized if is_record(message) else verbatim).update(sizes.facts(message))
        for fact, (kind, index) in conversation.facts.items():
            if index >= end:
                continue
            here = fact in verbatim
            self.verbatim += here
            self.summary += not here and fact in summarized
            self.recallable += not here and fact not in summarized and recallable
            self.lost += not here and fact not in summarized and not recallable
            if kind == "constraint":
                self.constraints += 1
                self.constraints_verbatim += here

    def share(self, found: int) -> float:
        """Return *found* as a share of all facts looked for."""
        return found / max(self.verbatim + self.summary + self.recallable + self.lost, 1)


def is_record(message: Message) -> bool:
    """Return True if *message* is a summary."""
    return message.role == "user" and message.text.startswith("[Record of the")


def summary_of(messages: Iterable[Message], sizes: Sizes, most: int = 2_000) -> str:
    """Return a faithful summary: all facts of *messages*, and 8 % of their length but at most *most* tokens."""
    facts: set[str] = set()
    tokens = 0
    for message in messages:
        facts |= sizes.facts(message)
        tokens += sizes.tokens(message)
    text = " ".join(sorted(facts))
    return f"{text} " + "and " * max(min(int(0.08 * tokens), most) - sizes.count(text), 10)


# -- published policies ------------------------------------------------------------------------------------------------


class Policy:
    """Sends everything, whatever its size."""

    name = "no trimming"
    cached_summary = False
    """True if the request for a summary extends the cached prefix."""

    def __init__(self, sizes: Sizes, limit: int) -> None:
        self.sizes, self.limit = sizes, limit

    def tokens(self, view: Sequence[Message]) -> int:
        return sum(map(self.sizes.tokens, view))

    def kept(self, view: list[Message]) -> tuple[list[Message], list[Message]] | None:
        """Return the messages before and behind the summary to be made; None if none is due."""
        return None

    def edit(self, view: list[Message]) -> list[Message]:
        """Return the view without the messages that are dropped."""
        return view

    def fitting(self, view: list[Message]) -> list[Message]:
        """Return the messages that fit one request: those of the view without the oldest ones."""
        size, first = self.tokens(view), 0
        while size > self.limit and first < len(view) - 1:
            size -= self.sizes.tokens(view[first])
            first += 1
        return view[first:]

    def groups(self, view: Sequence[Message], start: int) -> int:
        """Return *start*, or the beginning of the group that it is in."""
        while start > 0 and view[start].role == "tool":
            start -= 1
        return start


class Sliding(Policy):
    """Drops the oldest groups at each request until the rest fits."""

    name = "sliding window"

    def edit(self, view: list[Message]) -> list[Message]:
        used, first = self.tokens(view), 0
        while used > self.limit and first < len(view) - 2:
            used -= self.sizes.tokens(view[first])
            first += 1
            while first < len(view) - 1 and view[first].role == "tool":
                used -= self.sizes.tokens(view[first])
                first += 1
        return view[first:] if first else view


class AtShare(Policy):
    """LangChain's SummarizationMiddleware: at 85 % of the window, all but the newest 20 messages become a summary."""

    name = "summarise at 85 %"

    def kept(self, view: list[Message]) -> tuple[list[Message], list[Message]] | None:
        if self.tokens(view) <= 0.85 * self.limit or len(view) <= 21:
            return ([], view[self.groups(view, len(view) - 2) :]) if self.tokens(view) > self.limit else None
        return [], view[self.groups(view, len(view) - 20) :]


class OpenHands(Policy):
    """OpenHands' LLMSummarizingCondenser: of 80 events, the first 4 and the newest 35 stay."""

    name = "OpenHands"

    def kept(self, view: list[Message]) -> tuple[list[Message], list[Message]] | None:
        full = self.tokens(view) > self.limit
        if len(view) <= 80 and not full:
            return None
        keep = min(35, len(view) // 2)
        while keep > 1 and self.tokens(view[-keep:]) > 0.5 * self.limit:
            keep //= 2
        start = self.groups(view, len(view) - keep)
        head = view[: self._head(view)]
        if full:
            head = head[:1]
        return head, view[max(start, len(head)) :]

    def _head(self, view: list[Message]) -> int:
        return next((n for n in range(4, len(view)) if view[n].role != "tool"), 4)


class Codex(Policy):
    """Codex: at 90 % of the window, the user's newest 20,000 tokens and a summary replace everything.

    Where the messages do not fit the request for the summary, it drops the oldest ones from it, one by one
    (openai/codex, `codex-rs/core/src/compact.rs`).
    """

    name = "Codex"
    cached_summary = True

    def kept(self, view: list[Message]) -> tuple[list[Message], list[Message]] | None:
        if self.tokens(view) <= 0.9 * self.limit:
            return None
        users: list[Message] = []
        left = min(20_000, self.limit // 4)
        for message in reversed(view):
            if message.role == "user" and not is_record(message):
                left -= self.sizes.tokens(message)
                if left < 0:
                    break
                users.insert(0, message)
        return users, []


POLICIES = (Policy, Sliding, AtShare, OpenHands, Codex)


def simulate(conversation: Conversation, policy: Policy, rule: CacheRule, system: int) -> Figures:
    """Return the figures of *policy*; the system prompt and tools have *system* tokens."""
    figures, cache, sizes, now = Figures(), Cache(rule), policy.sizes, 0.0
    view: list[Message] = []
    gaps = iter(conversation.gaps)
    last = 0
    for index, message in enumerate(conversation.messages):
        if message.role == "assistant":
            now += next(gaps)
            view = policy.edit(view)
            while (kept := policy.kept(view)) is not None:
                before, behind = kept
                stays = {id(each) for each in (*before, *behind)}
                read = policy.fitting(view) if policy.cached_summary else view
                gone = [each for each in read if id(each) not in stays]
                text = summary_of(gone, sizes)
                cost = cache.cost
                size = system + sum(map(sizes.tokens, read if policy.cached_summary else gone))
                if policy.cached_summary:
                    cache.bill(_parts(read, sizes, system), (0, len(read)), now)
                else:
                    cache.cost += size
                figures.summary_input += size
                figures.summary_input_cost += cache.cost - cost
                figures.summary_output_cost += rule.output * (sizes.count(text) + REASONING)
                cache.cost += rule.output * (sizes.count(text) + REASONING)
                figures.summaries += 1
                view = [*before, UserMessage(f"{RECORD}\n{text}"), *behind]
                last = 0
                if len(gone) < 2:
                    break
            parts = _parts(view, sizes, system)
            cache.bill(parts, sorted({0, min(last, len(view)), len(view)}), now)
            last = len(view)
            figures.most = max(figures.most, sum(tokens for _, tokens, _ in parts))
            if figures.requests % EVERY == 0:
                figures.look(conversation, index, view, sizes)
            figures.requests += 1
        view.append(message)
    figures.cost = cache.cost
    return figures


def _parts(view: Sequence[Message], sizes: Sizes, system: int) -> list[Part]:
    return [("system", system, 1), *(part_of(id(message), message, sizes) for message in view)]
