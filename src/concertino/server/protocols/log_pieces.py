"""The pieces of a log: texts, reasoning and calls that start, grow and end. All protocols are mapped from them.

A log contains the deltas of an answer, or the complete answer instead of them, or both; and a front end cannot be made
to forget a delta. Only this module knows how the two fit together, and which pieces a `Voided` event makes void.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from ...events import (
    AttemptFailed,
    Audience,
    CacheMiss,
    ContextEdited,
    Event,
    QuestionAnswered,
    ReasoningDelta,
    RunEnded,
    RunEvent,
    TextDelta,
    ToolCallDelta,
    ToolDone,
    ToolFailed,
    ToolsSelected,
    ToolStarted,
    TurnCompleted,
    Voided,
)
from ...messages import Media, MediaPart, MessagePart, Reasoning, Text, ToolCall
from ...records import record

PieceKind = Literal["text", "reasoning", "call", "media"]
Phase = Literal["start", "delta", "end", "void"]
NOT_FINISHED = "the call was not finished"
ERASED = "[erased: the data policy does not keep the outcome of this call]"


@record(frozen=False)
class Piece:
    """A change of a text, a reasoning or a call: it starts once, grows, and ends; later it may become void.

    A call ends when its arguments are complete. A medium only starts.
    """

    run_id: str
    kind: PieceKind
    id: str
    """Unique in the log; the id of a call is unique in its run."""
    phase: Phase
    text: str = ""
    """The new text of a `delta`, the whole text of an `end`."""
    attempt: str = ""
    audience: Audience = "answer"
    name: str = ""
    """The tool of a call."""
    media: Media | None = None


class _Part:
    """A text, a reasoning or a call, and how much of it was shown."""

    def __init__(self, number: int, event: Event, kind: PieceKind, id: str, name: str = "") -> None:
        self.number = number
        """The number of the event that began it."""
        self.kind, self.text, self.ended = kind, "", False
        attempt: str = getattr(event, "attempt", "")
        audience: Audience = getattr(event, "audience", "answer")
        self._fields: dict[str, Any] = {
            "run_id": event.run_id,
            "kind": kind,
            "id": id,
            "attempt": attempt,
            "audience": audience,
            "name": name,
        }
        self._started = False

    def grow(self, text: str) -> Iterator[Piece]:
        if not self._started:
            self._started = True
            yield self.change("start")
        if text and not self.ended:
            self.text += text
            yield self.change("delta", text)

    def end(self) -> Iterator[Piece]:
        if not self.ended:
            yield from self.grow("")
            self.ended = True
            yield self.change("end", self.text)

    def complete(self, text: str) -> Iterator[Piece]:
        """End with *text*, whose first part was shown."""
        if not self.ended:
            yield from self.grow(text[len(self.text) :] if text.startswith(self.text) else "")
            self.text = text
            yield from self.end()

    def accepts(self, text: str) -> bool:
        """Return whether *text* continues what was shown."""
        return text == self.text if self.ended else text.startswith(self.text)

    def change(self, phase: Phase, text: str = "") -> Piece:
        return Piece(phase=phase, text=text, **self._fields)


class _Answer:
    """The texts and the reasoning of one attempt, in order, without void ones."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.count = 0

    def next(self, number: int, event: Event, kind: PieceKind) -> _Part:
        self.count += 1
        id = getattr(event, "attempt", "") or f"{event.run_id}:{number}"
        part = _Part(number, event, kind, id if self.count == 1 else f"{id}:{self.count}")
        self.parts.append(part)
        return part

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "text")


