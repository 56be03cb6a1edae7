"""Knowledge: facts about files that outlive a run, with their provenance. A fact is stale once its file has changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import DamagedDataError
from ..ids import digest
from ..records import record
from ..scope import Scope


@record
class Fact:
    """A statement about a source, and where it comes from."""

    source: str
    """The path of a file below the root, or any other name."""
    text: str
    file_digest: str = ""
    """The SHA-256 digest of the file that the statement was read from; empty for other sources."""
    run_id: str = ""
    step: str = ""


class Knowledge(Protocol):
    """The port of a store of facts. Each tenant has its own."""

    async def read(self, scope: Scope, subject: str) -> Sequence[Fact]:
        """Return the facts about *subject*."""
        ...

    async def write(self, scope: Scope, subject: str, facts: Sequence[Fact], replaced: Sequence[str]) -> None:
        """Replace the facts about *subject* from the sources in *replaced* by *facts*. Writing is idempotent."""
        ...

    async def erase(self, scope: Scope) -> None:
        """Erase all facts of the tenant."""
        ...


class FileKnowledge:
    """Facts in JSON files in *folder*, one for each tenant and subject. One process writes a subject at a time."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    async def read(self, scope: Scope, subject: str) -> Sequence[Fact]:
        """Return the facts about *subject*. Raises `DamagedDataError`."""
        return await asyncio.to_thread(self._read, self._path(scope, subject))

    async def write(self, scope: Scope, subject: str, facts: Sequence[Fact], replaced: Sequence[str]) -> None:
        """Replace the facts from the sources in *replaced* by *facts*."""
        await asyncio.to_thread(self._write, self._path(scope, subject), facts, replaced)

    async def erase(self, scope: Scope) -> None:
        """Erase all facts of the tenant of *scope*."""

        def erase() -> None:
            for path in self._folder.glob(f"{digest(scope.tenant)}-*.json"):
                path.unlink(missing_ok=True)

        await asyncio.to_thread(erase)

    def _path(self, scope: Scope, subject: str) -> Path:
        return self._folder / f"{digest(scope.tenant)}-{digest(subject)}.json"

    def _read(self, path: Path) -> list[Fact]:
        try:
            return [Fact(**each) for each in json.loads(path.read_text("utf-8"))]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise DamagedDataError(f"the facts in {path} cannot be read: {error}; remove the file") from error

    def _write(self, path: Path, facts: Sequence[Fact], replaced: Sequence[str]) -> None:
        kept = [fact for fact in self._read(path) if fact.source not in replaced]
        kept += [fact for fact in facts if fact not in kept]
        fields = ("source", "text", "file_digest", "run_id", "step")
        rows: list[dict[str, Any]] = [{name: getattr(fact, name) for name in fields} for fact in kept]
        self._folder.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(rows, ensure_ascii=False, indent=1), "utf-8")
        new.replace(path)  # a crash leaves the old facts or the new ones


def file_digest(root: Path | None, source: str) -> str | None:
    """Return the digest of the file *source* below *root*: empty without one, None for a path outside."""
    if root is None:
        return ""
    try:
        path = (root / source).resolve()
        if not path.is_relative_to(root.resolve()):
            return None
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except (OSError, ValueError):
        return ""


def split_facts(root: Path | None, facts: Iterable[Fact]) -> tuple[list[Fact], list[Fact]]:
    """Return the facts whose sources are unchanged, and those whose files have changed or are missing."""
    current: dict[str, str | None] = {}
    fresh: list[Fact] = []
    stale: list[Fact] = []
    for fact in facts:
        if fact.source not in current:
            current[fact.source] = file_digest(root, fact.source)
        (fresh if fact.file_digest == current[fact.source] else stale).append(fact)
    return fresh, stale
