"""`WorkerAgent`: an agent that decides in passes, writes a living document, and always answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from ...errors import ConfigurationError, InvalidOutputError, LimitError, LimitReason, ProviderError
from ...messages import AssistantMessage, Message, Text, ToolCall
from ...orchestrator.agent import AgentConfig, Part
from ...orchestrator.outcome import CONTINUE, Continue, Fail, Finish, NextStep, Outcome, Turn
from ...orchestrator.run import RunContext
from ...providers.base import ModelRequest
from ...storage.base import ApprovalRules
from ...tools.base import Tool
from ...tools.registry import ToolRegistry
from ..living_document import LivingDocument
from ..parts.approvals import Approvals
from .decision import WorkerDecision, decision_type, read_decision
from .definition import CONFIDENCE, EnrichmentContext, LoopConfig, WorkerContext, WorkerDefinition
from .pre_enrichment import enrich
from .prompts import (
    REASONS,
    not_synthesized,
    nothing_gathered,
    pass_prompt,
    synthesis,
    synthesis_question,
    system_prompt,
    tool_menu,
)
from .worker_state import EMPTY_RESPONSE, RESPONDED, LoopPosition, WorkerState, exit_reason

_RESPOND_NOW = "A limit is reached. This is the last pass, and it runs no tools: respond now with what you have."
_CUT_OFF = "it reached the limit of its length: write less"
_SHOWN = 4_000
"""The characters of one decision's texts in its event."""


