"""SQLite: what a power cut may leave of the file and its log is a journal as it was some time before."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
from pathlib import Path

from concertino import OPERATOR, SqliteStore
from concertino.storage import StoredEntry

from .reference import Evidence, audit, gather
from .test_kill_random import SEED
from .world import Case, World, stop_self


def journals(database: Path) -> dict[str, list[tuple[str, float]]]:
    """The entries of all runs."""

    async def read() -> dict[str, list[tuple[str, float]]]:
        async with await SqliteStore.open(database) as store:
            found = {}
            for run in await store.runs(OPERATOR, limit=100):
                journal = await store.load(OPERATOR, run.start.run_id)
                assert journal is not None
                found[run.start.run_id] = [in_short(entry) for entry in journal.entries]
            return found

    return asyncio.run(read())


def in_short(entry: StoredEntry) -> tuple[str, float]:
    """Enough to know it again."""
    return entry.kind, entry.at


def image(case: Case, number: int, cut: float | None, chance: random.Random) -> Path:
    """A copy of what is on the disk while the process stands; the log may end early, and its last page be torn."""
    folder = case.folder / f"image-{number}"
    folder.mkdir()
    shutil.copy(case.database, folder / "runs.db")
    log = case.database.with_name("runs.db-wal")
    if log.exists():
        content = log.read_bytes()
        if cut is not None:
            content = content[: int(len(content) * cut)]
            content = content[:-4] + chance.randbytes(4) if len(content) > 4 else content
        (folder / "runs.db-wal").write_bytes(content)
    return folder / "runs.db"


def test_a_copy_of_the_file_and_its_log_is_a_prefix(world: World, reference: Evidence) -> None:
    chance = random.Random(SEED)
    print(f"CRASH_SEED={SEED}")
    case = world.case("power")
    images: list[tuple[Path, bool]] = []
    for number, count in enumerate((5, 23, 41, 60, 77, 95)):
        life = case.life(**stop_self(".*", count))
        if not life.until_stopped():
            break
        images.append((image(case, 10 * number, None, chance), True))
        for place in range(1, 6):
            images.append((image(case, 10 * number + place, chance.random(), chance), False))
        life.send(signal.SIGKILL)
        life.end()
    case.finish()
    whole = journals(case.database)
    for path, complete in images:
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        known = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'runs'").fetchone() == (1,)
        connection.close()
        if not known:
            assert not complete, "even the schema is in the part that was cut"
            continue
        for run_id, entries in journals(path).items():
            assert whole[run_id][: len(entries)] == entries
    assert audit(case, reference, faults=6) == []


def test_a_run_goes_on_from_what_a_power_cut_has_left(world: World, reference: Evidence) -> None:
    """The world outside remembers more than the file: nothing is paid twice all the same."""
    case = world.case("power")
    life = case.life(**stop_self("append:calls_changed:before", 2))
    assert life.until_stopped()
    copy = image(case, 0, None, random.Random(SEED))
    life.send(signal.SIGKILL)
    life.end()
    for name in ("runs.db", "runs.db-wal"):
        (case.folder / name).write_bytes(copy.with_name(name).read_bytes())
    case.database.with_name("runs.db-shm").unlink(missing_ok=True)
    case.finish()
    assert audit(case, reference, faults=1) == []
    assert gather(case).due == []
