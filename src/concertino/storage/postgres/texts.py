"""Texts in PostgreSQL, which stores no NUL; and sealed texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.abc import AdaptContext
from psycopg.types.json import set_json_loads
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown, TextLoader
from pydantic_core import from_json

from ...errors import DamagedDataError

if TYPE_CHECKING:
    from .sealer import Sealer

NUL = "\x00"
ESCAPE = "\ufdd0"
"""Not a character (Unicode's noncharacters). NUL becomes this and a 0, it itself this and a 1, and `SEALED` this and
a 2."""
SEALED = "\udfff"
"""Half of a surrogate pair, which no stored text contains: the mark of a sealed text in this process."""


class Wire(str):
    """A text that has the stored form already."""

    __slots__ = ()


def plain_text(text: str) -> str:
    """Return the text of the stored form; a sealed one begins with `SEALED`."""
    if ESCAPE not in text:
        return text
    return text.replace(ESCAPE + "2", SEALED).replace(ESCAPE + "0", NUL).replace(ESCAPE + "1", ESCAPE)


def stored_text(text: str) -> str:
    """Return the stored form of *text*."""
    if text[:1] == SEALED:
        return f"{ESCAPE}2{text[1:]}"
    return text.replace(ESCAPE, ESCAPE + "1").replace(NUL, ESCAPE + "0")


class TextDumper(StrDumperUnknown):
    """Texts, also with NUL."""

    def dump(self, obj: str) -> Any:
        """Return the stored form."""
        if NUL in obj or ESCAPE in obj or obj[:1] == SEALED:
            obj = stored_text(obj)
        return super().dump(obj)


class TextReader(TextLoader):
    """Texts, also with NUL, and sealed ones if there is a sealer."""

    sealer: Sealer | None = None

    def load(self, data: Any) -> str:
        """Return the text of the stored form."""
        text = plain_text(str(super().load(data)))
        return text if self.sealer is None else self.sealer.open(text)


class LenientReader(TextReader):
    """Texts that a statement has cast to `bpchar`, so that one sealed text that was changed does not fail all rows."""

    def load(self, data: Any) -> str:
        """Return the text of the stored form; "" if it was sealed, and changed afterwards."""
        try:
            return super().load(data)
        except DamagedDataError:
            return ""


def adapt_texts(connection: AdaptContext, sealer: Sealer | None = None) -> None:
    """Store texts with NUL on *connection*, and with *sealer* open sealed ones."""
    assert connection.adapters is not None
    connection.adapters.register_dumper(str, TextDumper)
    connection.adapters.register_dumper(Wire, StrDumperUnknown)
    connection.adapters.register_dumper(int, Int8Dumper)  # of one type, or each size would be a statement of its own
    set_json_loads(from_json, connection)
    for name, reader in (("text", TextReader), ("varchar", TextReader), ("bpchar", LenientReader)):
        sealing = reader if sealer is None else type("SealerReader", (reader,), {"sealer": sealer})
        connection.adapters.register_loader(name, sealing)
