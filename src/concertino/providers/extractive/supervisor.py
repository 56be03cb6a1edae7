"""The supervisor's part: sub-questions to researchers, all at once; then the report; then one closing sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...messages import ToolSpec
from .questions import Question, analyse, continued
from .quotes import read
from .report import Finding, compose, title_of
from .subquestions import SubQuestion, split
from .synonyms import plain_synonyms
from .transcript import Step, Transcript, parse_object
from .turn import Call, Turn, argument_name, fill

RESEARCHER, REPORT = "researcher", "report_generation"
_QUERY = ("query", "question", "task")


def supervise(transcript: Transcript, tools: Sequence[ToolSpec]) -> Turn:
    """The next turn of a supervisor."""
    known = {spec.name: spec for spec in tools}
    parts = split(transcript.question, transcript.users[:-1])
    if not parts:
        return Turn("What would you like to have researched? Ask a question.")
    if reports := transcript.named(REPORT):
        return _closing(transcript, reports)
    made = {step.argument(*_QUERY): step for step in transcript.named(RESEARCHER)}
    if left := [part.text for part in parts if part.text not in made]:
        return _ask(known[RESEARCHER], left)
    again = [text for part in parts if part.asked and (text := _rephrased(part, made[part.text]))]
    if left := [text for text in again if text not in made]:
        return _ask(known[RESEARCHER], left)
    if REPORT in known:
        return Turn(calls=(report_call(transcript, known[REPORT]),))
    return Turn(markdown(transcript))


def report_call(transcript: Transcript, spec: ToolSpec) -> Call:
    """The call that hands in the report, from whatever there is."""
    title, text = title_of(transcript.question), markdown(transcript)
    return fill(spec, {argument_name(spec, ("title",)): title, argument_name(spec, ("markdown", "text")): text}, text)


def markdown(transcript: Transcript) -> str:
    """The report on what the researchers have answered so far."""
    question = _question(transcript)
    parts = split(transcript.question, transcript.users[:-1])
    made = {step.argument(*_QUERY): step for step in transcript.named(RESEARCHER)}
    findings = [_finding(part, made) for part in parts if part.text in made]
    known = {part.text for part in parts} | {_reworded(part) for part in parts}
    others = [_finding(SubQuestion(query), made) for query in made if query not in known]
    return compose(question, [*findings, *others])


def _finding(part: SubQuestion, made: dict[str, Step]) -> Finding:
    """The answer to a sub-question, or to its second wording if only that has one."""
    step = made[part.text]
    second = made.get(_reworded(part))
    if second is not None and read(second.content) and not read(step.content):
        step = second
    if step.result is None:
        return Finding(part, "no answer came back", failed=True)
    return Finding(part, step.result.content, failed=step.result.is_error)


def _question(transcript: Transcript) -> Question:
    return continued(analyse(transcript.question), transcript.users[:-1])


def _ask(spec: ToolSpec, queries: Sequence[str]) -> Turn:
    name = argument_name(spec, _QUERY)
    return Turn(calls=tuple(fill(spec, {name: query}, query) for query in queries))


def _rephrased(part: SubQuestion, step: Step) -> str:
    """A better wording for a sub-question that came back with nothing; empty if there is none."""
    if step.result is None or step.result.is_error or read(step.content):
        return ""
    wording = _reworded(part)
    return wording if wording != part.text else ""


def _reworded(part: SubQuestion) -> str:
    """The sub-question with its plain words replaced by commoner ones; the same where nothing can be replaced."""
    question = analyse(part.text)
    if any(term.named for term in question.terms):
        return part.text
    text = part.text
    for term in question.content:
        others = plain_synonyms(term.word)
        if others:
            text = re.sub(rf"\b{re.escape(term.word)}\b", others[0], text, count=1)
    return text


def _closing(transcript: Transcript, reports: Sequence[Step]) -> Turn:
    last = reports[-1]
    arguments = parse_object(last.call.arguments)
    if last.result is not None and last.result.is_error:
        return Turn(f"The report could not be handed in; here it is.\n\n{markdown(transcript)}")
    title = str(arguments.get("title") or title_of(transcript.question))
    return Turn(f"The report “{title}” is ready.")
