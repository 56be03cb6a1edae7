"""A run of text or of reasoning, or one call of a chat completion, that is being written."""

from __future__ import annotations

from typing import Any

from ...ids import new_call_id
from ...messages import Part, Reasoning, Text, ToolCall
from ..wire import dumps, is_object

_OURS = frozenset({"id", "index", "type", "function"})


class Piece:
    """A piece of an answer: of the kind `text`, `refusal`, `reasoning` or `call`."""

    __slots__ = ("_more", "given", "id", "kind", "name", "ready", "texts")

    def __init__(self, kind: str, call_id: str = "", name: str = "", given: str = "") -> None:
        self.kind = kind
        self.id = call_id
        self.name = name
        self.given = given
        """The id that the server has given the call, which may have none, or another call's."""
        self.texts: list[str] = []
        self.ready = False
        self._more: dict[str, Any] | None = None

    def take(self, delta: dict[str, Any]) -> None:
        """Keep what a call has besides its function, such as Google's `extra_content` with a signature."""
        for name, value in delta.items():
            if name not in _OURS and value is not None and name != "custom":
                self._more = {**(self._more or {}), name: value}

    def part(self, label: str) -> Part:
        """The piece as a part; *label* is whose it is."""
        text = "".join(self.texts)
        match self.kind:
            case "text":
                return Text(text)
            case "refusal":
                return Text(text, raw=dumps({"refusal": text}), provider=label)
            case "reasoning":
                return Reasoning(text, provider=label)
            case _:
                raw = dumps(self._more) if self._more else None
                return ToolCall(self.id, self.name, text or "{}", raw=raw, provider=label if raw else "")


class Calls:
    """The calls among *pieces*, and how they are told apart: by index; where there is none, or the same for all, by id;
    and where ids do not tell either, by a name behind arguments that are whole. A call begins with its name."""

    __slots__ = ("_at", "_pieces")

    def __init__(self, pieces: list[Piece]) -> None:
        self._at: dict[int, Piece] = {}
        self._pieces = pieces

    def of(self, index: int | None, given: str, name: str, text: str) -> Piece:
        """The call that a delta belongs to, which may begin with it; *given* is its id, *text* its arguments."""
        call = self._under_way(index, given, name)
        if call is None or (name and call.name and _begins(call, index, given, name, text)):
            taken = not given or any(given == piece.id for piece in self._pieces)
            call = Piece("call", new_call_id() if taken else given, given=given)
            self._pieces.append(call)
        if index is not None:
            self._at[index] = call
        call.name = call.name or name
        return call

    def _under_way(self, index: int | None, given: str, name: str) -> Piece | None:
        here = None if index is None else self._at.get(index)
        if here is not None and given in ("", here.given):
            return here
        calls = [piece for piece in reversed(self._pieces) if piece.kind == "call"]
        same = next((call for call in calls if given and call.given == given), None)
        if index is None:
            return same or (calls[0] if calls else None)
        if same is None:
            return here
        return None if name and here is None else same  # a name at a new index: two calls have one id


def _begins(call: Piece, index: int | None, given: str, name: str, text: str) -> bool:
    """Whether a delta with a *name* begins another call than *call*, which is under way."""
    if given and (given != call.given or index is not None):
        return given != call.given
    if name != call.name:
        return True
    return bool(text) and is_object("".join(call.texts))
