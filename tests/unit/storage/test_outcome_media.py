"""Media in the outcomes of open operations: stored once by digest, and erased when nothing names them any more."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, SqliteStore
from concertino.errors import DamagedDataError
from concertino.messages import Media, ToolMessage
from concertino.testing.store_suite.kit import SCOPE, Tree, operation, start_tree, whole

PICTURE = Media("image/png", base64.b64encode(b"\x89PNG a cat " * 50).decode(), name="cat.png")
OTHER = Media("image/png", base64.b64encode(b"\x89PNG a dog " * 50).decode())


def outcome(*media: Media) -> dict[str, Any]:
    forms = [{"media_type": each.media_type, "data": each.data, "name": each.name} for each in media]
    return {"content": "a chart", "media": forms}


class File:
    """A store on a file, and what the file has of media."""

    def __init__(self, store: SqliteStore, path: Path) -> None:
        self.store = store
        self._path = path

    def rows(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self._path)) as connection:
            return [row[0] for row in connection.execute(sql).fetchall()]

    def bodies(self) -> list[str]:
        """Return the contents of media that the file has."""
        return self.rows("SELECT body FROM media WHERE body <> ''")

    async def outcomes(self) -> dict[str, Any]:
        return {each.key: each.outcome for each in await self.store.operations(SCOPE)}


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[File]:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        yield File(store, tmp_path / "a.db")


async def with_outcomes(file: File, **media: Media) -> Tree:
    tree = await start_tree(file.store)
    for key, each in media.items():
        await tree.append(operations=[operation(key, state="unknown", outcome=outcome(each))])
    return tree


async def test_a_picture_is_stored_once_and_read_whole(file: File) -> None:
    await with_outcomes(file, a=PICTURE, b=PICTURE, c=OTHER)
    assert len(file.bodies()) == 2
    assert set(file.bodies()) == {PICTURE.data, OTHER.data}
    assert not [text for text in file.rows("SELECT content FROM outcomes") if "data" in text]
    found = await file.outcomes()
    assert [Media(**found[key]["media"][0]) for key in "abc"] == [PICTURE, PICTURE, OTHER]


async def test_a_picture_that_no_message_has_is_erased_when_its_operations_close(file: File) -> None:
    tree = await with_outcomes(file, a=PICTURE, b=PICTURE, c=OTHER)
    await tree.append(closed=["a"])
    assert set(file.bodies()) == {PICTURE.data, OTHER.data}, "another operation has it"
    await tree.append(closed=["b"])
    assert file.bodies() == [OTHER.data]


async def test_a_picture_that_a_message_has_stays(file: File) -> None:
    tree = await with_outcomes(file, a=PICTURE)
    message = ToolMessage("call-1", "pay", "a chart", media=(PICTURE,))
    await tree.append(messages=[whole(message)], closed=["a"])
    assert file.bodies() == [PICTURE.data]
    assert [each.message for each in await file.store.messages(OPERATOR, "r1")] == [message]


async def test_the_picture_of_an_outcome_that_does_not_count_is_erased(file: File) -> None:
    tree = await with_outcomes(file, a=PICTURE)
    await tree.append(operations=[operation("a", state="unknown", outcome=outcome(OTHER))])
    assert file.bodies() == [PICTURE.data], "the first outcome counts"
    await tree.append(operations=[operation("a", state="done", outcome=outcome(OTHER))])
    assert file.bodies() == [OTHER.data], "a settlement replaces it"


async def test_the_end_of_a_run_erases_the_pictures_of_its_open_operations(file: File) -> None:
    tree = await with_outcomes(file, a=PICTURE)
    await tree.end()
    assert file.bodies() == []


async def test_erasing_a_user_erases_the_pictures_of_open_operations(file: File) -> None:
    await with_outcomes(file, a=PICTURE)
    await file.store.erase(SCOPE, force=True)
    assert file.bodies() == []


async def test_a_missing_content_is_reported(file: File, tmp_path: Path) -> None:
    await with_outcomes(file, a=PICTURE)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("UPDATE media SET digest = 'x'")
    with pytest.raises(DamagedDataError, match="the content of its medium"):
        await file.outcomes()
