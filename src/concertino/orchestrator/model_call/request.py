"""The request of a turn.

It is built as the agent decides, within the context window and the budgets, and recorded before it is sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from operator import is_

from ...errors import BudgetError, ContextTooLongError, ProviderError
from ...events import CacheMiss, ContextEdited
from ...messages import ForcedTool, Message, Messages, SystemMessage, ToolSpec
from ...providers.base import Model, ModelRequest, model_id
from ...records import record
from ...token_engine.counting.sizes import FRAME
from ...token_engine.digests import RECALL
from ...token_engine.edits import Edit, Reduce, Summarize
from ...token_engine.planner import Plan, SummaryJob
from ..hooks import Hooks
from ..journal.replay import OpenRequest
from ..meter import at_limit
from ..outcome import Continue, Fail, Finish, Limited, NextStep
from ..recorder import Prepared, record_request
from ..resources import Limits
from ..run import RunSession
from .attempt import Attempt
from .call import for_model
from .summarize import Summaries


@record(frozen=False)
class _Planned:
    """The origin of a request: planned for a model, or found in the journal."""

    model: str
    """The id of the model that it was planned for; empty for a request found in the journal."""
    tools: tuple[ToolSpec, ...] = ()
    """The run's tools then."""
    own_messages: bool = False
    """Whether a hook has given it messages of its own."""
    prompt: str = ""
    """The text after the conversation that it alone contains; see `Continue.prompt`."""


