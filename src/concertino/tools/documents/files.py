"""The readable files of folders, as a collection of documents."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from ...errors import CorpusError
from .chunks import ReadDocument
from .parsing import READERS, one_line, read_in_worker

_READABLE = f"readable files end in {' '.join(READERS)}"
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
        self._files: dict[str, tuple[Path, Path]] = {}
        """The root and the path of each location."""
        self._skipped: Counter[str] = Counter()
        self._problems: dict[str, str] = {}

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Walk the folders. A stamp is a file's time of change and size."""
        stamps: dict[str, str] = {}
        self._files.clear()
        self._skipped.clear()
        self._problems.clear()
        for root in self._roots:
            for path in [root] if root.is_file() else sorted(self._walk(root)):
                location = self._location(root, path)
                try:
                    readable = path.resolve().is_relative_to(root) and path.suffix.lower() in READERS
                    stamp = f"{path.stat().st_ctime_ns}:{path.stat().st_size}"
                except (OSError, RuntimeError) as error:  # a broken link, or a ring of them
                    self._problems[location] = str(error)
                    continue
                if readable and location in stamps:
                    self._problems[location] = "another file has the same name but for its spaces"
                elif readable:
                    self._files[location], stamps[location] = (root, path), stamp
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
        return one_line(str(Path(*root.parts[-depth:], path.relative_to(root)).as_posix()))

    def read(self, location: str) -> ReadDocument:
        """Read a file by its suffix. Raises `MissingExtraError` for HTML if its reader is not installed."""
        root, path = self._files[location]
        try:
            text = _decoded(_bytes(root, path))
        except (OSError, RuntimeError, ValueError) as error:
            return ReadDocument(path.stem, (), getattr(error, "strerror", None) or str(error))
        read = read_in_worker(path.suffix.lower(), text[:_LONGEST], location)
        if len(text) > _LONGEST and not read.problem:
            read = read._replace(problem=f"only the first {_LONGEST:,} characters are read")
        return read

    def remarks(self) -> Sequence[str]:
        """Return one line about files of other kinds, and one about files that the last scan could not look at."""
        kinds = ", ".join(f"{number} {suffix}" for suffix, number in self._skipped.most_common(8))
        named = "; ".join(f"{one_line(where)} ({problem})" for where, problem in list(self._problems.items())[:3])
        skipped = f"skipped {self._skipped.total()} files: {kinds}; {_READABLE}" if kinds else ""
        return [*filter(None, [skipped, f"{len(self._problems)} files not found: {named}" if named else ""])]


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
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(real, flags), "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("no regular file")
        return file.read(4 * _LONGEST)


def _decoded(data: bytes) -> str:
    """Return a file's text: UTF-8, or as its byte order mark states. Raises `ValueError` for binary data."""
    encoding = next((name for mark, name in _BOMS.items() if data.startswith(mark)), "utf-8")
    control = sum(byte < 32 and byte not in b"\t\n\r\f" for byte in data[:4096])
    if encoding != "utf-16" and (b"\0" in data[:4096] or 10 * control > len(data[:4096])):
        raise ValueError("binary")
    return data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