class WorkerAgent(AgentConfig[WorkerState]):
    """An agent that a `WorkerDefinition` describes.

    Its model answers each pass with a decision: the calls to run, updates of the living document, its confidence, or
    the answer. Calls that write wait for a person's approval. Whatever ends the loop, the user gets an answer.

    *tools* is the registry of the tools, or several by name. *defaults* is merged with the definition's `loop`.
    *rules*, a store, remembers approvals. Raises `ConfigurationError` if the registry lacks a tool.
    """

    audience = "internal"

    def __init__(
        self,
        definition: WorkerDefinition,
        tools: ToolRegistry | Mapping[str, ToolRegistry],
        *,
        defaults: LoopConfig | None = None,
        rules: ApprovalRules | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        self.definition = definition
        self.loop = (defaults or LoopConfig()).merged(definition.loop)
        self.name = definition.id
        self.prompt = " "  # `build_system_prompt` writes it
        self.tools = _tools(definition, tools)
        self.tool_call_limit = self.loop.tool_calls
        self.turn_type = decision_type(definition.sections, self.tools)
        approvals = Approvals(effects=("idempotent", "once"), rules=rules, note=definition.approval_label)
        self.parts = (*parts, *(() if self.loop.auto_approve else (approvals,)))

    # -- the start -----------------------------------------------------------------------------------------------

    def initialize_agent_state(self, run: RunContext[WorkerState]) -> WorkerState:
        """Return a state with the initial document."""
        return WorkerState(document=LivingDocument.create(self.definition.sections, (CONFIDENCE,)))

    def build_system_prompt(self, run: RunContext[WorkerState], prompt: str) -> str:
        """Return the definition's prompt with tools and contract, and then the sections of parts and user."""
        own = system_prompt(self.definition, self._context(run))
        return f"{own}\n\n{prompt}".strip()

    def review_input(self, run: RunContext[WorkerState], text: str) -> str | Fail:
        """Refuse the run of a worker that is not available yet."""
        if self.definition.status == "coming_soon":
            return Fail(f"worker {self.definition.id!r} is coming soon: it takes no tasks yet")
        return text

    async def prepare(self, run: RunContext[WorkerState]) -> Sequence[Message]:
        """Run the pre-enrichment. Its results are not part of the conversation: only the first pass reads them."""
        settings = self.definition.pre_enrichment
        if self.loop.pre_enrichment and settings is not None and settings.enabled:
            context = EnrichmentContext(**_fields(self._context(run)), goal=run.chat.message)
            await enrich(run, settings, context, settings.model or self.loop.think_model or run.model_id)
        return ()

    # -- each pass -----------------------------------------------------------------------------------------------

    def should_continue_loop(self, run: RunContext[WorkerState]) -> NextStep:
        """Check the exit conditions and begin a pass."""
        state, config = run.agent_state, self.loop
        if state.ended:  # a message of the user arrived after the answer: the work begins again
            state.passes, state.idle, state.confidence, state.ended, state.only_repeated = 0, 0, [], "", False
        cost = sum((record.cost or Decimal(0) for record in run.usage), Decimal(0))
        if not state.retries:
            tokens = sum(record.tokens.total for record in run.usage)
            reason = exit_reason(LoopPosition(state, config, tokens, cost))
            if reason is not None:
                return self._end(run, reason)
            if state.stale:
                self._escalate(run, "low_confidence" if state.confidence[-1] == "low" else "stale_confidence")
            state.passes += 1
            spent = {"cost": str(cost), "tokens": tokens, "model": self.get_model_id(run)}
            run.emit("worker.pass", {"number": state.passes, "of": config.max_passes, **spent})
        return Continue(prompt=pass_prompt(state, config.max_passes, cost, config.cost_budget))

    def get_model_id(self, run: RunContext[WorkerState]) -> str:
        """Return the model that decides, or the escalation model once it has taken over."""
        if run.agent_state.escalated and self.loop.escalation_model is not None:
            return self.loop.escalation_model
        return self.loop.think_model or run.model_id

    def should_send_tools(self, run: RunContext[WorkerState]) -> bool:
        """Return False: the calls are part of the decision."""
        return False

    def build_request(self, run: RunContext[WorkerState], request: ModelRequest) -> ModelRequest:
        """Set the temperature of the decisions."""
        if self.loop.temperature is None:
            return request
        return dataclasses.replace(request, temperature=self.loop.temperature)

    def interpret_response(self, run: RunContext[WorkerState], message: AssistantMessage) -> Turn:
        """Read the decision, and update the document."""
        state = run.agent_state
        state.repeated, state.only_repeated, state.unreadable = [], False, ""
        try:
            decision = _decision(message)
        except InvalidOutputError as problem:
            if message.tool_calls:  # native calls state a decision as well
                return Turn(message, message.tool_calls, "internal")
            state.unreadable = str(problem)
            return Turn(message, (), "internal")
        self._take(run, decision)
        if decision.should_respond and not decision.tool_calls and not message.tool_calls:
            return self._respond(run, message, decision)
        calls = [
            ToolCall(f"{run.id}.{run.state.step}.{number}", run.registry.sent_names.get(name, name), arguments)
            for number, (name, arguments) in enumerate(decision.tool_calls, 1)
        ]
        return Turn(message, (*calls, *message.tool_calls), "internal")

    def process_tool_calls(
        self, run: RunContext[WorkerState], calls: Sequence[ToolCall]
    ) -> Sequence[ToolCall] | NextStep:
        """Return the calls that have not run before."""
        state, new = run.agent_state, []
        for call in calls:
            signature = _signature(call)
            if signature in state.called:
                state.repeated.append(call.name[:100])
            else:
                state.called.append(signature)
                new.append(call)
        state.only_repeated, state.retries = not new, False
        if not new:
            return CONTINUE
        state.idle = 0
        return new

    def handle_special_tools(self, run: RunContext[WorkerState], call: ToolCall, outcome: Outcome) -> None:
        """Count the results, and name them as the source of what the model writes next."""
        if not outcome.is_error:
            run.agent_state.gathered += 1
            run.agent_state.sources.append(f"{call.name} (pass {run.agent_state.passes})")

    # -- what happens next ---------------------------------------------------------------------------------------

    def on_no_tool_calls(self, run: RunContext[WorkerState]) -> NextStep:
        """End with the answer; repeat a pass without a decision once; escalate after a pass without tools."""
        state = run.agent_state
        if state.ended:
            return Finish()
        if state.unreadable and not state.retries:
            state.retries = True
            return CONTINUE
        state.retries = False
        state.idle += 1
        if state.idle == 1 and state.can_escalate(self.loop):
            self._escalate(run, "no_tools")
        return CONTINUE

    def on_limit(self, run: RunContext[WorkerState], reason: LimitReason) -> NextStep:
        """Take one last pass, in which the model must respond."""
        return Continue(prompt=_RESPOND_NOW, tool_choice="none")

    async def conclude(self, run: RunContext[WorkerState], text: str) -> str:
        """Return the answer of the last decision; without one, write it from what was gathered."""
        state = run.agent_state
        if state.ended == RESPONDED or not (state.ended or run.state.limit):
            return text
        if not state.ended:
            self._end(run, run.state.limit or "")
        why = REASONS.get(state.ended, f"a limit is reached: {state.ended}")
        if not state.gathered:
            return nothing_gathered(why)
        messages = synthesis_question(run.messages, state, why, run.limits.context)
        model = self.loop.synthesize_model or run.model_id
        try:
            answer: str = await run.ask(
                messages, system=synthesis(self.definition, self._context(run)), model=model, audience="answer"
            )
        except (ProviderError, LimitError) as error:
            return not_synthesized(state, f"{why}; {error}")
        return answer if answer.strip() else not_synthesized(state, why)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _context(self, run: RunContext[WorkerState]) -> WorkerContext:
        scope, definition = run.chat.scope, self.definition
        return WorkerContext(
            tenant=scope.tenant,
            user=scope.user,
            name=definition.name,
            title=definition.title,
            tools=tool_menu(run.registry.all()),
        )

    def _take(self, run: RunContext[WorkerState], decision: WorkerDecision) -> None:
        """Keep the document updates and the confidence of *decision*."""
        state = run.agent_state
        label, sources = f"pass {state.passes}", tuple(state.sources)
        for section, text in decision.document_updates.items():
            if section != CONFIDENCE:
                state.document.write(section, text, label=label, source=sources)
        state.document.write(CONFIDENCE, decision.confidence, label=label)
        state.sources = []
        state.confidence.append(decision.confidence)
        state.repairs += [f"{label}: {repair}" for repair in decision.repairs]
        most = _SHOWN // (len(decision.document_updates) + 1)
        run.emit(
            "worker.decision",
            {
                "pass": state.passes,
                "thinking": decision.thinking[:most],
                "confidence": decision.confidence,
                "document": {name[:100]: text[:most] for name, text in list(decision.document_updates.items())[:40]},
                "repairs": list(decision.repairs[:20]),
            },
        )

    def _respond(self, run: RunContext[WorkerState], message: AssistantMessage, decision: WorkerDecision) -> Turn:
        if not decision.response:
            self._end(run, EMPTY_RESPONSE)
            return Turn(message, (), "internal")
        self._end(run, RESPONDED)
        return Turn(dataclasses.replace(message, parts=(Text(decision.response),)), (), audience="answer")

    def _end(self, run: RunContext[WorkerState], reason: str) -> Finish:
        run.agent_state.ended = reason
        run.emit("worker.ended", {"reason": reason})
        return Finish()

    def _escalate(self, run: RunContext[WorkerState], reason: str) -> None:
        run.agent_state.escalate(reason)
        run.emit("worker.escalated", {"reason": reason, "model": self.loop.escalation_model})


def _tools(definition: WorkerDefinition, tools: ToolRegistry | Mapping[str, ToolRegistry]) -> tuple[Tool, ...]:
    """Return the tools that *definition* may call. Raises `ConfigurationError` if one does not exist."""
    if not isinstance(tools, ToolRegistry):
        if definition.registry not in tools:
            known = ", ".join(map(repr, tools))
            raise ConfigurationError(
                f"worker {definition.id!r}: unknown registry {definition.registry!r}: choose from {known}"
            )
        tools = tools[definition.registry]
    for name in definition.tools:
        if name not in tools:
            raise ConfigurationError(
                f"worker {definition.id!r}: unknown tool {name!r}: choose from {', '.join(tools.names())}"
            )
    return tuple([tool for tool in tools.all() if not definition.tools or tool.name in definition.tools])


def _decision(message: AssistantMessage) -> WorkerDecision:
    """Return the decision in *message*. Raises `InvalidOutputError`, also for an answer that was cut off."""
    decision = read_decision(message.text)
    if message.stop_reason == "length" and decision.repairs:
        raise InvalidOutputError(_CUT_OFF)
    return decision


def _signature(call: ToolCall) -> str:
    """Return the name and the arguments of *call*, the same however the arguments are written."""
    try:
        arguments = json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return f"{call.name} {arguments}"


def _fields(context: WorkerContext) -> dict[str, str]:
    return {each.name: getattr(context, each.name) for each in dataclasses.fields(context)}
