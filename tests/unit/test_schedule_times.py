"""The times of schedules: time zones, changes of the clock, and missed times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from concertino.errors import ConfigurationError
from concertino.runtime import Cron
from concertino.runtime.times import time_after, times_to_start
from concertino.storage import Schedule

BERLIN = ZoneInfo("Europe/Berlin")


def at(*moment: int, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return datetime(*moment, tzinfo=zone, fold=fold).timestamp()  # type: ignore[misc,arg-type]


def schedule(cron: str = "0 9 * * *", due_at: float | None = None, **settings: Any) -> Schedule:
    fields = {"zone": "Europe/Berlin", **settings}
    return Schedule(id="s", tenant="t", user="u", agent="a", input={}, cron=cron, due_at=due_at, **fields)


def days(cron: str, start: float, number: int) -> list[str]:
    found = []
    for _ in range(number):
        following = time_after(schedule(cron), start)
        assert following is not None
        start = following
        found.append(datetime.fromtimestamp(start, BERLIN).isoformat())
    return found


def test_nine_o_clock_stays_nine_o_clock_over_a_change_of_the_clock() -> None:
    assert days("0 9 * * *", at(2026, 3, 28, 12), 2) == ["2026-03-29T09:00:00+02:00", "2026-03-30T09:00:00+02:00"]
    assert days("0 9 * * *", at(2026, 10, 24, 12), 2) == ["2026-10-25T09:00:00+01:00", "2026-10-26T09:00:00+01:00"]


def test_a_time_in_the_gap_starts_at_its_end_and_a_repeated_one_once() -> None:
    assert days("30 2 * * *", at(2026, 3, 28, 12), 2) == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert days("30 2 * * *", at(2026, 10, 24, 12), 2) == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    assert len(days("0 * * * *", at(2026, 10, 25, 1, 30), 3)) == 3
    assert days("0 * * * *", at(2026, 10, 25, 1, 30), 2) == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", []), ("once", [4]), ("all", [2, 3, 4])],
)
def test_missed_times(missed: Any, expected: list[int]) -> None:
    due = schedule("0 9 * * *", due_at=at(2026, 6, 1, 9), missed=missed, most=3)
    assert times_to_start(due, at(2026, 6, 4, 12)) == [at(2026, 6, day, 9) for day in expected]


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_a_time_that_has_come_starts_with_every_policy(missed: Any) -> None:
    due = schedule("0 9 * * *", due_at=at(2026, 6, 1, 9), missed=missed)
    assert times_to_start(due, at(2026, 6, 1, 9)) == [at(2026, 6, 1, 9)]
    assert times_to_start(due, at(2026, 6, 1, 9) + 30.5) == [at(2026, 6, 1, 9)]


def test_all_missed_times_include_both_repeated_hours() -> None:
    due = schedule("0 * * * *", due_at=at(2026, 10, 25, 1), missed="all")
    found = times_to_start(due, at(2026, 10, 25, 3))
    assert found == [at(2026, 10, 25, 1), at(2026, 10, 25, 2), at(2026, 10, 25, 2, fold=1), at(2026, 10, 25, 3)]


def test_one_time_without_cron() -> None:
    once = schedule("", due_at=50.0, at=50.0, missed="skip")
    assert (times_to_start(once, 55.0), times_to_start(once, 500.0)) == ([50.0], [])
    assert time_after(once, 500.0) == 50.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expression": "0 9 * *"}, "use five fields"),
        ({"expression": "* * * * * *"}, "use five fields"),
        ({"expression": "99 9 * * *"}, "invalid cron expression '99 9"),
        ({"expression": "0 9 30 2 *"}, "invalid cron expression|matches no time"),
        ({"expression": 5}, "use five fields"),
        ({"zone": "Mars/Base"}, "unknown time zone 'Mars/Base'"),
        ({"zone": "../etc"}, "unknown time zone"),
        ({"zone": None}, "unknown time zone"),
        ({"missed": "never"}, "choose from skip, once, all"),
        ({"most": 0}, "most"),
    ],
)
def test_invalid_times(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Cron(**{"expression": "0 9 * * *", **settings})


def test_a_year_of_missed_minutes_is_not_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    from concertino.runtime import times

    made: list[datetime] = []
    original = times._times

    def counted(*given: Any, **more: Any) -> Iterator[datetime]:
        for each in original(*given, **more):
            made.append(each)
            yield each

    monkeypatch.setattr(times, "_times", counted)
    due = schedule("* * * * *", due_at=at(2025, 1, 1), missed="all", most=5, zone="UTC")
    assert len(times_to_start(due, datetime(2026, 1, 1, tzinfo=UTC).timestamp())) == 5
    assert len(made) <= 7
