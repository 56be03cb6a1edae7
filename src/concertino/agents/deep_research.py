"""The deep-research supervisor: delegates to concurrent researchers and writes one report from their findings."""

from __future__ import annotations

from typing import Any

import json_repair

from ..errors import LimitReason, ToolArgumentsError
from ..messages import ForcedTool, ToolCall, ToolMessage
from ..orchestrator.agent import AgentConfig, read_arguments
from ..orchestrator.journal.data_policy import DataPolicy, ToolData
from ..orchestrator.outcome import CONTINUE, Continue, Finish, NextStep
from ..orchestrator.run import RunContext
from ..records import record

RESEARCHER = "researcher"
FEEDBACK = "feedback_questions"
REPORT = "report_generation"
_RETRIES = 3

_PROMPT = """\
You lead a research team and write its report.

- Split the question into 2 to 5 sub-questions that do not overlap, and call the researcher once for each, all in one
  turn. Each task must be complete in itself: a researcher sees nothing but it.
- Read what comes back. Send out researchers again only for what is missing and matters.
- Then call report_generation once. Begin with the answer in two to four sentences, then a section for each part. Keep
  the researchers' citations, such as [s0123456789abcdef0123456789abcdef], behind what they support; add none of your
  own. Where they found nothing, say so. No list of sources: it is added."""

_NO_CALLS = (
    "You called no tool. Call the researcher for what you still need to know, or report_generation if you know enough. "
    "Do not answer in text."
)
_REPORT_NOW = "Write the report now: call report_generation with what the researchers have found so far."


@record(frozen=False)
class ResearchState:
    """The supervisor's own state of a run."""

    retries: int = 0
    """Number of turns without a tool call."""
    forced: bool = False
    """True once the report was forced."""


class DeepResearchSupervisor(AgentConfig[ResearchState]):
    """An agent with three tools: researcher, feedback questions and report. The report is the run's answer.

    A turn without calls is retried, from the second retry on with the cheaper *retry_model*. When the retries or the
    tool calls are exhausted, the model must call the report. Malformed arguments of the report are repaired. Only calls
    of the three tools are stored.
    """

    name = "supervisor"
    prompt = _PROMPT
    tool_call_limit = 12

    def __init__(self, retry_model: str | None = None) -> None:
        self._retry_model = retry_model

    def initialize_agent_state(self, run: RunContext[ResearchState]) -> ResearchState:
        """Return a new state."""
        return ResearchState()

    def should_continue_loop(self, run: RunContext[ResearchState]) -> NextStep:
        """Continue until there is a report; force it once if the limit is reached without one."""
        if run.state.has_tool_calls and run.state.iteration < run.limits.tool_calls:
            return CONTINUE
        if REPORT in run.data or run.agent_state.forced:
            return Finish()
        return self._force(run)

    def get_model_id(self, run: RunContext[ResearchState]) -> str:
        """Return the chat's model, or the cheaper model after the first retry."""
        if self._retry_model is not None and run.agent_state.retries > 1:
            return self._retry_model
        return run.model_id

    def should_send_tools(self, run: RunContext[ResearchState]) -> bool:
        """Return True: the answer is a tool call."""
        return True

    def on_no_tool_calls(self, run: RunContext[ResearchState]) -> NextStep:
        """Retry with a reminder, then force the report."""
        state = run.agent_state
        if state.retries < _RETRIES and not state.forced:
            state.retries += 1
            return Continue(prompt=_NO_CALLS)
        return Finish() if state.forced or REPORT in run.data else self._force(run)

    def on_limit(self, run: RunContext[ResearchState], reason: LimitReason) -> NextStep:
        """Force the report. If the budget is exhausted, finish: the findings become the answer."""
        if reason in ("budget", "tokens", "cost"):
            return Finish(_findings(run) or None)
        if run.agent_state.forced or REPORT in run.data:
            return Finish()
        return self._force(run)

    def preprocess_tool_arguments(self, run: RunContext[ResearchState], call: ToolCall) -> dict[str, Any]:
        """Parse the arguments; repair those of a report, which contain the results of all research."""
        if call.name != REPORT:
            return read_arguments(call)
        try:
            arguments = read_arguments(call)
        except ToolArgumentsError:
            arguments = _repaired(call.arguments)
        markdown = arguments.get("markdown") or _longest_text(arguments) or _findings(run)
        title = arguments.get("title")
        return {"title": title if isinstance(title, str) else run.chat.message[:120], "markdown": markdown}

    def after_step(self, run: RunContext[ResearchState], outcome: NextStep) -> NextStep:
        """Finish with a report or with questions to the user."""
        if REPORT in run.data:
            return Finish(run.data[REPORT]["report"])
        if FEEDBACK in run.data:
            return Finish("\n".join(run.data[FEEDBACK]["questions"]))
        return outcome

    def conclude(self, run: RunContext[ResearchState], text: str) -> str:
        """Return the report, or the researchers' findings if even a forced report is missing."""
        if REPORT in run.data or FEEDBACK in run.data or text.strip():
            return text
        return _findings(run) or "The research ended without a report and without findings."

    def get_data_policy(self) -> DataPolicy:
        """Keep the calls of the three research tools in full and drop all others."""
        tools = dict.fromkeys((RESEARCHER, FEEDBACK, REPORT), ToolData())
        never = ToolData(arguments="drop", results="drop")
        return DataPolicy(tools=tools, other_tools=never, keep_whole_results=True)

    def _force(self, run: RunContext[ResearchState]) -> Continue:
        run.agent_state.forced = True
        choice = ForcedTool(REPORT) if REPORT in run.registry else None
        return Continue(prompt=_REPORT_NOW, tool_choice=choice)


def _repaired(text: str) -> dict[str, Any]:
    """Parse malformed JSON as far as possible; treat text without any JSON as the report."""
    found = json_repair.loads(text)
    if isinstance(found, dict) and found:
        return {str(key): value for key, value in found.items()}
    return {"markdown": text}


def _longest_text(arguments: dict[str, Any]) -> str:
    """Return the longest argument: a model that misnames an argument still puts the report into one."""
    texts = [value for name, value in arguments.items() if isinstance(value, str) and name != "title"]
    return max(texts, key=len, default="")


def _findings(run: RunContext[ResearchState]) -> str:
    found = [m.content for m in run.messages if isinstance(m, ToolMessage) and m.name == RESEARCHER and not m.is_error]
    return "\n\n".join(found)
