"""The next request: made as the agent wants it, paid for from its budgets, and on record before it is sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...errors import BudgetError, ContextTooLongError, ProviderError
from ...events import ContextEdited
from ...messages import Messages
from ...providers.base import Model, ModelRequest, model_id
from ...token_engine.edits import Edit, Reduce, Summarize
from ...token_engine.engine import Plan
from ...token_engine.planner import SummaryJob
from ...token_engine.recall import RECALL
from ..hooks import Hooks
from ..journal.replay import OpenRequest
from ..lifecycle.recorder import note_asking
from ..limits import Limits
from ..outcome import Finish, GoOn, StepOutcome
from ..run import Run
from .summarize import can_summarise

Asked = tuple[Model, ModelRequest, str]
"""The model, the request, and the usage id of the attempt."""


class Requesting:
    """Makes one request. If a budget has no room for it, `outcome` says how the step ends instead."""

    __slots__ = ("_hooks", "_own_messages", "_planned", "_run", "job", "model", "outcome")

    def __init__(self, run: Run[Any], hooks: Hooks) -> None:
        self._run = run
        self._hooks = hooks
        self._own_messages = False
        self._planned = False
        self.model = ""
        """The id of the model that the request was made for."""
        self.job: SummaryJob | None = None
        """A summary that is to be made as soon as the answer is there."""
        self.outcome: StepOutcome = GoOn()

    @property
    def planned(self) -> bool:
        """Whether the request was made here, and not found on record."""
        return self._planned

    @property
    def own_messages(self) -> bool:
        """Whether the agent has put messages of its own into the request."""
        return self._own_messages

    async def on_record(self) -> Asked | None:
        """The request, which may be sent now; None: it may not."""
        run = self._run
        opened, run.opened = run.opened, None
        if isinstance(opened, OpenRequest):
            model, request = run.chat.find_model(opened.model), opened.request
            self._own_messages = opened.own_messages
        else:
            run.state.step += 1
            model = run.model
            if self._hooks.has_own("get_model_id"):
                model = run.chat.find_model(await self._hooks.ask("get_model_id", run))
            request = await self._request(model)
        usage = run.next_attempt()
        if run.tree.budgeted:
            return await self._within_budget(model, request, usage)
        if run.journal.on:
            await note_asking(run, usage, model, request, own_messages=self._own_messages)
        return model, request, usage

    async def again(self, asked: Asked, wanted: str, error: ProviderError) -> Asked | None:
        """The same request once more after *error*, to the model with the id *wanted*, and smaller if that takes less:
        on record and paid for like the first; None: it cannot be made smaller, or there is no room for it in a budget.

        Raises `ContextFloorError`.
        """
        run, request = self._run, asked[1]
        model = run.chat.find_model(wanted)
        refused = isinstance(error, ContextTooLongError) and wanted == model_id(asked[0])
        if refused or wanted != model_id(asked[0]):
            limits = self._limits(model)
            output = request.max_output_tokens and min(request.max_output_tokens, limits.output)
            request = dataclasses.replace(request, model=model.name, max_output_tokens=output)
            if refused and self._own_messages:
                return None
            if refused:
                run.window.lower_limit()
            if refused or (limits.context < run.window.limit and not self._own_messages):
                request.messages = await self._shown(model, limits, summaries=False)
                request.marks = run.window.breakpoints
        usage = run.next_attempt()
        if run.tree.budgeted:
            return None if await self._reserve(model, request, usage) else (model, request, usage)
        if run.journal.on:
            await note_asking(run, usage, model, request, own_messages=self._own_messages)
        return model, request, usage

    async def _request(self, model: Model) -> ModelRequest:
        run = self._run
        tools = run.registry.specs()
        send = bool(tools) and await self._hooks.ask("should_send_tools", run)
        choice = run.state.tool_choice if send else "none"
        if not send and not run.call_ids:
            tools = ()  # else they stay: providers refuse a history with calls of tools that nobody declares
        limits = self._limits(model)
        messages = await self._shown(model, limits, summaries=can_summarise(model))
        request = ModelRequest(
            model=model.name,
            system=run.system,
            messages=messages,
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=self._hooks.config.use_parallel_tools and run.limits.parallel_tools > 1,
            max_output_tokens=limits.output,
            marks=run.window.breakpoints,
            cache_key=run.cache_key,
        )
        run.state.tool_choice = "auto"
        if self._hooks.has_own("build_request"):
            request = await self._hooks.ask("build_request", run, request)
            self._own_messages = request.messages is not messages
        return request

    def _limits(self, model: Model) -> Limits:
        run = self._run
        return run.limits if model is run.model else run.chat.limits_of(model, self._hooks.config)

    async def _shown(self, model: Model, limits: Limits, *, summaries: bool) -> Messages:
        """What *model* is to see of the conversation: as much as it takes."""
        run, window = self._run, self._run.window
        window.limit, self.model = limits.context, model_id(model)
        recallable = RECALL in run.registry
        plan = window.plan(run.fixed(), limits.output, self.model, recallable=recallable, summaries=summaries)
        while plan.urgent:
            await self._summarise(plan, model)
            if plan.job is None or not plan.job.prefix_only or not window.prepared:
                break
            plan = window.plan(run.fixed(), limits.output, self.model, recallable=recallable, summaries=summaries)
        self._planned = True
        if plan.job is not None:  # a request that is made anew plans without it: it is under way
            self.job = None if plan.urgent else plan.job
        if edits := window.fit():
            self._tell(edits, window.tokens_before)
        return window.view()

    async def _summarise(self, plan: Plan, model: Model) -> None:
        """The window is full: nothing can be asked before a summary is there."""
        run = self._run
        if plan.job is None:
            await run.summaries.settle()
            return
        messages = run.window.preview()
        request = ModelRequest(
            model=model.name,
            system=run.system,
            messages=messages[: run.window.position_of(plan.job.end)] if plan.job.prefix_only else messages,
            tools=run.registry.specs(),
            max_output_tokens=self._limits(model).output,
            marks=run.window.breakpoints and (),
            cache_key=run.cache_key,
        )
        await run.summaries.now(plan.job, model, request)

    def _tell(self, edits: Sequence[Edit], before: int) -> None:
        run = self._run
        if run.journal.on:
            run.journal.edit(edits)
        reduced = sum(len(edit.indexes) for edit in edits if isinstance(edit, Reduce))
        spans = [edit for edit in edits if isinstance(edit, Summarize)]
        left_out = sum(edit.messages for edit in spans if edit.omitted)
        summarised = sum(edit.messages for edit in spans if not edit.omitted)
        told = (reduced, summarised, left_out, before, run.window.tokens)
        run.mailbox.put(ContextEdited(run.id, run.path, run.index.value, *told))
        if left_out:
            run.notify("context_trimmed", f"the model no longer sees {left_out:,} of the oldest messages")

    async def _within_budget(self, model: Model, request: ModelRequest, usage: str) -> Asked | None:
        """Reserve the worst case. Where there is no room, the agent ends: with a last, shorter answer if it can be
        paid, else with what there is."""
        run = self._run
        refused = await self._reserve(model, request, usage)
        if refused is None:
            return model, request, usage
        if not run.state.budget_reached:
            run.state.budget_reached = True
            run.notify("budget_reached", str(refused))
            decision = await self._hooks.ask("on_no_tool_calls", run, "BUDGET_REACHED", ())
            if decision is False or isinstance(decision, Finish):
                self._end(decision)
                return None
            run.prepare_next(decision if isinstance(decision, GoOn) else GoOn())
            request = await self._request(model)
        for _ in range(3):  # others draw on the same accounts meanwhile
            output = run.reserve.affordable(model, request, refused.tokens, refused.money)
            if not output:
                break
            request = dataclasses.replace(request, max_output_tokens=output)
            refused = await self._reserve(model, request, usage)
            if refused is None:
                return model, request, usage
        self._end(False)
        return None

    async def _reserve(self, model: Model, request: ModelRequest, usage: str) -> BudgetError | None:
        run = self._run
        reserve = run.reserve.reservation(usage, model, request, last=run.state.budget_reached)
        try:
            await note_asking(run, usage, model, request, reserve, own_messages=self._own_messages)
        except BudgetError as error:
            return error
        return None

    def _end(self, decision: bool | Finish) -> None:
        self._run.state.step -= 1  # nobody was asked
        self.outcome = decision if isinstance(decision, Finish) else Finish()
