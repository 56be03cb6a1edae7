"""The documents in folders and files that someone names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from ...errors import CorpusError
from .blocks import Document
from .origin import Changes
from .reading import MAX_BYTES, SUFFIXES, UnreadableError, read_document_text

_NOISE = {"__pycache__", "node_modules"}
_READ = "files that can be read end in " + " ".join(SUFFIXES)
_NAMED_FILES = 3


def _resolved(paths: Sequence[str | Path]) -> list[Path]:
    """The roots, each once. Raises `CorpusError` for a path that does not exist."""
    roots: dict[Path, None] = {}
    for path in paths:
        try:
            roots[Path(path).expanduser().resolve(strict=True)] = None
        except (OSError, RuntimeError, ValueError) as error:
            raise CorpusError(f"corpus: {str(path)!r} cannot be found; name a folder or a file ({_READ})") from error
    if not roots:
        raise CorpusError(f"corpus: no folder or file is named; name at least one ({_READ})")
    return list(roots)


def _labels(roots: Sequence[Path]) -> dict[Path, str]:
    """A short name for each root: the folder's own, with as many parents as it takes to tell them apart."""
    labels: dict[Path, str] = {}
    for root in roots:
        parts = [part for part in root.parts if part != root.anchor] or ["root"]
        rivals = [other.parts for other in roots if other != root]
        depth = next(
            (n for n in range(1, len(parts)) if not any(rival[-n:] == root.parts[-n:] for rival in rivals)),
            len(parts),
        )
        labels[root] = "/".join(parts[-depth:])
    return labels


def _is_noise(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in _NOISE or (folder / "pyvenv.cfg").exists()


class Files:
    """An `Origin`: every readable file under the roots, hidden folders left out, links followed once."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._roots = _resolved(paths)
        self._labels = _labels(self._roots)
        self._files: dict[str, Path] = {}
        self._seen: set[tuple[int, int]] = set()
        self._skipped: Counter[str] = Counter()
        self._problems: list[tuple[str, str]] = []
        self._cut: list[str] = []
        digest = blake2b("\0".join(sorted(map(str, self._roots))).encode("utf-8", "surrogateescape"), digest_size=8)
        self.key = f"corpus-{digest.hexdigest()}"
        self.name = self._name()
        where = ", ".join(repr(str(path)) for path in paths)
        self.empty = f"corpus: nothing to read in {where}; {_READ}"

    def _name(self) -> str:
        if len(self._roots) == 1:
            root = self._roots[0]
            return f"{'folder' if root.is_dir() else 'file'} {root.name or root}"
        folders = sum(root.is_dir() for root in self._roots)
        files = len(self._roots) - folders
        counts = [(folders, "folder"), (files, "file")]
        return " and ".join(f"{count} {noun}{'s' * (count > 1)}" for count, noun in counts if count)

    def changes(self, known: Mapping[str, str]) -> Changes:
        """Walk the roots anew."""
        self._files.clear()
        self._seen.clear()
        self._skipped.clear()
        self._problems.clear()
        for root in self._roots:
            if root.is_dir():
                self._walk(root, root)
            else:
                self._take(root, root)
        load = [location for location, path in self._files.items() if known.get(location) != _stamp(path)]
        return Changes(load, [location for location in known if location not in self._files])

    def _walk(self, top: Path, root: Path) -> None:
        walk = os.walk(top, followlinks=True, onerror=self._unlistable)
        for folder, folders, names in walk:
            here = Path(folder)
            folders[:] = sorted(name for name in folders if not _is_noise(here / name) and self._first(here / name))
            for name in sorted(names):
                if not name.startswith("."):
                    self._take(here / name, root)

    def _first(self, path: Path) -> bool:
        """Whether this folder or file has not been met before, by whatever name."""
        try:
            status = path.stat()
        except OSError:
            return True
        identity = (status.st_dev, status.st_ino)
        if status.st_ino and identity in self._seen:
            return False
        self._seen.add(identity)
        return True

    def _unlistable(self, error: OSError) -> None:
        self._problems.append((str(error.filename), error.strerror or "cannot be listed"))

    def _take(self, path: Path, root: Path) -> None:
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            self._skipped[suffix or "no suffix"] += 1
        elif path.is_file() and self._first(path):
            inside = path.relative_to(root).as_posix() if path != root else ""
            location = f"{self._labels[root]}/{inside}" if inside else self._labels[root]
            self._files[location.encode("utf-8", "replace").decode()] = path

    def load(self, changes: Changes, stopped: Callable[[], bool]) -> Iterator[Document]:
        """Read the files that are new or changed."""
        for location in changes.load:
            if document := self._read(location, self._files[location]):
                yield document

    def _read(self, location: str, path: Path) -> Document | None:
        try:
            stamp = _stamp(path)
            title, blocks, size = read_document_text(path)
        except UnreadableError as error:
            self._problems.append((location, str(error)))
            return Document(location=location, title=path.stem, stamp=stamp, problem=str(error))
        except OSError as error:
            # No stamp is kept: what cannot be read now may be readable at the next start.
            self._problems.append((location, error.strerror or type(error).__name__))
            return None
        if size > MAX_BYTES:
            self._cut.append(f"{location}: only the first {MAX_BYTES // 1_000_000} MB of {size // 1_000_000} MB")
        return Document(location=location, title=title or path.stem, blocks=blocks, stamp=stamp)

    def remarks(self) -> Sequence[str]:
        """Files of other kinds (counted by suffix), unreadable ones, and those that were cut."""
        remarks = [f"indexed in part: {cut}" for cut in self._cut]
        if self._skipped:
            total = sum(self._skipped.values())
            counts = ", ".join(f"{count} {suffix}" for suffix, count in self._skipped.most_common())
            remarks.append(f"skipped {total} file{'s' * (total > 1)}: {counts} ({_READ})")
        if self._problems:
            named = "; ".join(f"{location} ({reason})" for location, reason in self._problems[:_NAMED_FILES])
            more = len(self._problems) - _NAMED_FILES
            remarks.append(f"could not read {named}" + (f" and {more} more" if more > 0 else ""))
        return remarks

    def resolve(self, location: str) -> str:
        """A path on this machine in the form in which the index has it."""
        try:
            path = Path(location).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            return location
        return next((known for known, file in self._files.items() if file == path), location)


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns}:{status.st_size}"
