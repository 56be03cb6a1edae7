"""`concertino chat`: a conversation, in one turn or turn by turn."""

from __future__ import annotations

from ...agents.main_thread import MainThreadAgent
from ...context import ContextState
from ...ids import new_run_id
from ...messages import Message
from ...orchestrator.chat import Chat
from ...orchestrator.engine import ToolOrchestrator
from ...runtime import LiveRun
from ...tools.builtin.default import Settings, default_registry
from ..context import Means
from ..render.console import read_line
from ..render.result import Outcome, Sources, outcome_of
from .watch import LEASE, hand_out, watch

QUIT = "/quit"


def new_conversation_id() -> str:
    """A fresh id of a conversation, of the same shape as that of a run."""
    return "conv_" + new_run_id().removeprefix("run_")


class Conversation:
    """The turns of one conversation: each sees what was said before, and may cite what was found before."""

    def __init__(self, means: Means) -> None:
        self.id = new_conversation_id()
        self._means = means
        self._history: list[Message] = []
        self._context: ContextState | None = None
        self._registry = default_registry(settings=Settings(library=means.library, memory=means.store))
        self._sources = Sources()

    async def turn(self, message: str) -> Outcome:
        """Answer *message*. A turn that does not complete is not carried on."""
        means = self._means
        chat = Chat(
            model=means.model,
            models=means.models.find,
            message=message,
            history=tuple(self._history),
            store=means.store,
            session=means.session,
            conversation_id=self.id,
            counter=means.counter,
            limits=means.limits,
            context=self._context,
        )
        view = means.screen.view(streams_answer=True)
        orchestrator = ToolOrchestrator(chat, MainThreadAgent(), self._registry, lease=LEASE)
        result = await watch(LiveRun(orchestrator), means.stop, view, self._sources)
        if result.status == "completed":
            self._history += result.messages
            self._context = result.context
        return outcome_of(result, question=message, conversation_id=self.id, sources=self._sources)


async def chat(message: str | None, means: Means) -> int:
    """Answer *message*; without one, each line of standard input until its end, `/quit` or a signal.

    The status is that of the worst turn.
    """
    conversation = Conversation(means)
    if message is not None:
        return hand_out(await conversation.turn(message), means)
    status = 0
    while not means.stop.signal:
        line = read_line("you> ", means.screen, means.stop)
        if line is None or line.strip() == QUIT:
            break
        if line.strip():
            status = max(status, hand_out(await conversation.turn(line), means))
    return means.stop.status if means.stop.signal else status
