"""The part that keeps most tools out of the requests until the model has searched for them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from math import log
from typing import Any
from weakref import WeakKeyDictionary

from ...errors import ConfigurationError
from ...messages import AssistantMessage, ToolCall, ToolMessage
from ...orchestrator.agent import Part
from ...orchestrator.outcome import Outcome, Special
from ...orchestrator.run import RunContext
from ...text import STOP_WORDS, index_terms, stem
from ...token_engine.digests import RECALL
from ...tools.base import Tool, ToolContext
from ...tools.registry import ToolRegistry

FIND_TOOLS = "find_tools"
_CHARACTERS = 4
"""Characters that a token of a definition has, about."""
_SHOWN = 200
_NAME_WEIGHT = 3
_K1, _B = 1.2, 0.75
"""The usual parameters of BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ToolSearch(Part):
    """Hides the tools of an agent once their definitions exceed *share* of the model's context.

    The model then sees the tools in *keep* and `find_tools`. A search returns up to *limit* tools. Their definitions
    are in all later requests of the run, and of the runs that continue its conversation. They are called like any tool:
    all hooks, effects and approvals apply. Below the share, nothing changes.

    Each search adds definitions before the conversation, so the provider's cache of the conversation is lost once.

    Raises `ConfigurationError` if *share* is not between 0 and 1, or *limit* is not positive.
    """

    def __init__(self, *, share: float = 0.1, keep: Collection[str] = (), limit: int = 5) -> None:
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigurationError(f"ToolSearch(share={share!r:.80}): use a share from 0 to 1")
        if isinstance(keep, str):
            raise ConfigurationError(f"ToolSearch(keep={keep!r:.80}): use a tuple of names")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"ToolSearch(limit={limit!r:.80}): use an integer above 0")
        self.tools = (_FindTools(),)
        self._share = share
        self._keep = frozenset(keep)
        self._limit = limit
        self._deferred: WeakKeyDictionary[ToolRegistry, dict[str, Tool]] = WeakKeyDictionary()
        """The tools that the runs in progress do not show, by their registries."""

    def should_send_tools(self, run: RunContext[Any]) -> bool:
        """Defer the tools before the first request of a run in this process. Tools are sent."""
        if run.registry not in self._deferred:
            self._deferred[run.registry] = self._defer(run)
        return True

    def handle_special_tools(self, run: RunContext[Any], call: ToolCall, outcome: Outcome) -> Special | None:
        """Search, and add the definitions of what is found."""
        if call.name != FIND_TOOLS or outcome.is_error:
            return None
        deferred = self._deferred.setdefault(run.registry, {})
        known = [tool for tool in run.registry if tool.name != FIND_TOOLS]
        found = ranked([*deferred.values(), *known], outcome.content, self._limit)
        for tool in found:
            if deferred.pop(tool.name, None) is not None:
                run.registry.register(tool)
        lines = [f"{tool.spec.name}: {tool.description[:_SHOWN]}" for tool in found]
        return Special(result="\n".join(lines) or f"No tool matches. There are tools of: {_areas(deferred)}")

    def _defer(self, run: RunContext[Any]) -> dict[str, Tool]:
        registry = run.registry
        kept = {*self._keep, FIND_TOOLS, RECALL}
        tools = {tool.name: tool for tool in registry if tool.name not in kept}
        size = sum([_size(tool) for tool in tools.values()]) / _CHARACTERS
        if size <= self._share * run.limits.context or FIND_TOOLS not in registry:  # it may not be allowed
            registry.unregister(FIND_TOOLS)
            return {}
        shown = _names_in(run)
        deferred = {name: tool for name, tool in tools.items() if name not in shown and tool.spec.name not in shown}
        for name in deferred:
            registry.unregister(name)
        return deferred


class _FindTools(Tool):
    name = FIND_TOOLS
    description = (
        "Find further tools, which are not listed here. Describe what you want to do in a few words, with the names of "
        "the systems and things concerned. The tools that are found can be called in the next step."
    )
    parameters = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 1, "description": "What to do, in a few words"}},
        "required": ["query"],
        "additionalProperties": False,
    }
    effect = "read"
    counts_as_iteration = False
    exclusive = True

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return the query: `ToolSearch` replaces it by the result."""
        return str(arguments["query"])


def ranked(tools: Sequence[Tool], query: str, limit: int) -> list[Tool]:
    """Return up to *limit* of the *tools* that match *query*, best first: BM25 with the words of names three times."""
    documents = [_terms(tool) for tool in tools]
    lengths = [sum(terms.values()) for terms in documents]
    average = sum(lengths) / max(len(lengths), 1)
    scores = [0.0] * len(tools)
    for term in dict.fromkeys(_stems(query)):
        holders = [index for index, terms in enumerate(documents) if term in terms]
        rarity = log(1 + (len(tools) - len(holders) + 0.5) / (len(holders) + 0.5))
        for index in holders:
            often = documents[index][term]
            scores[index] += rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * lengths[index] / average))
    best = sorted([index for index, score in enumerate(scores) if score > 0], key=lambda index: (-scores[index], index))
    return [tools[index] for index in best[:limit]]


def _terms(tool: Tool) -> Counter[str]:
    found: Counter[str] = Counter()
    for word in _stems(tool.name):
        found[word] += _NAME_WEIGHT
    found.update(_stems(tool.description))
    properties = tool.parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        found.update(_stems(name))
        found.update(_stems(str(schema.get("description", ""))) if isinstance(schema, dict) else ())
    return found


def _stems(text: str) -> list[str]:
    return [stem(term) for term in index_terms(_CAMEL.sub(" ", text)) if term not in STOP_WORDS]


def _size(tool: Tool) -> int:
    return len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters))


def _names_in(run: RunContext[Any]) -> set[str]:
    """Return the names of the tools that the conversation has called or found."""
    names: set[str] = set()
    for message in run.messages:
        if isinstance(message, AssistantMessage):
            names.update([call.name for call in message.tool_calls])
        elif isinstance(message, ToolMessage) and message.name == FIND_TOOLS:
            names.update([line.partition(":")[0] for line in message.content.splitlines()])
    return names


def _areas(deferred: Collection[str]) -> str:
    areas = Counter(re.split(r"[._-]", name)[0] for name in deferred)
    return ", ".join([name for name, _ in areas.most_common(20)]) or "none"
