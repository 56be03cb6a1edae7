"""`concertino research`: one question, a team of researchers, one report."""

from __future__ import annotations

import sys

from ... import wiring
from ...agents.deep_research import FEEDBACK, RESEARCHER, DeepResearchSupervisor
from ...messages import Message
from ...orchestrator.chat import Chat
from ...orchestrator.engine import ToolOrchestrator
from ...runtime import LiveRun
from ...tools.builtin.feedback import feedback_questions
from ...tools.registry import ToolRegistry
from ..context import Means
from ..render.console import is_terminal, read_line
from ..render.result import Outcome, Sources, outcome_of
from .chat import new_conversation_id
from .watch import LEASE, hand_out, watch


async def research(question: str | None, means: Means) -> int:
    """Answer *question*, which must be there, and print the report.

    Where a person can answer, the model may ask back, once.
    """
    assert question is not None
    conversation = new_conversation_id()
    asks_back = not means.is_demo and not means.screen.as_json and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    outcome = await _run(question, (), conversation, means, asks_back=asks_back)
    result = outcome.result
    if asks_back and result.status == "completed" and FEEDBACK in result.data:
        answer = _answer(result.data[FEEDBACK]["questions"], means)
        if answer:
            outcome = await _run(answer, result.messages, conversation, means, asks_back=False)
    return hand_out(outcome, means)


async def _run(
    message: str, history: tuple[Message, ...], conversation: str, means: Means, *, asks_back: bool
) -> Outcome:
    registry = ToolRegistry(wiring.research_team(means.library))
    if asks_back:
        registry.register(feedback_questions())
    chat = Chat(
        model=means.model,
        models=means.models.find,
        message=message,
        history=history,
        store=means.store,
        session=means.session,
        conversation_id=conversation,
        counter=means.counter,
        limits=means.limits,
    )
    orchestrator = ToolOrchestrator(chat, DeepResearchSupervisor(), registry, lease=LEASE)
    sources = Sources()
    view = means.screen.view(frozenset((RESEARCHER,)))
    result = await watch(LiveRun(orchestrator), means.stop, view, sources)
    return outcome_of(result, question=message, conversation_id=conversation, sources=sources)


def _answer(questions: list[str], means: Means) -> str:
    for number, question in enumerate(questions, 1):
        means.screen.notice(f"{number}. {question}")
    return (read_line("your answer> ", means.screen, means.stop) or "").strip()
