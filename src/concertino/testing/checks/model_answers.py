"""The model's side of a play: one answer after another, as the scenario has them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from ...messages import ToolSpec
from ...providers.base import ModelEvent, ModelRequest
from ...storage import encode_message
from ..scripted import Answer, ScriptedModel
from .request_rules import request_problem
from .scenario import Move, Trace
from .schema_values import value_of
from .watch import INSIDE

RUN_ID = "checked"
_MOST_REQUESTS = 300
"""Requests after which a run counts as endless."""


class CheckedModel(ScriptedModel):
    """A model that asks the play for each answer."""

    provider = "check"

    def __init__(self, answer: Callable[[ModelRequest], tuple[int, Answer]], name: str = "model") -> None:
        super().__init__(name=name)
        self._answer_of = answer

    def _answer(self, request: ModelRequest) -> Answer:
        number, answer = self._answer_of(request)
        self._calls = 100 * number  # a repeated answer has the same ids
        return answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the answer that the case has for *request*."""
        self.requests.clear()
        async for event in super().stream(request):
            yield event


class Playing(Protocol):
    """The play that the answers belong to."""

    trace: Trace
    gone: bool
    run_id: str

    async def point(self, name: str) -> None:
        """Pass a point."""

    def give_up(self) -> None:
        """End a run that does not end."""


class Answers:
    """The answers of the model to one run, over all its processes."""

    def __init__(
        self, play: Playing, moves: Sequence[Move], tools: Mapping[str, ToolSpec], user: str, owner: str
    ) -> None:
        self.moves = 0
        """Number of moves so far."""
        self.last_move = ""
        self.last_text = ""
        self._play = play
        self._moves_of_case = moves
        self._tools = tools
        self._user = user
        self._owner = owner
        self._questions = 0
        self._sent: dict[str, list[tuple[int, Answer]]] = {}
        """The answers of this process by request, which an interrupted request gets again in the next process."""
        self._carried: dict[str, list[tuple[int, Answer]]] = {}

    def next_process(self) -> None:
        """Carry the answers over to a new process."""
        self._carried, self._sent = {**self._carried, **self._sent}, {}

    def answer(self, request: ModelRequest) -> tuple[int, Answer]:
        """Return the model's answer to *request*, and its number."""
        if self._play.gone:
            return 0, Answer()
        if problem := request_problem(request):
            self._play.trace.report("request", problem)
        asked = self._canonical(request)
        if INSIDE.get():
            return 0, self._side_answer(request)
        carried = self._carried.get(asked)
        if carried:
            number, answer = carried.pop(0)
        else:
            moves = self._moves_of_case
            move = moves[min(self.moves, len(moves) - 1)]
            self.moves += 1
            number = self.moves
            self._play.trace.events.append(move.label)
            self.last_move = move.kind
            answer = scripted(move.answer(request, self._tools, self._user, self.moves), request)
        self.last_text = answer.text
        if asked not in self._play.trace.requests[-3:]:
            self._play.trace.requests.append(asked)
        self._sent.setdefault(asked, []).append((number, answer))
        self._check_users(asked)
        if self.moves == _MOST_REQUESTS:
            self._end_endless("the run sends", "requests")
        return number, dataclasses.replace(
            answer, before=lambda: self._play.point("model"), midway=lambda: self._play.point("answer")
        )

    def _side_answer(self, request: ModelRequest) -> Answer:
        self._questions += 1
        if self._questions == _MOST_REQUESTS:
            self._end_endless("the hooks and tools of the run ask", "questions")
        return dataclasses.replace(self._noted(request), before=lambda: self._play.point("question"))

    def _end_endless(self, what: str, of: str) -> None:
        self._play.trace.report("endless", f"{what} {_MOST_REQUESTS} {of}, and more")
        self._play.give_up()

    def _noted(self, request: ModelRequest) -> Answer:
        if request.output_schema is None:
            return Answer(text=f"Noted, said-{self._user}.")
        return Answer(text=json.dumps(value_of(request.output_schema.schema, f"said-{self._user}")))

    def _check_users(self, asked: str) -> None:
        """Report a request with content of another user's run."""
        other = {"ann": "bob", "bob": "ann"}[self._user]
        if any(f"{kind}-{other}" in asked for kind in ("words", "said", "args")):
            self._play.trace.report("shared", "a request has content of a run of another user")

    def _canonical(self, request: ModelRequest) -> str:
        messages = [encode_message(each) for each in request.messages]
        form = [request.model, request.system, messages, sorted(spec.name for spec in request.tools)]
        text = json.dumps([*form, str(request.tool_choice)], default=str)
        return self.canonical(text)

    def canonical(self, text: str) -> str:
        """Return *text* with the ids of the case replaced, which differ from case to case."""
        return text.replace(self._owner, self._user).replace(self._play.run_id, RUN_ID)


def scripted(step: Any, request: ModelRequest) -> Answer:
    """Return one step of a script as an `Answer`."""
    model = ScriptedModel(step)
    return model._answer(request)
