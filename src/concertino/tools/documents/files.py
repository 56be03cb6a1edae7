"""The readable files of folders, as a collection of documents. A worker process parses each: they come from anyone."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ...errors import CorpusError, MissingExtraError, WorkerError
from ...text import marked_charset
from ..html import read_html
from ..library import source_id
from ..workers import run_in_worker
from .markdown import Document, ReadDocument, chunks, read_markdown
from .rst import read_rst

_IS_RST = re.compile(r"^[ \t]*\.\. (?:[\w:-]+::|_[^:\n]+:)|(?<!\w):[a-z][\w:-]*:`[^`\n]", re.MULTILINE)
_READERS: dict[str, Callable[[str], Document]] = {
    ".md": read_markdown, ".markdown": read_markdown, ".rst": read_rst,
    ".txt": lambda text: (read_rst if _IS_RST.search(text) else read_markdown)(text),
    ".html": lambda text: Document(*read_html(text)), ".htm": lambda text: Document(*read_html(text)),
}  # fmt: skip
_READABLE = f"readable files end in {' '.join(_READERS)}"
_LONGEST = 1_000_000  # characters; the rest of a longer file is not read
_LONGEST_TITLE = 300
_READ_DOCUMENT = TypeAdapter(ReadDocument)


class FileCollection:
    """Every readable file below some folders, except hidden folders, virtual environments, and links that lead out."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._roots = list(dict.fromkeys(map(_resolved, paths)))
        if not self._roots:
            raise CorpusError(f"no folder or file is named: name at least one ({_READABLE})")
        self.key = f"documents-{source_id(chr(0).join(sorted(map(str, self._roots))))}"
        self.name = ", ".join(root.name or str(root) for root in self._roots)
        self._files: dict[str, tuple[Path, Path]] = {}
        """The root and the path of each location."""
        self._skipped: Counter[str] = Counter()
        self._unlisted: dict[Path, OSError] = {}

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Walk the folders. A stamp is a file's time of change and size."""
        stamps: dict[str, str] = {}
        for found in (self._files, self._skipped, self._unlisted):
            found.clear()
        for root in self._roots:
            for path in [root] if root.is_file() else sorted(self._walk(root)):
                if path.suffix.lower() not in _READERS and path not in self._unlisted:
                    self._skipped[path.suffix.lower() or "no suffix"] += 1
                    continue
                location = self._location(root, path)
                while location in stamps:  # names that differ in their spaces only
                    location += "'"
                self._files[location], stamps[location] = (root, path), ""
                with suppress(OSError, RuntimeError):  # a broken link, or a ring of them; reading it gives the reason
                    stamps[location] = f"{path.stat().st_ctime_ns}:{path.stat().st_size}"
        return stamps

    def _walk(self, root: Path) -> Iterator[Path]:
        """Yield the files below *root*, and the folders that cannot be listed.

        Linked folders are not entered: they may lead out or in circles.
        """
        unlisted = lambda error: self._unlisted.update({Path(error.filename): error})  # noqa: E731
        for folder, folders, files in os.walk(root, onerror=unlisted):
            here = Path(folder)
            hidden = {name for name in folders if name.startswith(".") or (here / name / "pyvenv.cfg").exists()}
            folders[:] = [name for name in folders if name not in hidden | {"__pycache__", "node_modules"}]
            yield from (here / name for name in files if not name.startswith("."))
        yield from (folder for folder in self._unlisted if folder.is_relative_to(root))

    def _location(self, root: Path, path: Path) -> str:
        """Return the path below the root's name; roots of the same name are distinguished by their parents."""
        same = [other.parts for other in self._roots if other.name == root.name and other != root]
        depth = next(n for n in range(1, len(root.parts) + 1) if all(parts[-n:] != root.parts[-n:] for parts in same))
        return _one_line(str(Path(*root.parts[-depth:], path.relative_to(root)).as_posix()))

    def read(self, location: str) -> ReadDocument:
        """Read a file by its suffix.

        Raises `MissingExtraError` for HTML if its reader is not installed, `CorpusError` if there can be no worker.
        """
        root, path = self._files[location]
        try:
            if path in self._unlisted:
                raise self._unlisted[path]
            found = run_in_worker(parse, path.suffix.lower(), _decoded(_bytes(root, path)), location)
            return _READ_DOCUMENT.validate_python(found)
        except WorkerError as error:
            if raised := {"MissingExtraError": MissingExtraError, "OSError": CorpusError}.get(error.raised):
                raise raised(error.detail) from None
            return ReadDocument("", (), f"skipped: {error}")
        except ValidationError:  # hostile input has taken the worker over
            return ReadDocument("", (), "skipped: its reader returned no valid document")
        except (OSError, RuntimeError, ValueError) as error:
            return ReadDocument(path.stem, (), getattr(error, "strerror", None) or str(error))

    def remarks(self) -> Sequence[str]:
        """Return a line about the files of other kinds in the last scan."""
        kinds = ", ".join(f"{number} {suffix}" for suffix, number in self._skipped.most_common(8))
        return [f"skipped {self._skipped.total()} files: {kinds}; {_READABLE}"] if kinds else []


def _resolved(path: str | Path) -> Path:
    try:
        return Path(path).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise CorpusError(f"{str(path)!r} cannot be found: name a folder or a file ({_READABLE})") from error


def _bytes(root: Path, path: Path) -> bytes:
    """Return the start of a file. Raises `ValueError` if it has become a link out of *root* or a device."""
    real = path.resolve(strict=True)
    if not real.is_relative_to(root):
        raise ValueError("a link out of the folder")
    special = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(real, "rb", opener=lambda name, flags: os.open(name, flags | special)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("no regular file")
        return file.read(4 * _LONGEST)


def _decoded(data: bytes) -> str:
    """Return a file's text: UTF-8, or as its byte order mark states. Raises `ValueError` for binary data."""
    charset, start = marked_charset(data) or "utf-8", data[:4096]
    control = sum(byte < 32 and byte not in b"\t\n\r\f" for byte in start)
    if charset != "utf-16" and (b"\0" in start or 10 * control > len(start)):
        raise ValueError("binary")
    return data.decode(charset, "replace").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")


def _one_line(text: str) -> str:
    """Return *text* without control characters: a line break in a file's name could forge a source of a report."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def parse(suffix: str, text: str, location: str) -> ReadDocument:
    """Read *text* by its suffix. Called in a worker. Markup that its reader cannot parse is read as Markdown."""
    problem = f"only the first {_LONGEST:,} characters are read" if len(text) > _LONGEST else ""
    try:
        document = _READERS[suffix](text[:_LONGEST])
    except (MissingExtraError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a reader may fail in any way
        problem = f"read as plain text: {type(error).__name__}"
        document = Document(re.sub(r"^[ \t]+", "", text[:_LONGEST], flags=re.MULTILINE))
    markdown = document.text.encode(errors="replace").decode()  # markup can denote lone surrogates
    heading = re.search(r"^#{1,6} (.+)$", markdown[:20_000], re.MULTILINE)
    title = _one_line(document.title or (heading[1] if heading else Path(location).stem))[:_LONGEST_TITLE]
    return ReadDocument(title, list(chunks(document._replace(text=markdown, title=title), location)), problem)
