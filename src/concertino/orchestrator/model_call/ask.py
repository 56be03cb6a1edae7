"""`RunContext.ask`: a hook's question to the model, outside the conversation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...events import QuestionAnswered
from ...ids import digest
from ...messages import UserMessage
from ...providers.base import ModelRequest
from ..hooks import Hooks
from ..journal.entries import SideAnswered
from ..recorder import record_side_answer
from ..run import RunSession
from .call import SideCall


class Questions:
    """The questions of one run's hooks.

    A hook that runs again after a crash gets the recorded *answers* to the same questions and asks only the others.
    """

    def __init__(self, run: RunSession, hooks: Hooks, answers: Sequence[SideAnswered] = ()) -> None:
        self._run = run
        self._hooks = hooks
        self._answers: defaultdict[str, list[str]] = defaultdict(list)
        for answer in answers:
            self._answers[answer.question].append(answer.answer)

    async def ask(self, prompt: str, *, system: str | None = None) -> str:
        """Ask the run's model; see `RunContext.ask`."""
        run = self._run
        system = run.system if system is None else system
        question = digest(f"{len(system)}:{system}{prompt}")
        if known := self._answers.get(question):
            answer = known.pop(0)
            run.emit(QuestionAnswered, answer)
            return answer
        request = ModelRequest(
            model=run.model.name,
            system=system,
            messages=(UserMessage(prompt),),
            max_output_tokens=run.limits.output,
        )
        attempt = await SideCall(run, self._hooks, audience="internal", last=True).answer(run.model, request)
        text = attempt.message.text
        run.emit(QuestionAnswered, text, "internal", attempt.usage_id)
        await record_side_answer(run, question, text)
        return text
