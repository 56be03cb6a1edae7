"""`RecordedRun`: the model's answers, the tools' results and the questions of one run, from its journal."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ..errors import ErasedError, RunStateError
from ..ids import call_key, is_attempt
from ..messages import AssistantMessage, ToolCall, ToolMessage
from ..orchestrator.chat import Chat
from ..orchestrator.journal.entries import Ended, ModelAnswered, ModelRequested, SideAnswered, SummaryReady
from ..orchestrator.journal.replay import JournalStep, Replay, read_steps
from ..orchestrator.lifecycle.resume import chat_of
from ..providers.base import ModelRequest
from ..records import record
from ..storage.types import StoredJournal
from ..token_engine.edits import Summarize
from ..token_engine.planner import summary_of
from ..usage import UsageRecord


@record(frozen=False, kw_only=True)
class RecordedExchange:
    """A request of a turn with its answer, after any number of attempts."""

    step: int
    request: ModelRequest
    """That of the first attempt."""
    message: AssistantMessage | None = None
    """None if no model answered."""
    usage: list[UsageRecord] = field(default_factory=list)
    """All that was booked since the previous exchange: attempts, questions, summaries, the tools' own records."""
    answered: UsageRecord | None = None
    """The record of the attempt that was answered."""


@record
class ToolOutcome:
    """The recorded result of a tool call."""

    message: ToolMessage
    data: Any = None
    ends_run: bool = False


class RecordedRun:
    """A run that has ended, as its journal recorded it.

    Raises `RunStateError` if the journal lacks data for a replay: the run has not ended, was stopped or forked,
    received messages meanwhile, had background calls or calls outside turns, or its content was erased.
    """

    def __init__(self, journal: StoredJournal) -> None:
        self.journal = journal
        self.exchanges: list[RecordedExchange] = []
        self.questions: defaultdict[str, list[str]] = defaultdict(list)
        """Answers to questions outside the conversation, by the digest of the question."""
        self.summaries: list[tuple[int, str]] = []
        """Summaries of older messages, each with the number of the turns' requests before it was ready."""
        self.usage: list[UsageRecord] = []
        self.outcomes: dict[str, ToolOutcome] = {}
        """The results by the call's id, which is unique in a run."""
        self._calls: dict[str, ToolCall] = {}
        self._ending: set[str] = set()
        """The ids of the calls whose results end the run."""
        self._alike: defaultdict[tuple[str, str], list[ToolOutcome]] = defaultdict(list)
        self.error: str | None = None
        run = journal.run
        if run.end is None:
            raise RunStateError(f"it has not ended: it is {run.state}")
        if run.end.status == "cancelled":
            raise RunStateError("it was stopped")
        self.state = Replay(run, journal.texts, journal.contents, journal.history)
        self._open: RecordedExchange | None = None
        try:
            for step in read_steps(journal):
                self._read(step)
        except ErasedError:
            raise RunStateError("its content was erased, as its data policy demands") from None
        if self._open is not None:
            self.exchanges.append(self._open)
        if self.state.started.forked_from is not None:
            raise RunStateError("it is a fork")
        if self.state.commands:
            raise RunStateError("it was steered: the journal does not record before which event a message came")

    @property
    def chat(self) -> Chat:
        """The chat that the run was given."""
        return chat_of(self.state, Chat())

    def arguments_of(self, call_id: str) -> dict[str, Any] | None:
        """Return the arguments of a recorded call; None if they are no JSON object."""
        call = self._calls.get(call_id)
        return None if call is None else arguments_of(call)

    def outcome_like(self, call: ToolCall) -> ToolOutcome | None:
        """Return the result of a recorded call with the same tool and arguments; each is used once, the last again."""
        found = self._alike.get(alike(call))
        return None if not found else found.pop(0) if len(found) > 1 else found[0]

    def _read(self, step: JournalStep) -> None:
        known, found = len(self.state.added), self.state
        found.apply(step)
        self.usage += step.usage
        if any(".hook" in key for key, _ in step.common.transitions):
            raise RunStateError("a hook called a tool outside a turn")
        if found.background:
            raise RunStateError("it had calls in the background")
        if step.common.ending and (turn := found.turn) is not None:
            keys = {
                call_key(found.run.start.run_id, step.step, index): call.id for index, call in enumerate(turn.calls)
            }
            self._ending |= {keys[key] for key in turn.ending}
        for message in found.added[known:]:
            if isinstance(message, AssistantMessage):
                self._calls.update({call.id: call for call in message.tool_calls})
            elif isinstance(message, ToolMessage):
                ends_run = message.call_id in self._ending
                self._add(ToolOutcome(message, step.common.data.get(message.name), ends_run))
        self._follow(step)
        self._book(step.usage)

    def _add(self, outcome: ToolOutcome) -> None:
        call_id = outcome.message.call_id
        self.outcomes[call_id] = outcome
        if call_id in self._calls:
            self._alike[alike(self._calls[call_id])].append(outcome)

    def _follow(self, step: JournalStep) -> None:
        found = self.state
        match step.entry:
            case ModelRequested() if self._open is None:
                assert found.request is not None
                self._open = RecordedExchange(step=step.step, request=found.request.request)
            case ModelAnswered() if self._open is not None:
                assert found.turn is not None
                self._open.message = found.turn.message
            case SideAnswered(question=question, answer=answer):
                self.questions[question].append(answer)
            case SummaryReady(ready=ready):
                sent = len(self.exchanges) + (self._open is not None)
                self.summaries += [(sent, summary_of(edit.text)) for edit in ready[-1:] if isinstance(edit, Summarize)]
            case Ended(error=error):
                self.error = error
            case _:
                pass

    def _book(self, usage: Sequence[UsageRecord]) -> None:
        """Book to the open exchange, which is complete with its answer; later usage belongs to the last one."""
        target = self._open or (self.exchanges[-1] if self.exchanges else None)
        if target is None:
            return
        target.usage += usage
        if self._open is not None and self._open.message is not None:
            measured = [one for one in usage if one.source == "measured" and is_attempt(one.id)]
            self._open.answered = measured[-1] if measured else None
            self.exchanges.append(self._open)
            self._open = None


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments of a call; None if the model did not write a JSON object."""
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def alike(call: ToolCall) -> tuple[str, str]:
    """Return a key that calls of one tool with the same arguments share."""
    arguments = arguments_of(call)
    return call.name, call.arguments if arguments is None else json.dumps(arguments, sort_keys=True)
