"""The resources of each run: one object for all runs, or what a function of the product returns for their scope."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigurationError, ResourcesError
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.resources import Resources
from ..orchestrator.validation import check_chat
from ..providers import RateLimit
from ..scope import Scope
from ..storage.base import Store
from .bus.base import MessageBell
from .counts import RuntimeCounts
from .fleet import Fleet
from .starts import Starts, TooSlowError

if TYPE_CHECKING:
    from .publication import Publisher

ResourcesFunction = Callable[[Scope, AgentConfig[Any]], Resources | Awaitable[Resources]]
"""Returns the resources of a run of an agent for its owner. It is called when a run starts, and whenever a process
resumes it; sub-agents use the resources of their root."""


class RunResources:
    """The resources of the runs in one store.

    Raises `ConfigurationError` if *given* is neither resources nor a function, or if its store is not *store*.
    """

    def __init__(self, given: Resources | ResourcesFunction, store: Store | None) -> None:
        if not isinstance(given, Resources) and not callable(given):
            raise ConfigurationError(
                f"Runtime(resources={given!r:.80}): use Resources, or a function of scope and agent that returns them"
            )
        if store is None:
            store = given.store if isinstance(given, Resources) else None
        if store is None:
            from ..storage.sqlite import MemoryStore  # noqa: PLC0415 - only runtimes without a store need it

            store = MemoryStore()
        self.store: Store = store
        self._journals = store
        """The store as runs write their journals."""
        self._publisher: Publisher | None = None
        self._rate_limits: Mapping[str, RateLimit] = {}
        self._allowed_tools: Mapping[str, Collection[str]] = {}
        self.shared = self._in_store(given) if isinstance(given, Resources) else None
        """The resources of all runs; None if they depend on the run."""
        self._function = None if isinstance(given, Resources) else given

    def wait_in(self, starts: Starts) -> None:
        """Let *starts* bound the time that the function may take."""
        starts.may_be_slow = self.shared is None
        self._starts = starts

    async def of(self, chat: Chat, agent: AgentConfig[Any]) -> Resources:
        """Return the resources of a run, for the scope of its chat.

        Raises `ConfigurationError` if *chat* is not a chat or has no scope, and `ResourcesError`, whose cause is the
        error of the function.
        """
        if self._function is None:
            assert self.shared is not None
            return self.shared
        if not isinstance(chat, Chat) or not isinstance(chat.scope, Scope):
            check_chat(chat, Resources())  # raises: the function is never asked for something else than a scope
        try:
            found = self._function(chat.scope, agent)
            if inspect.isawaitable(found):
                found = await self._starts.wait_for(chat.scope.tenant, found)
        except TooSlowError as error:
            raise ResourcesError(f"Runtime(resources=...) {error}, for agent {agent.name!r}") from error
        except Exception as error:
            # Neither the scope nor the text of the error, which may contain a key: the run may keep this message.
            problem = f"Runtime(resources=...) failed for agent {agent.name!r}: {type(error).__name__}"
            raise ResourcesError(problem) from error
        if not isinstance(found, Resources):
            kind = type(found).__name__
            raise ResourcesError(
                f"Runtime(resources=...) returned {kind} for agent {agent.name!r}: return Resources, and raise an "
                "error if the scope has none"
            )
        return self._in_store(found)

    def join(self, fleet: Fleet, counts: RuntimeCounts) -> Store:
        """Use the limits and tools of *fleet* for providers and agents for which the resources of a run have none.

        Return the store as this process writes journals: it publishes them if the fleet does.
        """
        self._rate_limits, self._allowed_tools = fleet.rate_limits, fleet.allowed_tools
        if fleet.publishes:
            from .publication import Publisher, published  # noqa: PLC0415 - few fleets publish

            self._publisher = Publisher(self.store, cast("MessageBell", fleet.bell), counts)
            self._journals = published(self.store, self._publisher)
        if self.shared is not None:
            self.shared = self._in_store(self.shared)
        return self._journals

    async def close(self) -> None:
        """Send the messages that are left."""
        if self._publisher is not None:
            await self._publisher.close()

    def _in_store(self, resources: Resources) -> Resources:
        store = resources.store
        if store is not None and store is not self.store and store is not self._journals:
            raise ResourcesError(
                "Resources(store=...) of a run is not its runtime's: leave it out, and use Runtime(store=...)"
            )
        if store is not self._journals or self._rate_limits or self._allowed_tools:
            resources = resources.within(self._journals, self._rate_limits, self._allowed_tools)
        return resources
