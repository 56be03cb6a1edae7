"""What the tests of runs and their lives share: a model that follows the conversation, and requests as sent."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from concertino import OPERATOR, AgentConfig, AssistantMessage, Message, ModelRequest, Resources, RunEvent, ToolMessage
from concertino.providers import ModelEvent
from concertino.runtime import LiveRun, Runtime
from concertino.storage import Store
from concertino.testing import ScriptedModel
from tests.wire_bodies import wire_bodies


class Steady(ScriptedModel):
    """Answers by how far the conversation is: in any life of a run the same, with the same ids of calls."""

    def __init__(self, *steps: Any, scripts: Mapping[str, Sequence[Any]] | None = None, most: int = 1000) -> None:
        by_place = {key: [_at(script)] * most for key, script in (scripts or {}).items()}
        super().__init__(*[_at(steps)] * most, scripts=by_place)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `ScriptedModel.stream`."""
        self._calls = sum(len(m.tool_calls) for m in request.messages if isinstance(m, AssistantMessage))
        async for event in super().stream(request):
            yield event


def _at(steps: Sequence[Any]) -> Callable[[ModelRequest], Any]:
    return lambda request: steps[sum(isinstance(m, AssistantMessage) for m in request.messages)]


def wire(request: ModelRequest) -> tuple[bytes, ...]:
    """The request as each provider would be sent it."""
    return tuple(wire_bodies(request).values())


def plain(request: ModelRequest) -> dict[str, Any]:
    """All fields, to be compared."""
    fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    return {**fields, "messages": list(request.messages), "extra": json.loads(json.dumps(request.extra))}


def runtime(store: Store, model: ScriptedModel, *agents: AgentConfig[Any], **settings: Any) -> Runtime:
    """Another process, as it were."""
    shared = {field.name for field in dataclasses.fields(Resources)} & settings.keys()
    resources = Resources(store=store, models=lambda name: model, **{name: settings.pop(name) for name in shared})
    return Runtime(agents, resources, sweep=settings.pop("sweep", 0.02), **settings)


def is_valid(messages: Iterable[Message]) -> bool:
    """Whether every provider takes the conversation: each call has one result, in order, before the next answer."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not open_calls or open_calls.pop(0) != message.call_id:
                return False
        elif open_calls:
            return False
        elif isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.tool_calls]
    return not open_calls


async def until(live: LiveRun, kind: type[Any], many: int = 1) -> Any:
    """The event of a kind, as soon as there are so many of them."""
    async for _, event in live.events():
        if isinstance(event, kind):
            many -= 1
            if not many:
                return event
    raise AssertionError(f"the run has ended without a {kind.__name__}")


async def seen(live: LiveRun) -> list[RunEvent]:
    """All events."""
    return [event async for _, event in live.events()]


async def state(condition: Callable[[], bool]) -> None:
    """Wait until it holds."""
    while not condition():  # noqa: ASYNC110 - what is waited for knows nothing of its being waited for
        await asyncio.sleep(0.001)


async def ended(store: Store, run_id: str, wanted: str = "") -> None:
    """Wait until the run has ended, or is in the state *wanted*."""

    async def there() -> bool:
        stored = await store.run(OPERATOR, run_id)
        return stored is not None and (stored.state == wanted if wanted else stored.end is not None)

    while not await there():  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.002)


def texts(messages: Iterable[Message]) -> list[str]:
    """What tools said."""
    return [m.content for m in messages if isinstance(m, ToolMessage)]


def measured(usage: Iterable[Any]) -> Counter[Any]:
    """What was used, whichever attempt it was."""
    return Counter((r.agent_path, r.tokens, r.tools, r.model) for r in usage if r.source == "measured")
