"""Media that a model produces, in the log of events: stored once, read back whole, and erased with their run."""

from __future__ import annotations

import base64
import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    DataPolicy,
    KeepFor,
    Resources,
    Scope,
    SqliteStore,
    ToolResult,
    tool,
)
from concertino.errors import StorageError
from concertino.events import RunEvent, ToolDone, TurnCompleted
from concertino.messages import Media
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call

ANN, BOB = Scope("acme", "ann"), Scope("acme", "bob")
PICTURE = Media("image/png", base64.b64encode(random.Random(1).randbytes(5_000)).decode(), name="cat.png")
LARGE = Media("image/png", base64.b64encode(random.Random(2).randbytes(5_000_000)).decode())
"""Of five megabytes."""


SKETCH = Media("image/png", base64.b64encode(random.Random(3).randbytes(5_000)).decode())


@tool(effect="once")
def publish() -> str:
    """Publish the picture."""
    return "published"


class Painter(AgentConfig):
    """Paints."""

    name = "painter"
    policy = DataPolicy()

    def get_data_policy(self) -> DataPolicy:
        """Return the policy of the class."""
        return self.policy


def under(policy: DataPolicy) -> Painter:
    """Return a painter with a data policy."""
    painter = Painter()
    painter.policy = policy
    return painter


async def painted(
    store: SqliteStore, agent: AgentConfig | None = None, media: Media = PICTURE, scope: Scope = ANN
) -> tuple[str, list[RunEvent]]:
    """Let *agent* answer with *media*. Return the run's id, and the events that a reader in its process got."""
    agent, model = agent or Painter(), ScriptedModel(Answer(text="A cat.", media=(media,)))
    async with Runtime([agent], Resources(store=store, models=lambda _: model)) as runtime:
        run = await runtime.start(Chat("Paint.", model=model, scope=scope), agent.name)
        seen = [event async for _, event in run.events()]
        await run.result()
        await run.recorded()
    return run.id, seen


async def read(store: SqliteStore, run_id: str, scope: Scope = ANN) -> list[RunEvent]:
    """Read the log from the store."""
    async with Runtime([Painter()], Resources(store=store)) as runtime:
        return [event async for _, event in runtime.events(scope, run_id)]


def pictures(events: list[RunEvent]) -> list[Media]:
    """Return the media of the answers among *events*."""
    return [media for event in events if isinstance(event, TurnCompleted) for media in event.message.media]


def copies(folder: Path, media: Media = PICTURE) -> int:
    """Return how often the files of *folder* contain the start of a content."""
    assert media.data is not None
    return sum(file.read_bytes().count(media.data.encode()[:60]) for file in folder.iterdir())


def rows(path: Path) -> list[str]:
    """Return the bodies of the stored events."""
    with closing(sqlite3.connect(path)) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM events")]


@pytest.mark.parametrize("media", [PICTURE, LARGE], ids=["small", "large"])
async def test_the_log_names_a_picture_by_its_digest(tmp_path: Path, media: Media) -> None:
    """A reader in the run's process and one in another see the same picture, which is in the file once."""
    path = tmp_path / "r.db"
    async with await SqliteStore.open(path) as store:
        run_id, seen = await painted(store, media=media)
    async with await SqliteStore.open(path) as store:
        whole = await read(store, run_id)
    assert pictures(seen) == pictures(whole) == [media]
    assert max(map(len, rows(path))) < 5_000
    assert any(media.digest in body for body in rows(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT length(body) FROM media").fetchall() == [(len(media.data or ""),)]


async def test_a_picture_is_in_the_file_once_and_erased_with_its_last_run(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        await painted(store)
        await painted(store)
    assert copies(tmp_path) == 1, "two runs of one user, their messages and their logs"
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        run_id, _ = await painted(store, scope=BOB)
        await store.erase(ANN)
        assert pictures(await read(store, run_id, BOB)) == [PICTURE]
        await store.erase(BOB)
    assert copies(tmp_path) == 0


@pytest.mark.parametrize("how", ["redact", "hash", "drop"])
async def test_media_that_the_policy_forbids_are_not_in_the_log(tmp_path: Path, how: Any) -> None:
    """The log of a waiting run has neither the model's picture nor the digest of a tool's, a fingerprint."""
    path, drawn = tmp_path / "r.db", ToolResult("a cat", media=(SKETCH,))

    @tool(effect="read")
    async def draw() -> ToolResult:
        """Draw."""
        return drawn

    class Careful(Painter):
        tools = (draw, publish)
        policy = DataPolicy(media=how, hash_key=b"k" * 32)

        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Any:
            """Ask before the picture is published."""
            return Ask() if call.name == "publish" else super().authorize_tool_call(run, call, arguments)

    steps = (Answer(calls=(call("draw"),)), Answer(text="Look!", media=(PICTURE,), calls=(call("publish"),)))
    model = ScriptedModel(*steps)
    async with await SqliteStore.open(path) as store:
        async with Runtime([Careful()], Resources(store=store, models=lambda _: model)) as runtime:
            run = await runtime.start(Chat("Draw.", model=model, scope=ANN), "painter")
            assert (await run.result()).waiting
            await run.recorded()
            seen = [event async for _, event in runtime.events(ANN, run.id, until="suspended")]
        (done,) = [event for event in seen if isinstance(event, ToolDone)]
        assert (done.content, done.media) == ("a cat", ())
        assert pictures(seen) == []
        page = repr(await store.events(ANN, run.id))
    for media in (PICTURE, SKETCH):
        assert media.digest not in page
        assert (media.data or "") not in page


async def test_a_picture_that_is_kept_for_a_time_is_in_the_log_for_that_time(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        run_id, _ = await painted(store, under(DataPolicy(media=KeepFor(3600))))
        assert pictures(await read(store, run_id)) == [PICTURE]
        await store.erase(ANN)
        await painted(store, under(DataPolicy(media=KeepFor(1e-6))))
        await store.sweep(OPERATOR)
    assert copies(tmp_path) == 0


async def test_a_missing_content_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    async with await SqliteStore.open(path) as store:
        run_id, _ = await painted(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM media_of_runs")
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StorageError, match=f"the content of its medium {PICTURE.digest[:12]} is missing"):
            await read(store, run_id)


async def test_a_log_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Earlier versions wrote the content into the event."""
    path = tmp_path / "r.db"
    async with await SqliteStore.open(path) as store:
        run_id, _ = await painted(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, body in connection.execute("SELECT number, body FROM events").fetchall():
            items = json.loads(body) if body else []
            for _, form in items:
                if isinstance(form, dict) and form["type"] == "turn_completed":
                    written = form["message"]["parts"][1]["media"]
                    assert written.pop("data_digest") == PICTURE.digest
                    written["data"] = PICTURE.data
            connection.execute("UPDATE events SET body = ? WHERE number = ?", (json.dumps(items), number))
    async with await SqliteStore.open(path) as store:
        assert pictures(await read(store, run_id)) == [PICTURE]
