"""Texts in PostgreSQL, which stores no NUL."""

from __future__ import annotations

from typing import Any

from psycopg.abc import AdaptContext
from psycopg.types.string import StrDumperUnknown, TextLoader

NUL = "\x00"
ESCAPE = "\ufdd0"
"""Not a character (Unicode's noncharacters). NUL becomes this and a 0, and it itself becomes this and a 1."""


class Wire(str):
    """A text that has the stored form already."""

    __slots__ = ()


def plain_text(text: str) -> str:
    """Return the text of the stored form."""
    return text.replace(ESCAPE + "0", NUL).replace(ESCAPE + "1", ESCAPE) if ESCAPE in text else text


class TextDumper(StrDumperUnknown):
    """Texts, also with NUL."""

    def dump(self, obj: str) -> Any:
        """Return the stored form."""
        if NUL in obj or ESCAPE in obj:
            obj = obj.replace(ESCAPE, ESCAPE + "1").replace(NUL, ESCAPE + "0")
        return super().dump(obj)


class TextReader(TextLoader):
    """Texts, also with NUL."""

    def load(self, data: Any) -> str:
        """Return the text of the stored form."""
        return plain_text(str(super().load(data)))


def adapt_texts(connection: AdaptContext) -> None:
    """Store texts with NUL on *connection*."""
    assert connection.adapters is not None
    connection.adapters.register_dumper(str, TextDumper)
    connection.adapters.register_dumper(Wire, StrDumperUnknown)
    for name in ("text", "varchar"):
        connection.adapters.register_loader(name, TextReader)
