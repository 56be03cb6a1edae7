"""`concertino research`: one question, a team of researchers, one report."""

from __future__ import annotations

import sys

from ... import wiring
from ...agents.deep_research import FEEDBACK, RESEARCHER, DeepResearchSupervisor
from ...messages import Message
from ...orchestrator.chat import Chat
from ...orchestrator.engine import ToolOrchestrator
from ...runtime import EventLog, LiveRun
from ...tools.builtin.feedback import feedback_questions
from ...tools.registry import ToolRegistry
from ..command_context import NewRunContext
from ..render.console import is_terminal, read_line
from ..render.result_document import CitedSources, ResultDocument
from .chat import new_conversation_id
from .watch import LEASE, print_result, watch


async def research(question: str | None, context: NewRunContext) -> int:
    """Answer *question* and print the report. If a person can answer, the model may ask back once."""
    assert question is not None
    conversation = new_conversation_id()
    interactive = not context.console.as_json and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    asks_back = interactive and not context.is_demo
    document = await _run(question, (), conversation, context, asks_back=asks_back)
    result = document.result
    if asks_back and result.status == "completed" and FEEDBACK in result.data:
        answer = _answer(result.data[FEEDBACK]["questions"], context)
        if answer:
            document = await _run(answer, result.messages, conversation, context, asks_back=False)
    return print_result(document, context)


async def _run(
    message: str, history: tuple[Message, ...], conversation: str, context: NewRunContext, *, asks_back: bool
) -> ResultDocument:
    registry = ToolRegistry(wiring.research_team(context.library))
    if asks_back:
        registry.register(feedback_questions())
    chat = Chat(message, history=history, scope=context.scope, conversation_id=conversation)
    run = ToolOrchestrator(chat, DeepResearchSupervisor(), registry, resources=context.resources, lease=LEASE)
    return await watch(
        LiveRun(run, EventLog(context.store)),
        context,
        CitedSources(),
        question=message,
        conversation_id=conversation,
        delegates=(RESEARCHER,),
    )


def _answer(questions: list[str], context: NewRunContext) -> str:
    for number, question in enumerate(questions, 1):
        context.console.notice(f"{number}. {question}")
    return (read_line("your answer> ", context.console, context.signals) or "").strip()
