"""`concertino chat`: a conversation of one turn or of many."""

from __future__ import annotations

from ...agents.main_thread import MainThreadAgent
from ...context_state import ContextState
from ...ids import new_run_id
from ...messages import Message
from ...orchestrator.chat import Chat
from ...orchestrator.engine import ToolOrchestrator
from ...runtime import EventLog, LiveRun
from ...tools.builtin.default import Settings, default_registry
from ..command_context import NewRunContext
from ..render.console import read_line
from ..render.result_document import CitedSources, ResultDocument
from .watch import LEASE, print_result, watch

QUIT = "/quit"


def new_conversation_id() -> str:
    """Return a fresh conversation id in the form of a run id."""
    return "conv_" + new_run_id().removeprefix("run_")


class ChatSession:
    """The turns of one conversation: each sees the earlier ones and can cite their sources."""

    def __init__(self, context: NewRunContext) -> None:
        self.id = new_conversation_id()
        self._context = context
        self._history: tuple[Message, ...] = ()
        self._state: ContextState | None = None
        self._registry = default_registry(settings=Settings(library=context.library, memory=context.store))
        self._sources = CitedSources()

    async def turn(self, message: str) -> ResultDocument:
        """Answer *message*. A turn that does not complete is not part of the history."""
        context = self._context
        chat = Chat(message, history=self._history, context=self._state, scope=context.scope, conversation_id=self.id)
        run = ToolOrchestrator(chat, MainThreadAgent(), self._registry, resources=context.resources, lease=LEASE)
        document = await watch(
            LiveRun(run, EventLog(context.store)),
            context,
            self._sources,
            question=message,
            conversation_id=self.id,
            streams_answer=True,
        )
        result = document.result
        if result.status == "completed":
            self._history += result.messages
            self._state = result.context
        return document


async def chat(message: str | None, context: NewRunContext) -> int:
    """Answer *message*; without one, each line of standard input until its end, `/quit` or a signal.

    Return the status of the worst turn.
    """
    session = ChatSession(context)
    if message is not None:
        return print_result(await session.turn(message), context)
    status = 0
    while not context.signals.received:
        line = read_line("you> ", context.console, context.signals)
        if line is None or line.strip() == QUIT:
            break
        if line.strip():
            status = max(status, print_result(await session.turn(line), context))
    return context.signals.exit_status if context.signals.received else status
