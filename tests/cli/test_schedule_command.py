"""`concertino schedule`: what is stored is listed, paused, resumed and deleted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from concertino import Scope, SqliteStore
from concertino.cli import main
from concertino.storage import Schedule

ANN = Scope("acme", "ann")


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "runs.db"

    async def write() -> None:
        async with await SqliteStore.open(path) as store:
            message = {"message": "Report \x1b[31mred"}
            daily = Schedule(id="sched_1", tenant="acme", user="ann", agent="desk", input=message, cron="0 9 * * *")
            await store.add_schedule(ANN, daily)

    asyncio.run(write())
    return str(path)


def test_schedules_are_listed_and_changed(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*command: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["concertino", "schedule", *command, "--db", database])
        status = main()
        return status, *capsys.readouterr()

    status, shown, _ = run("list")
    assert (status, "\x1b" in shown) == (0, False)
    assert all(word in shown for word in ("sched_1", "paused", "0 9 * * * UTC", "desk", "Report"))
    assert run("resume", "sched_1")[:2] == (0, "sched_1 is resumed\n")
    (listed,) = map(json.loads, run("list", "--json")[1].splitlines())
    assert (listed["schedule_id"], listed["cron"], listed["due_at"] > 1.7e9) == ("sched_1", "0 9 * * *", True)
    assert run("pause", "sched_1")[0] == 0
    assert json.loads(run("delete", "sched_1", "--json")[1]) == {"schedule_id": "sched_1", "deleted": True}
    status, _, problem = run("delete", "sched_1")
    assert status != 0
    assert "unknown schedule 'sched_1'" in problem
    assert "no schedules" in run("list")[2]


def test_a_schedule_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))

    def run(*command: str) -> tuple[int, str, str]:
        database = str(tmp_path / "runs.db")
        monkeypatch.setattr("sys.argv", ["concertino", "schedule", *command, "--db", database])
        status = main()
        return status, *capsys.readouterr()

    def add(*options: str, agent: str = "clerk") -> tuple[int, str, str]:
        app = ["--app", "shop:make_runtime", "--model", "shop:follows"]
        return run("add", agent, "Report.", *app, "--tenant", "acme", "--user", "ann", *options)

    status, added, _ = add("--cron", "0 9 * * mon-fri", "--zone", "Europe/Berlin", "--missed", "skip", "--json")
    made = json.loads(added)
    assert (status, made["agent"], made["message"], made["missed"]) == (0, "clerk", "Report.", "skip")
    assert "is next due 2099-01-31 08:00:00" in add("--at", "2099-01-31T09:00+01:00", "--conversation", "c1")[1]
    first, second = map(json.loads, run("list", "--json")[1].splitlines())
    assert first == made
    assert (second["tenant"], second["user"], second["conversation_id"]) == ("acme", "ann", "c1")
    for options, problem in [
        ((), "give either --at or --cron"),
        (("--at", "tomorrow"), "invalid --at 'tomorrow'"),
        (("--at", "2099-01-31T09:00"), "a datetime with a time zone"),
        (("--cron", "* * *"), "invalid cron expression '* * *'"),
    ]:
        status, _, shown = add(*options)
        assert (status, problem in shown) == (2, True), shown
    assert "unknown agent 'nobody': choose from" in add("--cron", "0 9 * * *", agent="nobody")[2]