class TurnRequests:
    """Makes the requests of one turn after another."""

    __slots__ = ("_hooks", "_last", "_planned", "_run", "job", "summaries")

    def __init__(self, run: RunSession, hooks: Hooks) -> None:
        self._run = run
        self._hooks = hooks
        self.summaries: Summaries | None = None
        """The run's summaries, once one was due."""
        self._planned = _Planned("")
        self._last: ModelRequest | None = None  # whose usage is known
        self.job: SummaryJob | None = None
        """A summary to start once the answer has arrived."""

    async def prepare(self) -> Prepared | Finish | Fail | Limited:
        """Return the next request, which may be sent; or how the run ends because no budget covers it."""
        run = self._run
        opened, run.opened = run.opened, None
        if isinstance(opened, OpenRequest):
            model, name, request = run.find_model(opened.model), opened.model, opened.request
            self._planned = _Planned("", own_messages=opened.own_messages, prompt=opened.prompt)
        else:
            run.state.step += 1
            model = run.model
            if self._hooks.get_model_id.own:
                model = run.find_model(await self._hooks.get_model_id(run.context))
            request = await self._build(model)
            name = self._planned.model
        prepared = Prepared(model, name, request, run.next_attempt())
        if run.tree.budgeted:
            return await self._within_budget(prepared)
        if run.journal.on:
            planned = self._planned
            await record_request(run, prepared, own_messages=planned.own_messages, prompt=planned.prompt)
        return prepared

    async def renew(self, prepared: Prepared, model: Model, error: ProviderError) -> Prepared | None:
        """Prepare the request once more for *model* after *error*, smaller if that model takes less.

        Returns None if it cannot be made smaller or no budget covers it. Raises `ContextFloorError`.
        """
        run, request = self._run, prepared.request
        name = model_id(model)
        same = name == prepared.model_id
        refused = same and isinstance(error, ContextTooLongError)
        if refused or not same:
            limits = run.limits_of(model)
            request = for_model(request, model, limits)
            if run.turn_output is not None and not same:
                run.turn_output.apply(request, model)
            if refused and self._planned.own_messages:
                return None
            if refused:
                run.window.lower_limit()
            if refused or (limits.context < run.window.limit and not self._planned.own_messages):
                prompt = self._planned.prompt
                view = await self._view(model, limits, run.registry.specs(), prompt, summaries=False)
                request.messages = _prompted(view, prompt)
                request.breakpoints = run.window.breakpoints
                request.tools = run.registry.specs() if request.tools else ()
        renewed = Prepared(model, name, request, run.next_attempt())
        if run.tree.budgeted:
            return None if await self._reserve(renewed, after=error) else renewed
        if run.journal.on:
            planned = self._planned
            await record_request(run, renewed, own_messages=planned.own_messages, prompt=planned.prompt, after=error)
        return renewed

    def observe(self, attempt: Attempt) -> None:
        """Compare what the provider measured with what the token engine expected."""
        run, request, planned = self._run, attempt.request, self._planned
        if attempt.tokens is None or planned.own_messages or planned.prompt or attempt.model_id != planned.model:
            return
        choice, schema = request.tool_choice, request.output_schema
        settings: tuple[object, ...] = (choice, request.effort, request.parallel_tool_calls, schema, request.extra)
        if request.system != run.system or request.tools != planned.tools:
            settings += (request.system, request.tools)  # a hook's own
        self._last = request
        compacted = False
        for part in attempt.message.parts:  # a loop costs no call
            compacted = compacted or (part.kind == "opaque" and part.type == "compaction")
        miss = run.window.observe(attempt.tokens, settings, compacted=compacted)
        if miss is not None:
            run.emit(CacheMiss, attempt.model_id, miss.reason, miss.expected, miss.cached)

    def start_summary(self, job: SummaryJob, attempt: Attempt) -> None:
        """Start the summary that is due, now that the provider has cached what was sent."""
        self.job = None
        self._summarizer().start(job, attempt.model, attempt.request)

    def _summarizer(self) -> Summaries:
        if self.summaries is None:
            self.summaries = Summaries(self._run, self._hooks)
        return self.summaries

    async def _build(self, model: Model) -> ModelRequest:
        run, hooks = self._run, self._hooks
        tools = specs = run.registry.specs()
        decide = hooks.should_send_tools
        send = bool(tools) and (await decide(run.context) if decide.own else decide.default(run.context))
        if decide.own:
            tools = specs = run.registry.specs()  # the hook may have changed them
        choice = run.state.tool_choice if send else "none"
        if not send and not run.call_ids and not run.earlier_calls:
            tools = ()  # otherwise they stay: providers refuse a history with calls of undeclared tools
        limits = run.limits if model is run.model else run.limits_of(model)
        prompt, run.state.prompt = run.state.prompt, ""
        view = await self._view(model, limits, specs, prompt, summaries=getattr(model, "summarizes", False))
        messages = _prompted(view, prompt) if prompt else view
        tools = self._planned.tools if tools else tools
        request = ModelRequest(
            model=model.name,
            system=run.system,
            messages=messages,
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=hooks.config.use_parallel_tools and run.limits.parallel_tools > 1,
            max_output_tokens=limits.output,
            breakpoints=run.window.breakpoints,
            cache_key=run.cache_key,
        )
        run.state.tool_choice = "auto"
        if run.turn_output is not None:
            run.turn_output.apply(request, model)
        if hooks.build_request.own:
            request = await hooks.build_request(run.context, request)
            if run.redactor is not None and request.messages is not messages:
                request = dataclasses.replace(request, messages=list(map(run.redactor.message, request.messages)))
            self._planned.own_messages = request.messages is not messages and list(request.messages) != list(messages)
            if not self._planned.own_messages:
                request.messages = messages
        if isinstance(forced := request.tool_choice, ForcedTool) and (tool := run.registry.get(forced.name)):
            request.tool_choice = ForcedTool(tool.spec.name)
        return request

    async def _view(
        self, model: Model, limits: Limits, tools: tuple[ToolSpec, ...], prompt: str, *, summaries: bool
    ) -> Messages:
        """Return the part of the conversation that *model* is sent before *prompt*, within its context window."""
        run, window = self._run, self._run.window
        if window.edits and offer_recall(run):
            tools = run.registry.specs()
        name = run.model_id if model is run.model else model_id(model)
        self._planned = _Planned(name, tools, prompt=prompt)
        window.limit = limits.context
        fixed, reserved = run.fixed(tools), limits.output
        if prompt:
            reserved += run.resources.counter.count(prompt) + FRAME
        plan = window.plan(fixed, reserved, name, recallable=run.recallable, summaries=summaries)
        while plan.urgent:
            await self._summarize_now(plan, model)
            if not window.prepared:
                break
            plan = window.plan(fixed, reserved, name, recallable=run.recallable, summaries=summaries)
        if plan.job is not None:
            self.job = None if plan.urgent else plan.job
        edits = window.fit() if plan.edits_possible else []
        if edits:
            before = window.tokens_before
            if offer_recall(run):  # with the first edit, which breaks the cached prefix anyway
                self._planned.tools = tools = run.registry.specs()
                window.plan(run.fixed(tools), reserved, name, recallable=True, summaries=False)
                edits += window.fit()
            self._report(edits, before)
        return window.view()

    async def _summarize_now(self, plan: Plan, model: Model) -> None:
        """Wait for a summary: the window is full, and nothing can be sent without one."""
        run = self._run
        if plan.job is None:
            await self._summarizer().settle()
            return
        messages, last = run.window.view(), self._last
        end = run.window.position_of(plan.job.end)
        if (
            last is not None
            and last.model == model.name
            and end <= len(last.messages) <= len(messages)
            and all(map(is_, messages, last.messages))
        ):
            request = last  # in the provider's cache
        else:
            request = ModelRequest(
                model=model.name,
                system=run.system,
                messages=messages,
                tools=run.registry.specs(),
                max_output_tokens=run.limits_of(model).output,
                breakpoints=run.window.breakpoints,
                cache_key=run.cache_key,
            )
        await self._summarizer().make(plan.job, model, request)

    def _report(self, edits: Sequence[Edit], before: int) -> None:
        run = self._run
        if not run.journal.on and run.stream is None:
            return
        reduced = sum(len(edit.indexes) for edit in edits if isinstance(edit, Reduce))
        spans = [edit for edit in edits if isinstance(edit, Summarize)]
        left_out = sum(edit.messages for edit in spans if edit.omitted)
        summarized = sum(edit.messages for edit in spans if not edit.omitted)
        edited = (reduced, summarized, left_out, before, run.window.tokens)
        if run.journal.on:
            run.journal.edit(edits, edited)
        run.emit(ContextEdited, *edited)
        if left_out:
            run.notify("context_trimmed", f"the model no longer sees {left_out:,} of the oldest messages")

    # -- budgets -------------------------------------------------------------------------------------------------

    async def _within_budget(self, prepared: Prepared) -> Prepared | Finish | Fail | Limited:
        """Reserve the worst case.

        A budget that does not cover it shortens the answer first. If even the shortest one leaves too little for a
        final answer, the agent decides; by default that final answer is given now, without tools.
        """
        run, state, model = self._run, self._run.state, prepared.model
        while (refused := await self._reserve_shortened(prepared)) is not None:
            decision: NextStep | Limited = Limited(str(refused))
            if state.limit is None:
                decision = await at_limit(run, self._hooks, "budget", str(refused), state.step)
            if not isinstance(decision, Continue):
                state.step -= 1  # the model was not called
                return decision
            prepared.request = await self._build(model)
        return prepared

    async def _reserve_shortened(self, prepared: Prepared) -> BudgetError | None:
        """Reserve the worst case of a request, with a shorter answer if no longer one is covered."""
        run, last = self._run, self._run.state.last_step > 0
        refused = await self._reserve(prepared)
        for _ in range(3):  # other runs draw on the same accounts meanwhile
            if refused is None:
                return None
            request = prepared.request
            output = run.reserve.affordable(prepared.model, request, refused.tokens, refused.money, last=last)
            if not output:
                return refused
            prepared.request = dataclasses.replace(request, max_output_tokens=output)
            refused = await self._reserve(prepared)
        return refused

    async def _reserve(self, prepared: Prepared, *, after: ProviderError | None = None) -> BudgetError | None:
        run, planned, last = self._run, self._planned, self._run.state.last_step > 0
        reserve = run.reserve.reservation(prepared.usage_id, prepared.model, prepared.request, last=last)
        try:
            await record_request(
                run, prepared, reserve, own_messages=planned.own_messages, prompt=planned.prompt, after=after
            )
        except BudgetError as error:
            return error
        return None


def offer_recall(run: RunSession) -> bool:
    """Add `recall` to the tools of *run*, whose view has been edited; return True if it was not among them.

    A run without tools does not get it: its model may not take any.
    """
    return bool(run.registry) and add_recall(run)


def add_recall(run: RunSession) -> bool:
    """Add `recall` to the tools of *run*; return True if it was not among them."""
    if RECALL in run.registry:
        return False
    from ...tools.builtin.recall_tool import Recall  # noqa: PLC0415 - few runs need it

    run.registry.register(Recall())
    return True


def _prompted(view: Messages, prompt: str) -> Sequence[Message]:
    """Return *view* with *prompt* after it, if there is one."""
    return (*view, SystemMessage(prompt)) if prompt else view
