"""Roles: which part the model plays follows from the tools that it is offered and the choice that it is left."""

from __future__ import annotations

from ...messages import ForcedTool, ToolSpec
from ..base import ModelRequest
from . import researcher, supervisor
from .transcript import Transcript, read_transcript
from .turn import Call, Turn, argument_name, fill

NO_TOOLS = (
    "There is nothing to search with here, so this cannot be answered: no tool was offered, and no language model is"
    " involved, only rules that quote from sources."
)


def plan(request: ModelRequest) -> Turn:
    """What to say or call next; takes time in proportion to the length of the pages in the request."""
    transcript = read_transcript(request.messages)
    if isinstance(request.tool_choice, ForcedTool):
        return Turn(calls=(_forced(transcript, request, request.tool_choice.name),))
    turn = _spoken(transcript) if request.tool_choice == "none" else _free(transcript, request.tools)
    if request.tool_choice == "required" and not turn.calls and request.tools:
        return Turn(turn.text, (_any_call(transcript, request),))
    if not request.parallel_tool_calls:
        return Turn(turn.text, turn.calls[:1])
    return turn


def _free(transcript: Transcript, tools: tuple[ToolSpec, ...]) -> Turn:
    names = {spec.name for spec in tools}
    if supervisor.RESEARCHER in names:
        return supervisor.supervise(transcript, tools)
    if researcher.SEARCH in names:
        return researcher.research(transcript, tools)
    return _spoken(transcript)


def _spoken(transcript: Transcript) -> Turn:
    """An answer in text alone, from what there is."""
    if transcript.named(supervisor.RESEARCHER):
        return Turn(supervisor.markdown(transcript))
    if transcript.named(researcher.SEARCH, researcher.FETCH):
        return researcher.conclude(transcript)
    return Turn(NO_TOOLS)


def _any_call(transcript: Transcript, request: ModelRequest) -> Call:
    names = [spec.name for spec in request.tools]
    preferred = (supervisor.REPORT, supervisor.RESEARCHER, researcher.SEARCH)
    return _forced(transcript, request, next((name for name in preferred if name in names), names[0]))


def _forced(transcript: Transcript, request: ModelRequest, name: str) -> Call:
    """A call of the tool *name*, with what there is."""
    spec = next((spec for spec in request.tools if spec.name == name), ToolSpec(name, "", {}))
    if name == supervisor.REPORT:
        return supervisor.report_call(transcript, spec)
    turn = _free(transcript, request.tools)
    if planned := next((call for call in turn.calls if call.name == name), None):
        return planned
    question = transcript.question or "?"
    if name == researcher.FETCH:
        location = researcher.first_location(transcript) or question
        return fill(spec, {argument_name(spec, ("location",)): location}, question)
    return fill(spec, {argument_name(spec, ("query", "question")): question}, question)
