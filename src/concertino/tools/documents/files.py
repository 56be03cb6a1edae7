"""The readable files of folders, as a collection of documents."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from ...errors import CorpusError, MissingExtraError
from ..html import read_html
from .document import Document, one_line
from .markdown import read_markdown
from .rst import read_rst



def _read_page(text: str) -> Document:
    return Document(*read_html(text))


_READERS: dict[str, Callable[[str], Document]] = {
    ".md": read_markdown, ".markdown": read_markdown, ".txt": read_markdown, ".rst": read_rst,
    ".html": _read_page, ".htm": _read_page,
}  # fmt: skip
_READABLE = f"readable files end in {' '.join(_READERS)}"
LONGEST_FILE = 2_000_000
"""The number of bytes that are read of a longer file."""
_LONGEST_MARKUP = 500_000
"""A longer file is read as plain text: some markup takes a parser time that grows with the square of its length."""
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_IGNORED = {"__pycache__", "node_modules"}
_CONTROL_SHARE = 0.1


class FileCollection:
    """Every readable file below some folders; hidden folders, virtual environments and links out are left out."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._roots = [_resolved(path) for path in paths]
        if not self._roots:
            raise CorpusError(f"no folder or file is named: name at least one ({_READABLE})")
        digest = blake2b("\0".join(sorted(map(str, self._roots))).encode("utf-8", "surrogateescape"), digest_size=8)
        self.key = f"documents-{digest.hexdigest()}"
        self.name = ", ".join(dict.fromkeys(root.name or str(root) for root in self._roots))
        self._files: dict[str, Path] = {}
        self._skipped: Counter[str] = Counter()
        self._problems: dict[str, str] = {}

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Walk the folders; a file's stamp is its time of change and size."""
        self._files, self._skipped, self._problems = {}, Counter(), {}
        for root in self._roots:
            for path in [root] if root.is_file() else sorted(self._walk(root)):
                if path.suffix.lower() in _READERS and path.resolve().is_relative_to(root):
                    self._files[self._location(root, path)] = path
                else:
                    self._skipped[path.suffix.lower() or "no suffix"] += 1
        return {location: _stamp(path) for location, path in self._files.items()}

    def _walk(self, root: Path) -> Iterator[Path]:
        """Yield the files below *root*. Linked folders are not entered: they may lead out or around."""
        for folder, folders, files in os.walk(root, onerror=self._note):
            here = Path(folder)
            folders[:] = [
                name
                for name in folders
                if not name.startswith(".") and name not in _IGNORED and not (here / name / "pyvenv.cfg").exists()
            ]
            yield from (here / name for name in files if not name.startswith(".") and (here / name).is_file())

    def _note(self, error: OSError) -> None:
        self._problems[one_line(str(error.filename))] = error.strerror or "unreadable"

    def _location(self, root: Path, path: Path) -> str:
        """Return the shortest path that tells *path* apart: below its root's name, or with more parents."""
        rivals = [other.parts for other in self._roots if other != root]
        depth = next(n for n in range(1, len(root.parts) + 1) if all(r[-n:] != root.parts[-n:] for r in rivals))
        label = "/".join(root.parts[-depth:]).lstrip("/")
        inside = path.relative_to(root).as_posix()
        location = one_line((label if inside == "." else f"{label}/{inside}").encode("utf-8", "replace").decode())
        return location if location not in self._files else f"{location} ({len(self._files)})"

    def read(self, location: str) -> Document:
        """Read a file by its suffix; markup that its reader cannot parse is read as plain text.

        Raises `MissingExtraError` for HTML if its reader is not installed.
        """
        path = self._files[location]
        try:
            with path.open("rb") as file:
                text = _decoded(file.read(LONGEST_FILE))
            if path.stat().st_size > LONGEST_FILE:
                self._problems[location] = f"only the first {LONGEST_FILE // 1_000_000} MB are read"
        except (OSError, ValueError) as error:
            self._problems[location] = getattr(error, "strerror", None) or str(error)
            return Document(location=location, problem=self._problems[location])
        reader = _READERS[path.suffix.lower()]
        if len(text) > _LONGEST_MARKUP and reader is not _read_page:
            reader = _read_text
        try:
            document = reader(text)
        except MissingExtraError:
            raise
        except (Exception, RecursionError) as error:  # noqa: BLE001 - one file must not make the others unusable
            self._problems[location] = f"read as plain text: {one_line(str(error)) or type(error).__name__:.100}"
            document = _read_text(text)
        title = document.title or next(iter(re.findall(r"^#+ (.+)$", document.text[:20_000], re.MULTILINE)), path.stem)
        return replace(document, title=one_line(title)[:300], location=location)

    def remarks(self) -> Iterator[str]:
        """Yield one line about files of other kinds, and one about unreadable ones."""
        if self._skipped:
            kinds = ", ".join(f"{number} {suffix}" for suffix, number in self._skipped.most_common(8))
            yield f"skipped {self._skipped.total()} files: {kinds} ({_READABLE})"
        if self._problems:
            named = "; ".join(f"{location} ({problem})" for location, problem in list(self._problems.items())[:3])
            more = len(self._problems) - 3
            yield f"could not read in full: {named}" + (f" and {more} more" if more > 0 else "")

    def resolve(self, location: str) -> str:
        """Return the location of a path on this machine."""
        try:
            path = Path(location).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            return location
        return next((known for known, file in self._files.items() if file.resolve() == path), location)


def _resolved(path: str | Path) -> Path:
    try:
        return Path(path).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise CorpusError(f"{str(path)!r} cannot be found: name a folder or a file ({_READABLE})") from error


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_mtime_ns}:{status.st_size}"


def _read_text(text: str) -> Document:
    """Read text as paragraphs, without any parser of markup."""
    return Document(text=re.sub(r"^[ \t]*([#>`~|<]|[-+*=]+(?=\s))", r"\\\1", text, flags=re.MULTILINE))


def _decoded(data: bytes) -> str:
    """Return the text of a file: UTF-8, or the encoding of its byte order mark. Raises `ValueError` for binary data."""
    encoding = next((name for bom, name in _BOMS.items() if data.startswith(bom)), "utf-8")
    head = data[:4096]
    control = sum(1 for byte in head if byte < 32 and byte not in b"\t\n\r\f\x1b")
    if encoding != "utf-16" and (b"\x00" in head or control > _CONTROL_SHARE * len(head)):
        raise ValueError("binary")
    return "\n".join(data.decode(encoding, "replace").splitlines())
