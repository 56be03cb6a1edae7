"""The readable files of folders, as a collection of documents."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from ...errors import CorpusError, MissingExtraError
from ..html import read_html
from .markdown import Document, read_markdown
from .rst import read_rst

_IS_RST = re.compile(r"^[ \t]*\.\. (?:[\w:-]+::|_[^:\n]+:)|(?<!\w):[a-z][\w:-]*:`[^`\n]", re.MULTILINE)
_READERS: dict[str, Callable[[str], Document]] = {
    ".md": read_markdown, ".markdown": read_markdown, ".rst": read_rst,
    ".txt": lambda text: (read_rst if _IS_RST.search(text) else read_markdown)(text),
    ".html": lambda text: Document(*read_html(text)), ".htm": lambda text: Document(*read_html(text)),
}  # fmt: skip
_READABLE = f"readable files end in {' '.join(_READERS)}"
_LONGEST = 1_000_000  # characters; the rest of a longer file is not read
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class FileCollection:
    """Every readable file below some folders, except hidden folders, virtual environments, and links that lead out."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._roots = list(dict.fromkeys(map(_resolved, paths)))
        if not self._roots:
            raise CorpusError(f"no folder or file is named: name at least one ({_READABLE})")
        digest = blake2b("\0".join(sorted(map(str, self._roots))).encode("utf-8", "surrogateescape"), digest_size=8)
        self.key = f"documents-{digest.hexdigest()}"
        self.name = ", ".join(root.name or str(root) for root in self._roots)
        self._files: dict[str, Path] = {}
        self._skipped: Counter[str] = Counter()
        self._problems: dict[str, str] = {}

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Walk the folders. A stamp is a file's time of change and size."""
        stamps = {}
        for root in self._roots:
            for path in [root] if root.is_file() else sorted(self._walk(root)):
                location = self._location(root, path)
                try:
                    readable = path.resolve().is_relative_to(root) and path.suffix.lower() in _READERS
                    self._files[location], stamp = path, f"{path.stat().st_ctime_ns}:{path.stat().st_size}"
                except (OSError, RuntimeError) as error:  # a broken link, or a ring of them
                    self._problems[location] = str(error)
                    continue
                if readable:
                    stamps[location] = stamp
                else:
                    self._skipped[path.suffix.lower() or "no suffix"] += 1
        return stamps

    def _walk(self, root: Path) -> Iterator[Path]:
        """Yield the files below *root*. Linked folders are not entered: they may lead out or in circles."""
        unlisted = lambda error: self._problems.update({str(error.filename): error.strerror})  # noqa: E731
        for folder, folders, files in os.walk(root, onerror=unlisted):
            here = Path(folder)
            hidden = {name for name in folders if name.startswith(".") or (here / name / "pyvenv.cfg").exists()}
            folders[:] = [name for name in folders if name not in hidden | {"__pycache__", "node_modules"}]
            yield from (here / name for name in files if not name.startswith("."))

    def _location(self, root: Path, path: Path) -> str:
        """Return the path below the root's name; roots of the same name are distinguished by their parents."""
        same = [other.parts for other in self._roots if other.name == root.name and other != root]
        depth = next(n for n in range(1, len(root.parts) + 1) if all(parts[-n:] != root.parts[-n:] for parts in same))
        return _one_line(str(Path(*root.parts[-depth:], path.relative_to(root)).as_posix()))

    def read(self, location: str) -> Document:
        """Read a file by its suffix. Markup that its reader cannot parse is read as Markdown.

        Raises `MissingExtraError` for HTML if its reader is not installed.
        """
        path = self._files[location]
        try:
            with path.open("rb") as file:
                text = _decoded(file.read(4 * _LONGEST))
        except (OSError, ValueError) as error:
            self._problems[location] = getattr(error, "strerror", None) or str(error)
            return Document("", path.stem)
        if len(text) > _LONGEST:
            self._problems[location] = f"only the first {_LONGEST:,} characters are read"
        try:
            document = _READERS[path.suffix.lower()](text[:_LONGEST])
        except MissingExtraError:
            raise
        except Exception as error:  # noqa: BLE001 - one file must not make all others unusable
            self._problems[location] = f"read as plain text: {type(error).__name__}"
            document = Document(re.sub(r"^[ \t]+", "", text[:_LONGEST], flags=re.MULTILINE))
        heading = re.search(r"^#{1,6} (.+)$", document.text[:20_000], re.MULTILINE)
        return document._replace(title=_one_line(document.title or (heading[1] if heading else path.stem))[:300])

    def remarks(self) -> Sequence[str]:
        """Return one line about files of other kinds, and one about files that could not be read."""
        kinds = ", ".join(f"{number} {suffix}" for suffix, number in self._skipped.most_common(8))
        named = "; ".join(f"{_one_line(where)} ({problem})" for where, problem in list(self._problems.items())[:3])
        skipped = f"skipped {self._skipped.total()} files: {kinds}; {_READABLE}" if kinds else ""
        return [*filter(None, [skipped, f"{len(self._problems)} files not read in full: {named}" if named else ""])]


def _resolved(path: str | Path) -> Path:
    try:
        return Path(path).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise CorpusError(f"{str(path)!r} cannot be found: name a folder or a file ({_READABLE})") from error


def _one_line(text: str) -> str:
    """Return *text* without control characters: a line break in a file's name could forge a source of a report."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _decoded(data: bytes) -> str:
    """Return a file's text: UTF-8, or as its byte order mark states. Raises `ValueError` for binary data."""
    encoding = next((name for mark, name in _BOMS.items() if data.startswith(mark)), "utf-8")
    control = sum(byte < 32 and byte not in b"\t\n\r\f" for byte in data[:4096])
    if encoding != "utf-16" and (b"\0" in data[:4096] or 10 * control > len(data[:4096])):
        raise ValueError("binary")
    return data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
