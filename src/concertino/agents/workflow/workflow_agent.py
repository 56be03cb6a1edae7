"""`WorkflowAgent`: an agent that runs the steps of a `Workflow`. The engine advances the steps, never the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ...errors import ConfigurationError, InvalidOutputError, LimitReason
from ...events import Audience
from ...messages import AssistantMessage, Message, SystemMessage, ToolCall
from ...orchestrator.agent import AgentConfig, Part
from ...orchestrator.outcome import CONTINUE, Allow, Ask, Continue, Deny, Fail, Finish, NextStep, Outcome, Special, Turn
from ...orchestrator.run import RunContext
from ...providers.base import ModelRequest
from ...tools.base import Tool
from ...tools.function import tool as tool_of
from ...tools.registry import ToolRegistry
from ..facts import Fact, Knowledge, file_digest, split_facts
from ..stuck import Stuck
from .completion import answer_type, completion_problem, read_answer
from .conditions import as_text
from .own_calls import OwnCalls, script_name
from .step_order import next_step, program_of
from .step_prompts import contract, known_facts, nudge, reminder, unreadable
from .step_tools import (
    ASK_PERSON,
    COMPLETE,
    HIDDEN,
    RECORD_FACT,
    REVIEW_PLAN,
    AskPerson,
    CompleteStep,
    PerformStep,
    RecordFact,
    ReviewPlan,
    arguments_of,
)
from .verification import Accepted, verify
from .workflow import AgentStep, PlannedStep, ScriptedStep, Step, Workflow, all_steps
from .workflow_progress import WorkflowProgress
from .workflow_state import WorkflowState

_NUDGES = 2
"""Nudges for a step that is stuck, before it fails."""
_SHOWN = 2_000


class WorkflowAgent(AgentConfig[WorkflowState]):
    """An agent that runs the steps of a workflow, in their order.

    *tools* has the tools that the steps name. With *knowledge*, facts about *subject* (by default the workflow's name)
    are read before a run and written after it; their sources are files below *root*. Raises `ConfigurationError` if a
    step names an unknown tool.
    """

    is_workflow = True
    audience: Audience = "draft"

    def __init__(
        self,
        workflow: Workflow,
        tools: ToolRegistry | Sequence[Tool] = (),
        *,
        knowledge: Knowledge | None = None,
        root: str | Path | None = None,
        subject: str = "",
        parts: Sequence[Part] = (),
    ) -> None:
        self.workflow = workflow
        self.name = workflow.name
        self.prompt = f"{workflow.prompt}\n\n{contract(workflow, knowledge=knowledge is not None)}".strip()
        self.tool_call_limit = workflow.tool_calls
        self.parts = tuple(parts)
        self._knowledge, self._subject = knowledge, subject or workflow.name
        self._root = None if root is None else Path(root)
        self._progress = WorkflowProgress(workflow, program_of(workflow.steps))
        registered = list(tools.all() if isinstance(tools, ToolRegistry) else tools)
        own: list[Tool] = [CompleteStep(), AskPerson(), ReviewPlan(), PerformStep()]
        self.tools = (*registered, *_scripts(workflow), *own, *([RecordFact()] if knowledge is not None else ()))
        self._by_name = {tool.name: tool for tool in self.tools}
        if len(self._by_name) < len(self.tools):
            raise ConfigurationError(f"workflow {self.name!r}: two tools have the same name")
        given = [step for step in all_steps(workflow.steps) if isinstance(step, AgentStep | PlannedStep)]
        for name in [name for step in given for name in step.tools] + [
            script_name(step) for step in _scripted(workflow)
        ]:
            if name not in self._by_name:
                known = ", ".join(tool.name for tool in registered) or "none"
                raise ConfigurationError(f"workflow {self.name!r}: unknown tool {name!r:.80}: choose from {known}")
        offered = {name for step in given if isinstance(step, AgentStep) for name in step.tools}
        model_tools = [tool for tool in self.tools if tool.name in {*offered, RECORD_FACT}]
        self._hidden = {tool.name for tool in self.tools} - {tool.name for tool in model_tools} - {COMPLETE}
        if workflow.mode == "structured":
            self.audience = "internal"
            self.turn_type = answer_type(model_tools, sorted({name for step in given for name in step.sets}))
        self._own = OwnCalls(self._by_name, self._progress)

    # -- the start -----------------------------------------------------------------------------------------------

    def initialize_agent_state(self, run: RunContext[WorkflowState]) -> WorkflowState:
        """Return a state at the first step."""
        return WorkflowState(variables=dict(self.workflow.variables), stuck=self.workflow.stuck.fresh())

    async def prepare(self, run: RunContext[WorkflowState]) -> Sequence[Message]:
        """Classify the task, and read what earlier runs have found."""
        state, routing = run.agent_state, self.workflow.routing
        state.variables["goal"] = run.chat.message
        if routing is not None:
            levels = "\n".join(f"- {name}: {text}" for name, text in routing.levels.items())
            kind: Any = Literal[tuple(routing.levels)]
            question = f"Classify this task:\n{run.chat.message}\n\n{levels}"
            level = await run.ask(question, output_type=kind, model=routing.model or run.model_id)
            state.variables["complexity"] = level
            run.emit("workflow.complexity", {"level": level})
        if self._knowledge is None:
            return ()
        found = await self._knowledge.read(run.chat.scope, self._subject)
        state.facts, stale = await asyncio.to_thread(split_facts, self._root, found)
        state.variables["facts"] = [f"{fact.source}: {fact.text}" for fact in state.facts]
        state.variables["known"] = sorted({fact.source for fact in state.facts})
        state.variables["stale"] = sorted({fact.source for fact in stale})
        return (SystemMessage(known_facts(state.facts, stale)),) if found else ()

    # -- the next step -------------------------------------------------------------------------------------------

    async def should_continue_loop(self, run: RunContext[WorkflowState]) -> NextStep:
        """Advance to the step that is next, and decide what it does now."""
        state = run.agent_state
        if state.ended:
            return Finish(self._progress.answer(state))
        messages: tuple[Message, ...] = ()
        try:
            step = self._progress.current(state)
            if step is None and not state.failure:
                await self._remember(run)
                step = next_step(self._progress.order, state)
                if step is None:
                    return self._progress.finish(run)
                messages = self._progress.begin(run, step)
            if step is not None and not state.failure:
                await self._own.prepare(run, step, self._progress.task(step, state))
        except (ConfigurationError, InvalidOutputError) as error:
            self._progress.fail(run, str(error))
        return Fail(state.failure) if state.failure else Continue(messages=messages)

    def answer_without_model(self, run: RunContext[WorkflowState]) -> Turn | None:
        """Return the turn with the call that the engine makes itself, if the step needs no model now."""
        work = run.agent_state.work
        if work.call is None:
            return None
        (name, arguments), work.call = work.call, None
        call = ToolCall(f"{run.id}.{run.state.step + 1}", name, json.dumps(arguments, ensure_ascii=False))
        work.own, work.called = [call.id], False
        return Turn(AssistantMessage(()), (call,))

    def get_model_id(self, run: RunContext[WorkflowState]) -> str:
        """Return the model of the step, or of the task's complexity."""
        step, routing = self._progress.current(run.agent_state), self.workflow.routing
        if isinstance(step, AgentStep) and step.model is not None:
            return step.model
        level = run.agent_state.variables.get("complexity")
        return routing.models.get(str(level), run.model_id) if routing is not None else run.model_id

    def should_send_tools(self, run: RunContext[WorkflowState]) -> bool:
        """Return whether calls are native; in structured mode they are part of the answer."""
        return self.workflow.mode == "tools"

    def build_request(self, run: RunContext[WorkflowState], request: ModelRequest) -> ModelRequest:
        """Leave out the tools that only the engine calls. The others stay the same in all steps, for the cache."""
        hidden = {self._by_name[name].spec.name for name in self._hidden}
        request.tools = tuple([spec for spec in request.tools if spec.name not in hidden])
        return request

    # -- the model's answer --------------------------------------------------------------------------------------

    def interpret_response(self, run: RunContext[WorkflowState], message: AssistantMessage) -> Turn:
        """Record the thought, and read a structured answer as calls: its completion is a call of `complete_step`."""
        work = run.agent_state.work
        work.own, work.failed, work.unreadable, work.called, work.completion = [], [], "", False, None
        if self.workflow.mode == "tools":
            if message.text:
                self._progress.emit(run, "thought", text=message.text[:_SHOWN])
            return Turn(message, message.tool_calls)
        try:
            answer = read_answer(message.text)
        except InvalidOutputError as problem:
            if not message.tool_calls:  # native calls are answered like stated ones
                work.unreadable = str(problem)
            return Turn(message, message.tool_calls, "internal")
        self._progress.emit(run, "thought", text=answer.thought[:_SHOWN])
        work.draft = answer.notes
        made = list(answer.tool_calls)
        if answer.is_complete:
            made.append((COMPLETE, json.dumps({"notes": answer.notes, "context": dict(answer.context)})))
        calls = [
            ToolCall(f"{run.id}.{run.state.step}.{number}", run.registry.sent_names.get(name, name), arguments)
            for number, (name, arguments) in enumerate(made, 1)
        ]
        return Turn(message, (*calls, *message.tool_calls), "internal")

    def process_tool_calls(
        self, run: RunContext[WorkflowState], calls: Sequence[ToolCall]
    ) -> Sequence[ToolCall] | NextStep:
        """Put the completion behind all other calls: it is a barrier. Only the first completion of a turn counts."""
        run.agent_state.work.called = True
        completions = [call for call in calls if call.name == COMPLETE]
        return [*[call for call in calls if call.name != COMPLETE], *completions[:1]]

    def authorize_tool_call(
        self, run: RunContext[WorkflowState], call: ToolCall, arguments: dict[str, Any]
    ) -> Allow | Deny | Ask:
        """Let the model call the tools of its step alone; ask a person where the engine's own call is a question."""
        state = run.agent_state
        step = self._progress.current(state)
        if call.id in state.work.own:
            if call.name not in (ASK_PERSON, REVIEW_PLAN):
                return Allow()
            who, seconds = getattr(step, "who", ()), getattr(step, "seconds", None)
            if isinstance(step, AgentStep) and step.verifier is not None:
                who = step.verifier.who
            return Ask(
                who=tuple(who), seconds=seconds, note=str(arguments.get("question") or "Approve the plan?")[:_SHOWN]
            )
        if not isinstance(step, AgentStep):
            return Deny("no step that calls tools is in progress")
        if call.name == COMPLETE:
            problem = completion_problem(arguments, step.sets, self._optional)
            return Deny(problem) if problem else Allow()
        if call.name in HIDDEN or call.name not in {*step.tools, RECORD_FACT}:
            known = ", ".join([*step.tools, COMPLETE])
            return Deny(f"step {step.id!r} may not call {call.name!r:.80}: it has {known}")
        return Allow()

    async def handle_special_tools(
        self, run: RunContext[WorkflowState], call: ToolCall, outcome: Outcome
    ) -> Special | None:
        """Take the result of the engine's own call; keep a completion until the turn has ended; learn facts."""
        state = run.agent_state
        work, step = state.work, self._progress.current(state)
        whole = outcome.content if outcome.whole is None else outcome.whole
        state.stuck.observe(call.name, call.arguments, whole, failed=outcome.is_error)
        if not outcome.is_error and self._knowledge and (refused := await _learn(run, self._root, step, call, outcome)):
            return Special(result=refused)
        if call.id in work.own:
            if step is not None:
                await self._own.take(run, step, call, outcome)
        elif outcome.is_error:
            work.failed.append(call.name)
        elif call.name == COMPLETE:
            if work.failed:
                failed = ", ".join(dict.fromkeys(work.failed))
                return Special(result=f"not completed: {failed} failed in the same turn. Read the results first.")
            arguments = arguments_of(call)
            work.completion = {"notes": arguments["notes"], "context": arguments.get("context") or {}}
        return None

    # -- what happens next ---------------------------------------------------------------------------------------

    def on_no_tool_calls(self, run: RunContext[WorkflowState]) -> NextStep:
        """Remind the model of its step, a few times: no step can be forgotten."""
        state = run.agent_state
        work, step = state.work, self._progress.current(state)
        assert step is not None
        work.reminders += 1
        if work.reminders > self.workflow.reminders:
            return Fail(self._progress.fail(run, f"step {step.id!r}: the model stops without completing it"))
        text = unreadable(work.unreadable) if work.unreadable else reminder(step.id)
        return Continue(messages=(SystemMessage(text),))

    async def after_step(self, run: RunContext[WorkflowState], outcome: NextStep) -> NextStep:
        """Judge a completion, advance, and notice an agent that is stuck."""
        state = run.agent_state
        work, step = state.work, self._progress.current(state)
        if not isinstance(outcome, Continue) or step is None or work.review or state.failure:
            return outcome
        if isinstance(step, AgentStep):
            verifier = step.verifier
            if work.completion is not None or (verifier and verifier.strictness == "high" and work.called):
                accepted: Accepted | NextStep = Accepted("")
                if verifier is not None:
                    accepted = await verify(run, step, self._progress.task(step, state))
                if not isinstance(accepted, Accepted):
                    return Fail(self._progress.fail(run, accepted.error)) if isinstance(accepted, Fail) else accepted
                if work.completion is not None:
                    self._progress.complete(run, step, work.completion, accepted.by)
                    return outcome
        state.stuck.end_turn(f"{len(state.visits)} {len(work.results)} {len(state.learned)} {work.draft}")
        stuck = state.stuck.check()
        return outcome if stuck is None else self._handle_stuck(run, stuck)

    def on_limit(self, run: RunContext[WorkflowState], reason: LimitReason) -> NextStep:
        """Fail: a workflow whose steps are not done has not completed."""
        step = self._progress.current(run.agent_state)
        where = f" in step {step.id!r}" if step is not None else ""
        return Fail(self._progress.fail(run, f"a limit is reached{where}: {reason}"))

    async def conclude(self, run: RunContext[WorkflowState], text: str) -> str:
        """Remove the stale facts that the run has not read again."""
        state = run.agent_state
        if state.ended and self._knowledge is not None:
            stale = sorted({*state.variables.get("stale", ())} - {fact.source for fact in state.learned})
            await self._knowledge.write(run.chat.scope, self._subject, (), stale)
        return text

    # -- helpers -------------------------------------------------------------------------------------------------

    @property
    def _optional(self) -> tuple[str, ...]:
        """Variables that any completion may set."""
        return ("complexity",) if self.workflow.routing is not None else ()

    async def _remember(self, run: RunContext[WorkflowState]) -> None:
        """Write what the steps so far have learned: a run that is stopped, fails or is killed later has taught it."""
        state = run.agent_state
        if self._knowledge is not None and state.written < len(state.learned):
            replaced = sorted({fact.source for fact in state.learned})
            await self._knowledge.write(run.chat.scope, self._subject, state.learned, replaced)
            state.written = len(state.learned)

    def _handle_stuck(self, run: RunContext[WorkflowState], stuck: Stuck) -> NextStep:
        """Report that the agent is stuck, and nudge it, ask a person or stop, as the workflow decides."""
        work, decide = run.agent_state.work, self.workflow.on_stuck
        run.emit("agent.stuck", {"kind": stuck.kind, "evidence": list(stuck.evidence)})
        action = decide(run, stuck) if callable(decide) else decide
        if action == "escalate":
            work.review, work.why = "stuck", str(stuck)
            return CONTINUE
        if action == "nudge" and work.nudges < _NUDGES:
            work.nudges += 1
            return Continue(messages=(SystemMessage(nudge(stuck)),))
        return Fail(self._progress.fail(run, f"the agent is stuck: {stuck}"))


def _scripted(workflow: Workflow) -> list[ScriptedStep]:
    return [step for step in all_steps(workflow.steps) if isinstance(step, ScriptedStep)]


def _scripts(workflow: Workflow) -> list[Tool]:
    """Return the tools of scripted steps that are no names."""
    found: dict[str, Tool] = {}
    for step in _scripted(workflow):
        if not isinstance(step.tool, str):
            made = step.tool if isinstance(step.tool, Tool) else tool_of(step.tool)
            found.setdefault(made.name, made)
    return list(found.values())


async def _learn(
    run: RunContext[WorkflowState], root: Path | None, step: Step | None, call: ToolCall, outcome: Outcome
) -> str:
    """Keep the facts that a result states: the arguments of `record_fact`, and `facts` in a tool's data.

    Return why a fact is refused; "" if all are kept.
    """
    if not isinstance(outcome.data, Mapping):
        return ""
    state = run.agent_state
    given = [outcome.data] if call.name == RECORD_FACT else outcome.data.get("facts") or ()
    for each in given:
        source, text = as_text(each["source"]), as_text(each["text"])
        digest = await asyncio.to_thread(file_digest, root, source)
        if digest is None:
            return f"refused: the source {source!r:.80} is outside the folder: name a file below it"
        fact = Fact(source, text, digest, run.id, step.id if step is not None else "")
        if fact not in state.learned:
            state.learned.append(fact)
            state.variables["facts"] = [*state.variables.get("facts", ()), f"{source}: {text}"]
    return ""
