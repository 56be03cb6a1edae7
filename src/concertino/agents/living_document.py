"""The living document: sections of text that an agent writes while it works, with their history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Self

from ..errors import ConfigurationError
from ..records import record


@record
class DocumentEntry:
    """An update of a section."""

    section: str
    text: str
    version: int
    """The version of the section that this update made, from 1."""
    label: str = ""
    """The time of the update, such as `pass 2`."""
    source: tuple[str, ...] = ()
    """The origin of the text, such as the tool calls whose results its author had read."""
    conflict: bool = False
    """Whether the section had changed since the author of the update read it."""


@record(frozen=False)
class LivingDocument:
    """A document of versioned sections. Make it a field of an agent's state: the journal then keeps it with every step.

    An update is appended to its section; in a section that is *replaced*, it becomes the whole text. Its author may
    name the version of the section that it has read. If the section has changed since, the entry is marked as a
    conflict: an appended section keeps both texts, and a replaced section stays as it is. Nothing is lost: `history`
    has all entries.
    """

    names: list[str] = field(default_factory=list)
    """The sections, in order. An update of another section adds it."""
    replaced: tuple[str, ...] = ()
    """The sections that an update replaces."""
    entries: list[DocumentEntry] = field(default_factory=list)
    """All updates, the oldest first."""

    @classmethod
    def create(cls, sections: Mapping[str, str], replaced: Iterable[str] = ()) -> Self:
        """Return a document with these *sections* and their initial texts."""
        made = cls(list(sections), tuple(replaced))
        for name, text in sections.items():
            if text:
                made.write(name, text, label="start")
        return made

    def version(self, section: str) -> int:
        """Return the number of updates of *section*; 0 if there were none."""
        return sum([entry.section == section for entry in self.entries])

    def write(
        self, section: str, text: str, *, label: str = "", source: Sequence[str] = (), base: int | None = None
    ) -> DocumentEntry:
        """Add an update and return its entry. *base* is the version of the section that the author has read.

        Raises `ConfigurationError` if the name of the section is empty.
        """
        if not section.strip():
            raise ConfigurationError(f"write({section!r}, ...): the section needs a name")
        if section not in self.names:
            self.names.append(section)
        version = self.version(section)
        conflict = base is not None and base != version
        made = DocumentEntry(section, text, version + 1, label, tuple(source), conflict)
        self.entries.append(made)
        return made

    def current(self, section: str) -> tuple[DocumentEntry, ...]:
        """Return the entries that make up *section* now."""
        found = [entry for entry in self.entries if entry.section == section]
        if section in self.replaced:
            return tuple([entry for entry in found if not entry.conflict or entry.version == 1][-1:])
        return tuple(found)

    def text(self, sections: Iterable[str] | None = None, *, characters: int | None = None) -> str:
        """Return the sections as Markdown: all that have text, or those in *sections*.

        With *characters*, the oldest entries are left out until the texts fit, and a line reports how many. The newest
        entry is always there, cut if it alone is longer.
        """
        wanted = list(self.names if sections is None else sections)
        shown = [entry for entry in self.entries if entry.section in wanted and entry in self.current(entry.section)]
        left = float("inf") if characters is None else characters
        kept: list[DocumentEntry] = []
        for entry in reversed(shown):
            if kept and len(entry.text) > left:
                break
            left -= len(entry.text)
            kept.append(entry)
        lines = []
        for name in wanted:
            entries = [entry for entry in reversed(kept) if entry.section == name]
            missing = len([entry for entry in shown if entry.section == name]) - len(entries)
            if entries or missing:
                lines.append(f"## {name}")
            if missing:
                lines.append(f"[{missing} earlier left out]")
            lines += [_line(entry, characters) for entry in entries]
        return "\n".join(lines)

    def history(self, section: str | None = None) -> str:
        """Return all entries, or those of *section*, one after another, with version, label, source and conflicts."""
        return "\n".join(
            f"{entry.section} v{entry.version}"
            + (f" [{entry.label}]" if entry.label else "")
            + (f" (from {', '.join(entry.source)})" if entry.source else "")
            + (" (conflict)" if entry.conflict else "")
            + f": {entry.text}"
            for entry in self.entries
            if section in (None, entry.section)
        )


def _line(entry: DocumentEntry, characters: int | None) -> str:
    text = entry.text if characters is None else entry.text[: max(characters, 1)]
    return f"[{entry.label}] {text}" if entry.label else text
