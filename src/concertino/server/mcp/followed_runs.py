"""The runs that MCP clients start: followed within a call, answered by the user of the client, read later."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from ...agents.workflow.outside_tools import OutsideSteps
from ...errors import RunClaimedError, RunEndedError, UnknownRunError
from ...runtime import Runtime
from ...scope import Scope
from ...storage.types import StoredRun
from ...waits import Wait
from ..protocols.turn_log import give
from .call_report import ended_report, progress_of, report, running_report, waiting_report
from .wait_forms import answer_of, form_of

McpContext = ServerRequestContext[Any, Request]
McpAnswer = types.CallToolResult | types.InputRequiredResult
_POLL = 0.02
_MOST_WAITS = 100
_LISTED, _SCANNED = 20, 200


class FollowedRuns:
    """The runs of *agents*, which calls follow for *seconds* at most."""

    def __init__(self, runtime: Runtime, agents: Collection[str], outside: OutsideSteps, seconds: float) -> None:
        self._runtime = runtime
        self._agents = agents
        self._outside = outside
        self._seconds = seconds

    async def known(self, scope: Scope, run_id: str) -> StoredRun:
        """Return a run that a client may see. Raises `UnknownRunError`."""
        stored = await self._runtime.store.run(scope, run_id)
        if stored is None or stored.start.agent not in self._agents or stored.start.run_id != stored.start.root_id:
            raise UnknownRunError(f"there is no run {run_id!r:.80}: list_runs has yours")
        return stored

    async def follow(self, context: McpContext, scope: Scope, run_id: str, after: int | None = None) -> McpAnswer:
        """Follow a run until it ends, waits for someone else than the user, or has taken too long.

        Progress begins *after* an event, by default after the last one.
        """
        capabilities = context.session.client_capabilities
        asks = capabilities is not None and capabilities.elicitation is not None
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(self._seconds):
                    waits = await self._until_idle(context, scope, run_id, after)
                forms = {wait.key: form for wait in waits if asks and (form := form_of(wait, scope)) is not None}
                if not forms:
                    break
                if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    asked: types.InputRequests = {key: types.ElicitRequest(params=form) for key, form in forms.items()}
                    return types.InputRequiredResult(input_requests=asked, request_state=run_id)
                if not await self.take(scope, run_id, await _answers(context, forms)):
                    break
                after = None
        return await self.state(scope, run_id)

    async def _until_idle(self, context: McpContext, scope: Scope, run_id: str, after: int | None) -> Sequence[Wait]:
        """Report the progress of a run until it ends or waits, and return its open waits."""
        if after is None:
            positions = await self._runtime.store.event_positions(scope, [run_id])
            after = max([0, *[last for _, last, _, _ in positions]])
        while True:
            async with aclosing(self._runtime.events(scope, run_id, after, until="suspended")) as events:
                async for after, event in events:
                    if text := progress_of(event):
                        await context.session.report_progress(after, None, text)
            stored = await self.known(scope, run_id)
            waits = [] if stored.end is not None else await self._waits(scope, run_id)
            if waits or stored.state != "suspended":
                return waits
            await asyncio.sleep(_POLL)  # everything is answered: some process resumes the run

    async def _waits(self, scope: Scope, run_id: str) -> list[Wait]:
        return list(await self._runtime.store.waits(scope, root_id=run_id, open=True, limit=_MOST_WAITS))

    async def take(self, scope: Scope, run_id: str, responses: Mapping[str, Any]) -> bool:
        """Give the user's answers to a run, and resume it. Return whether there were any."""
        waits = {wait.key: wait for wait in await self._waits(scope, run_id)}
        given = False
        for key, response in responses.items():
            wait = waits.get(key)
            if wait is None or not isinstance(response, types.ElicitResult) or form_of(wait, scope) is None:
                continue
            if (answer := answer_of(wait, response)) is not None:
                await give(self._runtime, scope, answer)
                given = True
        if given:
            await self.resume(scope, run_id)
        return given

    async def resume(self, scope: Scope, run_id: str) -> None:
        """Resume a run after an answer, unless another process has been first."""
        with suppress(RunClaimedError, RunEndedError):
            await self._runtime.resume(scope, run_id)

    async def state(self, scope: Scope, run_id: str) -> types.CallToolResult:
        """Return the state of a run. Raises `UnknownRunError`."""
        stored = await self.known(scope, run_id)
        if stored.end is not None:
            return ended_report(await self._runtime.result(scope, run_id))
        waits = await self._waits(scope, run_id) if stored.state == "suspended" else []
        return waiting_report(run_id, waits, self._outside, scope) if waits else running_report(run_id)

    async def listed(self, scope: Scope) -> types.CallToolResult:
        """Return the newest runs with their states."""
        found = await self._runtime.store.runs(scope, roots=True, limit=_SCANNED)
        shown = [
            {"run": each.start.run_id, "agent": each.start.agent, "status": each.end.status if each.end else each.state}
            for each in found
            if each.start.agent in self._agents
        ]
        return report({"runs": shown[:_LISTED]})


async def _answers(
    context: McpContext, forms: Mapping[str, types.ElicitRequestFormParams]
) -> Mapping[str, types.ElicitResult]:
    """Ask the user of a client before protocol 2026-07-28, within the call."""
    found: dict[str, types.ElicitResult] = {}
    with suppress(MCPError):  # the client cannot ask, or has left: the run waits on
        for key, form in forms.items():
            found[key] = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
    return found
