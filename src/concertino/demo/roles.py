"""The parts that the demo model plays: supervisor, researcher, chat. The tools of a request decide which."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..messages import ForcedTool, ToolSpec
from ..providers.base import ModelRequest
from ..tools.builtin.research import READ_TOOLS, SEARCH_TOOLS
from .passages import WEAK, Passage, chosen, quoted
from .questions import parts, queries
from .transcript import PlannedCall, Transcript, make_call, read_transcript

RESEARCHER, REPORT, REMEMBER = "researcher", "report_generation", "store_memory"
_READ_SECTIONS = 3
_NO_MODEL = "*No language model was involved: these are the passages that match best, quoted word for word.*"
_WEAK = "*The match is weak. These are the closest passages; no model has judged whether they answer the question.*"
_NOTHING = "*No passage contains a word of this question: {question}*"
_ASK = "Ask a question, and I quote the passages of the sources that match it best. No language model is involved."
_NO_SOURCES = "I can only quote from sources, and this chat has no search tool. No language model is involved."
_TO_REMEMBER = re.compile(r"(?:please,? )?remember:? (?:that )?(?P<fact>.*\w.*)", re.IGNORECASE | re.DOTALL)
_Turn = tuple[str, Sequence[PlannedCall]]  # text and tool calls


def plan(request: ModelRequest) -> _Turn:
    """Return the text or the tool calls that follow from the request."""
    transcript = read_transcript(request.messages)
    forced = request.tool_choice.name if isinstance(request.tool_choice, ForcedTool) else ""
    if request.tool_choice == "none":
        return _answer(transcript), ()
    text, calls = free_turn(transcript, request.tools)
    if forced or (request.tool_choice == "required" and not calls):
        name = forced or request.tools[0].name
        calls = [call for call in calls if call.name == name][:1] or [_any_call(name, transcript, request.tools)]
        text = ""
    return text, calls if request.parallel_tool_calls else calls[:1]


def free_turn(transcript: Transcript, tools: Sequence[ToolSpec]) -> _Turn:
    """Return the text or the tool calls that follow from the results so far."""
    known = {spec.name: spec for spec in tools}
    if RESEARCHER in known:
        return _supervise(transcript, known)
    if REMEMBER in known and (asked := _TO_REMEMBER.fullmatch(transcript.question)):
        return _remember(transcript, known[REMEMBER], asked["fact"])
    search, read = (
        next((known[name] for name in known if name in names), None) for names in (SEARCH_TOOLS, READ_TOOLS)
    )
    return _research(transcript, search, read) if search else (_answer(transcript), ())


def _supervise(transcript: Transcript, known: dict[str, ToolSpec]) -> _Turn:
    """Send a researcher for each part of the question, then hand in the report."""
    asked = parts(transcript.question, transcript.questions[:-1])
    if not asked:
        return _ASK, ()
    done = {step.text for step in transcript.named({RESEARCHER})}
    if left := [part for part in asked if part not in done]:
        return "", [make_call(known[RESEARCHER], part, query=part) for part in left]
    if REPORT in known and not transcript.named({REPORT}):
        return "", [_any_call(REPORT, transcript, list(known.values()))]
    return _answer(transcript), ()


def _remember(transcript: Transcript, tool: ToolSpec, fact: str) -> _Turn:
    """Store what the user states as a fact, then say how that ended."""
    made = transcript.named({REMEMBER})
    if not made:
        return "", [PlannedCall(tool.name, {"text": fact})]
    return f"I {'did not store' if made[-1].is_error else 'will remember'} this: {made[-1].text}", ()


def _research(transcript: Transcript, search: ToolSpec, read: ToolSpec | None) -> _Turn:
    """Search with every query, read the sections of the best passages, answer."""
    question = _own_question(transcript)
    if not question:
        return _ASK, ()
    made = {step.text for step in transcript.named(SEARCH_TOOLS)}
    if left := [query for query in queries(question) if query not in made]:
        return "", [make_call(search, query, query=query) for query in left]
    passages = chosen(question, transcript.named(SEARCH_TOOLS))
    wanted = list(dict.fromkeys(passage.section for passage in passages))[:_READ_SECTIONS]
    if read and not transcript.named(READ_TOOLS) and wanted:
        return "", [make_call(read, location, location=location) for location in wanted]
    return _answer(transcript), ()


def _own_question(transcript: Transcript) -> str:
    """Return the question with what it refers to; empty for a greeting."""
    found = parts(transcript.question, transcript.questions[:-1])
    return " ".join(found[:1] if len(found) == 1 else [transcript.question] if found else [])


def _any_call(name: str, transcript: Transcript, tools: Sequence[ToolSpec]) -> PlannedCall:
    spec = next((spec for spec in tools if spec.name == name), ToolSpec(name, "", {}))
    question = transcript.question or "?"
    return make_call(
        spec, question, title=question[:120], markdown=_answer(transcript), query=question, location=question
    )


def _answer(transcript: Transcript) -> str:
    """Return the report or the answer that the results so far allow."""
    if any(step.content for step in transcript.named({REPORT})):
        return "The report is ready."
    if transcript.named({RESEARCHER}):
        return _report(transcript)
    question = _own_question(transcript)
    if not transcript.named(SEARCH_TOOLS):
        return _NO_SOURCES if question else _ASK
    return f"{_NO_MODEL}\n\n{_quotes(question, transcript)}"


def _quotes(question: str, transcript: Transcript) -> str:
    """Return the passages under their headings, each with its citation."""
    passages = chosen(question, transcript.named(SEARCH_TOOLS))
    if not passages:
        return _NOTHING.format(question=question)
    pages = {step.text: step.content for step in transcript.named(READ_TOOLS)}
    quotes = [quoted(question, one, pages.get(one.section, "")) for one in passages]
    shown = [f"### {_heading(one)} [{one.id}]\n\n{quote}" for one, quote in zip(passages, quotes, strict=True)]
    return "\n\n".join([*([_WEAK] if max(one.coverage for one in passages) < WEAK else []), *shown])


def _heading(passage: Passage) -> str:
    """Return the innermost headings and the title, with the version and date that the source states."""
    title, *path = dict.fromkeys(filter(None, (passage.title, *passage.heading.split(" > "))))
    stated = ", ".join(filter(None, (passage.version and f"version {passage.version}", passage.date)))
    shown = " \u203a ".join([title, *path[-2:]]) + (f" ({stated})" if stated else "")
    return shown.replace("[", "(").replace("]", ")")


def _report(transcript: Transcript) -> str:
    """Return the researchers' answers under their questions, each passage once."""
    steps = transcript.named({RESEARCHER})
    sections, shown = [_NO_MODEL], set()
    for step in steps:
        answer = step.content.replace(_NO_MODEL, "").strip()
        if step.is_error or not answer:
            answer = "*The researcher of this part failed.*"
        lead, *quotes = re.split(r"^(?=### )", answer, flags=re.MULTILINE)
        new = [quote.strip() for quote in quotes if quote.strip() not in shown]
        shown.update(new)
        asked = re.sub(r" \(about: [^()]*\)$", "", step.text)
        heading = [f"## {asked[:1].upper()}{asked[1:]}"] if len(steps) > 1 else []
        above = [f"See above: {quotes[0][4:].partition(' [')[0]}."] if quotes and not new else []
        sections += [*heading, *filter(None, [lead.strip()]), *new, *above]
    return "\n\n".join(sections)
