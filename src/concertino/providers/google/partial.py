"""A function call whose arguments come in pieces (`streamFunctionCallArguments`), put together.

After the reference of `FunctionCall.partialArgs`: each piece names its place by a JSON path (`$.steps[0].text`);
strings grow piece by piece, all else comes whole. `willContinue` is false, or missing, on the last part of a call.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


_OURS = {"id", "name", "args", "partialArgs", "willContinue"}


class PartialCall:
    """A call that is being written."""

    __slots__ = ("arguments", "id", "more", "name", "signature")

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any] | None, signature: str | None) -> None:
        self.id = call_id
        self.name = name
        self.arguments: dict[str, Any] = arguments or {}
        self.signature = signature
        self.more: dict[str, Any] = {}
        """What the part, or the call in it, has besides."""

    def keep(self, part: dict[str, Any]) -> None:
        """Keep what there is no other place for, so that it goes back."""
        call = part["functionCall"]
        inner = {name: value for name, value in call.items() if name not in _OURS}
        more = {name: value for name, value in part.items() if name not in ("functionCall", "thoughtSignature")}
        self.more = {**more, **({"functionCall": inner} if inner else {})}

    def add(self, call: dict[str, Any], signature: str | None) -> None:
        """Take what the next part says."""
        self.signature = signature or self.signature
        self.arguments.update(call.get("args") or {})
        for piece in call.get("partialArgs") or ():
            _put(self.arguments, _steps(piece["jsonPath"]), piece)


def _steps(path: str) -> list[str | int]:
    return [
        int(found[2]) if found[2] is not None else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path)
    ]


def _put(root: dict[str, Any], steps: list[str | int], piece: dict[str, Any]) -> None:
    """Put the value of *piece* at *steps*, making what is missing on the way."""
    place: Any = root
    for step, following in itertools.pairwise(steps):
        place = _at(place, step, [] if isinstance(following, int) else {})
    if not steps:
        return
    last = steps[-1]
    if "stringValue" in piece:
        before = _at(place, last, "")
        place[last] = (before if isinstance(before, str) else "") + piece["stringValue"]
    else:
        _at(place, last, None)
        place[last] = piece.get("numberValue", piece.get("boolValue"))


def _at(place: Any, step: str | int, default: Any) -> Any:
    """What is at *step* of *place*; *default* is put there if nothing is."""
    if isinstance(step, int):
        while len(place) <= step:
            place.append(default if len(place) == step else None)
        return place[step]
    return place.setdefault(step, default)
