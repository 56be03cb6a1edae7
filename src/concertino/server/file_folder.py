"""Uploads: files in a folder, separate for each scope, until a message contains them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from ..errors import ConfigurationError, StorageError
from ..ids import digest, token
from ..number_checks import check_amount, check_whole
from ..records import record
from ..scope import Scope

P = ParamSpec("P")
T = TypeVar("T")

TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "application/json"),
    *("text/plain", "text/markdown", "text/csv", "audio/mpeg", "audio/wav"),
)
"""The media types that a folder accepts by default."""
_SWEEP = 60.0
_ID = re.compile(r"file_[0-9a-f]{24}")


@record(kw_only=True)
class UploadedFile:
    """An upload without its content."""

    id: str
    name: str
    media_type: str
    size: int
    """In bytes."""
    uploaded: float
    """Seconds since the epoch."""


class FileFolder:
    """Stores uploads below *path*, which all processes on one store share.

    It accepts the media types *types*, files of at most *most_bytes*, and *most_files* files of each scope. An upload
    is removed after *keep_seconds*; a message with the file has its own copy, under the data policy. Methods raise
    `StorageError` if the folder cannot be read or written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        types: Sequence[str] = TYPES,
        most_bytes: int = 20 * 2**20,
        most_files: int = 100,
        keep_seconds: float = 86_400.0,
    ) -> None:
        check_whole("FileFolder", "most_bytes", most_bytes)
        check_whole("FileFolder", "most_files", most_files)
        check_amount("FileFolder", "keep_seconds", keep_seconds, "seconds above 0")
        if not types:
            raise ConfigurationError("FileFolder(types=()): name at least one media type")
        self.path = Path(path)
        self.types = tuple(types)
        self.most_bytes = most_bytes
        self.most_files = most_files
        self._keep_seconds = keep_seconds
        self._swept = -_SWEEP

    async def save(self, scope: Scope, name: str, media_type: str, content: bytes) -> UploadedFile:
        """Store a file of *scope*. The caller has checked its type, its size and the number of files."""
        made = UploadedFile(
            id=f"file_{token()}", name=name, media_type=media_type, size=len(content), uploaded=time.time()
        )
        await _in_thread(self._write, scope, made, content)
        return made

    async def files(self, scope: Scope) -> Sequence[UploadedFile]:
        """Return the files of *scope*, the newest first."""
        return await _in_thread(self._list, scope)

    async def find(self, scope: Scope, file_id: str) -> UploadedFile | None:
        """Return one file, or None if *scope* has no such file."""
        return await _in_thread(self._find, scope, file_id)

    async def content(self, scope: Scope, found: UploadedFile) -> bytes:
        """Return the content of a file."""
        return await _in_thread((self._folder(scope) / found.id).read_bytes)

    async def delete(self, scope: Scope, file_id: str) -> bool:
        """Remove a file. Return whether there was one."""
        return await _in_thread(self._delete, scope, file_id)

    async def erase(self, scope: Scope) -> int:
        """Remove all files of *scope*, and return their number."""
        return await _in_thread(self._erase, scope)

    # -- work of threads -----------------------------------------------------------------------------------------

    def _folder(self, scope: Scope) -> Path:
        return self.path / digest(scope.key)

    def _write(self, scope: Scope, made: UploadedFile, content: bytes) -> None:
        self._sweep()
        folder = self._folder(scope)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / made.id).write_bytes(content)
        stated = {"name": made.name, "media_type": made.media_type, "size": made.size, "uploaded": made.uploaded}
        written = folder / f"{made.id}.tmp"
        written.write_text(json.dumps(stated), encoding="utf-8")
        written.replace(folder / f"{made.id}.json")  # from now on the file exists

    def _find(self, scope: Scope, file_id: str) -> UploadedFile | None:
        if not _ID.fullmatch(file_id):
            return None
        try:
            stated = json.loads((self._folder(scope) / f"{file_id}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        found = UploadedFile(id=file_id, **stated)
        return found if found.uploaded > self._oldest() else None

    def _list(self, scope: Scope) -> list[UploadedFile]:
        ids = [path.stem for path in self._folder(scope).glob("file_*.json")]
        found = [self._find(scope, file_id) for file_id in ids]
        return sorted((each for each in found if each is not None), key=lambda each: each.uploaded, reverse=True)

    def _delete(self, scope: Scope, file_id: str) -> bool:
        if self._find(scope, file_id) is None:
            return False
        _remove(self._folder(scope) / f"{file_id}.json")
        return True

    def _erase(self, scope: Scope) -> int:
        count = len(self._list(scope))
        shutil.rmtree(self._folder(scope), ignore_errors=True)
        return count

    def _sweep(self) -> None:
        """Remove what is too old, of all scopes, at most once a minute."""
        if time.monotonic() < self._swept + _SWEEP:
            return
        self._swept = time.monotonic()
        for path in self.path.glob("*/file_*"):
            try:
                if path.stat().st_mtime <= self._oldest():
                    _remove(path)
            except FileNotFoundError:
                continue  # another process has removed it

    def _oldest(self) -> float:
        return time.time() - self._keep_seconds


def _remove(path: Path) -> None:
    """Remove a file's description before its content: without it, the file does not exist."""
    path.with_suffix(".json").unlink(missing_ok=True)
    path.with_suffix("").unlink(missing_ok=True)


async def _in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(function, *arguments, **named)
    except OSError as error:
        raise StorageError(f"the folder of uploads cannot be used: {error}") from error
