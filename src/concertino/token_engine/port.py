"""The ports of the token engine: a counter, and the window through which a model sees a conversation."""

from __future__ import annotations

from typing import Protocol

from ..messages import Message, Messages


class TokenCounter(Protocol):
    """Counts tokens of a text. Never uses the network."""

    name: str
    """Goes into usage records as the way in which an estimate was made."""
    exact: bool
    """Whether this is the tokenizer of the model, or an estimate."""

    def count(self, text: str) -> int:
        """The number of tokens of *text*; at most its length in UTF-8 bytes."""
        ...

    def cut(self, text: str, limit: int) -> str:
        """The longest beginning of *text* of at most *limit* tokens by this counter."""
        ...


class ContextWindow(Protocol):
    """One run's conversation: all of it is kept, and a view of it that fits is sent."""

    counter: TokenCounter
    trimmed: int
    """How many messages of the record the last view left out."""

    def append(self, message: Message) -> None:
        """Add to the end of the record. O(1); nothing is ever taken out."""
        ...

    def replace(self, messages: list[Message]) -> None:
        """Begin again with other messages, because a hook has changed the conversation."""
        ...

    def edits(self) -> list[int] | None:
        """What the last view left out, in a form that a journal can keep; None: nothing. The same until it changes."""
        ...

    def restore(self, edits: list[int]) -> None:
        """Show what the view showed after these *edits*; to be called with the record as it was then, or longer."""
        ...

    def record(self) -> Messages:
        """All messages, as they were appended."""
        ...

    def view(self, fixed: dict[str, str], reserve: int) -> Messages:
        """What to send: the record, or its newest part if the whole does not fit.

        *fixed* names the parts that go along with every request (system prompt, tools) by their text; *reserve*
        is the room in tokens for the answer. Without trimming, one view is a prefix of the next. The same object
        *fixed*
        means the same texts: it is looked through once.

        Raises `ContextFloorError`, naming what fills the window, if not even the newest part fits.
        """
        ...

    def cut(self, text: str, fixed: dict[str, str], reserve: int) -> str:
        """The beginning of *text* that a message may have; all of it, the same object, if it fits.

        Raises `ContextFloorError` if *fixed* and *reserve* leave no room at all.
        """
        ...

    def allowance(self, results: int) -> int:
        """How many tokens each of *results* tool results of one turn may have."""
        ...