class LogPieces:
    """Follows one log from its first event on. It leaves out the events that no protocol shows."""

    def __init__(self, root_id: str) -> None:
        self._root_id = root_id
        self._answers: dict[tuple[str, str], _Answer] = {}
        """By run and attempt."""
        self._calls: dict[tuple[str, str], _Part] = {}
        """By run and id: the calls that have no result."""
        self._number = 0
        """The number of the last event."""

    def take(self, number: int, event: RunEvent) -> Iterator[Piece | RunEvent]:  # noqa: C901 - one case per event
        """Yield what the event with this number shows: pieces, or the event itself."""
        before, self._number = self._number, number
        match event:
            case TextDelta() | ReasoningDelta():
                yield from self._delta(number, event)
            case ToolCallDelta():
                yield from self._call(number, event, event.call_id, event.name).grow(event.arguments)
            case TurnCompleted():
                yield from self._complete(number, event, event.message.parts)
            case QuestionAnswered():
                yield from self._complete(number, event, (Text(event.text),))
            case AttemptFailed():
                yield from self._void(event.run_id, event.attempt, 0, number)
            case Voided():
                yield from self._void(event.run_id, event.attempt, event.first, event.last)
            case ToolStarted():
                yield from self._call(number, event, event.call_id, event.name).complete(event.arguments)
                yield event
            case ToolDone() | ToolFailed():
                # A call outside a turn whose start is erased has no piece yet.
                yield from self._call(number, event, event.call_id, event.name).end()
                del self._calls[event.run_id, event.call_id]
                yield event
            case RunEnded():
                yield from self._end(number, event, is_next=number == before + 1)
            case ToolsSelected() | ContextEdited() | CacheMiss():
                pass
            case _:
                yield event

    def _delta(self, number: int, event: TextDelta | ReasoningDelta) -> Iterator[Piece]:
        if event.audience == "internal":
            return
        kind: PieceKind = "text" if isinstance(event, TextDelta) else "reasoning"
        answer = self._answers.setdefault((event.run_id, event.attempt), _Answer())
        if not answer.parts or answer.parts[-1].kind != kind:
            if answer.parts:
                yield from answer.parts[-1].end()
            answer.next(number, event, kind)
        yield from answer.parts[-1].grow(event.text)

    def _call(self, number: int, event: Event, call_id: str, name: str) -> _Part:
        key = (event.run_id, call_id)
        if key not in self._calls:
            self._calls[key] = _Part(number, event, "call", call_id, name)
        return self._calls[key]

    def _complete(
        self, number: int, event: TurnCompleted | QuestionAnswered, parts: Sequence[MessagePart]
    ) -> Iterator[Piece]:
        """Show what is missing of a complete answer. What the pieces showed and the answer does not have is void."""
        if event.audience != "internal":
            answer = self._answers.setdefault((event.run_id, event.attempt), _Answer())
            whole = [
                (kind, text)
                for kind, run in groupby(
                    (part for part in parts if isinstance(part, Text | Reasoning)), lambda p: p.kind
                )
                if (text := "".join(part.text for part in run))
            ]
            shown = answer.parts
            same = len(shown) <= len(whole) and all(
                part.kind == kind and part.accepts(text) for part, (kind, text) in zip(shown, whole, strict=False)
            )
            if not same:
                yield from self._void(event.run_id, event.attempt, 0, number, calls=False)
            for index, (kind, text) in enumerate(whole):
                shown_part = answer.parts[index] if index < len(answer.parts) else answer.next(number, event, kind)
                yield from shown_part.complete(text)
        for part in parts:
            if isinstance(part, ToolCall):
                yield from self._call(number, event, part.id, part.name).complete(part.arguments)
            elif isinstance(part, MediaPart):
                id = f"{event.attempt}:media{part.media.digest[:8]}"
                yield Piece(event.run_id, "media", id, "start", "", event.attempt, event.audience, media=part.media)

    def _void(self, run_id: str, attempt: str, first: int, last: int, *, calls: bool = True) -> Iterator[Piece]:
        for (owner, source), answer in self._answers.items():
            if owner == run_id and attempt in ("", source):
                void = [part for part in answer.parts if first <= part.number <= last]
                answer.parts = [part for part in answer.parts if part not in void]
                for part in void:
                    yield from part.end()
                    yield part.change("void")
        for key, call in list(self._calls.items()) if calls else ():
            piece = call.change("void")
            if key[0] == run_id and first <= call.number <= last and attempt in ("", piece.attempt):
                del self._calls[key]
                yield from call.end()
                yield piece

    def _end(self, number: int, event: RunEnded, *, is_next: bool) -> Iterator[Piece | RunEvent]:
        """End what is open, and show an answer that no turn has shown, such as one of a hook.

        The end of a run erases events that the data policy does not keep. A reader that is behind then gets the end
        next, and not the outcomes of the calls before it.
        """
        result, run_id = event.result, event.run_id
        answers = [answer for (owner, _), answer in self._answers.items() if owner == run_id]
        for answer in answers:
            for part in answer.parts:
                yield from part.end()
        is_final = run_id == self._root_id and result.status != "suspended"
        if is_final and result.text and all(answer.text != result.text for answer in answers):
            yield from _Answer().next(number, event, "text").complete(result.text)
        for key, call in list(self._calls.items()):
            if key[0] == run_id:
                yield from call.end()
                if result.status != "suspended":
                    del self._calls[key]
                    outcome = (run_id, event.agent_path, event.index, key[1], call.change("end").name)
                    if result.status == "completed" and not is_next:
                        yield ToolDone(*outcome, ERASED)
                    else:
                        yield ToolFailed(*outcome, NOT_FINISHED)
        yield event
