"""A case of `check_agent`: what the model answers, what happens to the run, and what people answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from ...errors import BadRequestError, OverloadedError
from ...messages import ToolSpec
from ...providers.base import ModelRequest
from ...records import record
from ..scripted import Answer, call
from .schema_values import value_of

ODD_TEXT = '{"answer": [1, }\x00 \N{PILE OF POO} </tool_call> "'
"""Text that no parser of an agent expects."""


@record
class Move:
    """An answer of the model."""

    kind: str
    tool: str = ""
    """Name of the called tool, as models see it."""
    given: Any = None
    """A step of a `ScriptedModel` that the caller of the check gave."""

    @property
    def label(self) -> str:
        """The move in the words of a report."""
        return f"the model {_LABELS[self.kind]}{self.tool and ' ' + self.tool}"

    @property
    def calls(self) -> bool:
        """True if the answer may call tools."""
        return self.kind in _CALLING

    def answer(self, request: ModelRequest, tools: Mapping[str, ToolSpec], word: str, number: int) -> Any:
        """Return the step of a script; *word* marks its texts, *number* counts the moves."""
        if self.kind == "given":
            return self.given
        if self.kind in _ODD:
            return _ODD[self.kind]()
        if self.calls:
            return self._call(tools, word, number)
        text = f"said-{word}"
        if self.kind == "value":
            schema = request.output_schema
            return json.dumps({"answer": text} if schema is None else value_of(schema.schema, text, number))
        return f"The answer is {text}."

    def _call(self, tools: Mapping[str, ToolSpec], word: str, number: int) -> Any:
        if self.kind == "all":
            return [
                call(each.name, **value_of(each.parameters, arguments_mark(word, each.name), number))
                for each in tools.values()
            ]
        if self.kind in ("wrong", "broken"):
            return call(self.tool, '{"a": ' if self.kind == "broken" else '{"wrong": [null]}')
        if self.tool not in tools:
            return call("no_such_tool", text=f"args-{word}")
        text, choice = arguments_mark(word, self.tool), number if self.kind == "call" else 0
        made = call(self.tool, **value_of(tools[self.tool].parameters, text, choice))
        return [made, made] if self.kind == "twice" else made


def arguments_mark(word: str, tool: str) -> str:
    """Return the text that marks the arguments of *tool*."""
    return f"args-{word}-{tool}."


_ODD: dict[str, Callable[[], Any]] = {
    "empty": Answer,
    "odd": lambda: ODD_TEXT,
    "cut": lambda: Answer(text="The answer is", stop_reason="length"),
    "busy": lambda: OverloadedError("the model is busy"),
    "fails": lambda: BadRequestError("the model refuses the request"),
}
"""Answers that do not depend on the request."""
_LABELS = {
    "text": "writes text",
    "value": "writes JSON that matches the schema",
    "empty": "answers nothing",
    "odd": "writes text that no parser expects",
    "cut": "is cut off at its limit",
    "busy": "is busy",
    "fails": "refuses the request",
    "unknown": "calls a tool that does not exist",
    "call": "calls",
    "repeat": "repeats its call of",
    "twice": "makes the same call twice at once of",
    "wrong": "gives wrong arguments to",
    "broken": "writes broken JSON as arguments of",
    "all": "calls all tools at once",
    "given": "gives your answer",
}
_CALLING = ("unknown", "call", "repeat", "twice", "wrong", "broken", "all", "given")

What = Literal["crash", "stop", "steer", "hold"]
WAITS = " waits"
"""The end of the name of a point at which a hook waits for something. A run can only be stopped there."""


@record
class Control:
    """Something that happens to the run at a point: a crash of its process, a stop, a message of the user.

    `hold` makes the run wait there until another run of the same process has ended.
    """

    point: int
    what: What


PersonReply = Literal["approve", "deny", "approve twice", "edit", "restart"]
REPLIES: tuple[PersonReply, ...] = ("approve", "deny", "approve twice", "edit", "restart")
"""What a person does about a waiting call. `restart`: approves it after the process was restarted."""


@record
class Scenario:
    """A run to play. After its last move, the model repeats that move."""

    moves: tuple[Move, ...]
    controls: tuple[Control, ...] = ()
    replies: tuple[PersonReply, ...] = ("approve",)
    """For one wait after another; then the last one again."""


@record(frozen=False)
class Trace:
    """The outcome of a case."""

    status: str = ""
    text: str = ""
    error: str = ""
    limit: str = ""
    """The limit of the engine that the run reached."""
    requests: list[str] = field(default_factory=list)
    """The different requests of its turns, in order."""
    state: str = ""
    events: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    """The names of the points that were passed."""
    found: dict[Any, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """By class: the problem, and the events before it."""
    unknown: bool = False
    """Whether a call was lost in a crash, so that the run goes on differently for a good reason."""
    waited: bool = False

    def report(self, kind: str, problem: str) -> None:
        """Add a fault, unless one of its class was found before."""
        self.found.setdefault(kind, (problem, tuple(self.events)))

    @property
    def outcome(self) -> tuple[str, str, str, list[str]]:
        """The values that must not depend on crashes and on other runs."""
        return self.status, self.text, self.state, self.requests
