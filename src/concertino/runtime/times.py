"""The times of a schedule: cron expressions in a time zone, and the policy for missed times. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise, takewhile
from math import inf
from typing import get_args
from zoneinfo import ZoneInfo

from ..errors import ConfigurationError
from ..extras import extra
from ..number_checks import check_whole
from ..records import record
from ..storage.schedule_types import Missed, Schedule

LATE = 60.0
"""Seconds after which a time counts as missed for `missed="skip"`."""


@record
class Cron:
    """Repeated times: a cron expression of five fields in a time zone. Needs the extra `schedules`.

    When clocks change, a skipped time starts at the end of the gap, and a time that occurs twice starts once; an hour
    given as `*` counts both hours.
    """

    expression: str
    zone: str = "UTC"
    missed: Missed = "once"
    most: int = 10
    """Most times that start at once after a pause, with `missed="all"`."""

    def __post_init__(self) -> None:
        if self.missed not in get_args(Missed):
            raise ConfigurationError(f"invalid missed {self.missed!r:.80}: choose from {', '.join(get_args(Missed))}")
        check_whole("Cron", "most", self.most)
        if next(_times(self.expression, self.zone, datetime.now().astimezone()), None) is None:
            raise ConfigurationError(f"cron expression {self.expression!r:.80} matches no time: correct it")


def time_after(schedule: Schedule, now: float) -> float | None:
    """Return the first time of a schedule after *now*; for one without `cron` its only time, even if that is over."""
    if not schedule.cron:
        return schedule.at
    zone = zone_of(schedule.zone)
    found = next(_times(schedule.cron, schedule.zone, datetime.fromtimestamp(now, zone)), None)
    return None if found is None else found.timestamp()


def times_to_start(schedule: Schedule, now: float) -> list[float]:
    """Return the times of a due schedule that start at *now*, the earliest first."""
    since = now if schedule.due_at is None else schedule.due_at
    times = [since]
    if schedule.cron:
        # Backwards, because the newest count, and a year of minutes has half a million.
        latest = datetime.fromtimestamp(now, zone_of(schedule.zone)) + timedelta(seconds=1)
        past = (time.timestamp() for time in _times(schedule.cron, schedule.zone, latest, reverse=True))
        passed = takewhile(lambda time: time >= since, (time for time in past if time <= now))
        times = list(islice(passed, schedule.most if schedule.missed == "all" else 1))[::-1]
    return [time for time in times if schedule.missed != "skip" or now - time <= LATE]


def shortest_gap(cron: Cron) -> float:
    """Return the fewest seconds between two of the next hundred times."""
    times = [time.timestamp() for time in islice(_times(cron.expression, cron.zone, datetime.now(UTC)), 100)]
    return min([later - time for time, later in pairwise(times)], default=inf)


def _times(expression: str, zone: str, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    with extra("schedules", "a cron expression"):
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - an extra

    if not isinstance(expression, str) or len(expression.split()) != 5:
        raise ConfigurationError(
            f"invalid cron expression {expression!r:.80}: use five fields, such as '0 9 * * mon-fri'"
        )
    try:
        return CronSim(expression, start.astimezone(zone_of(zone)), reverse=reverse)
    except CronSimError as error:
        raise ConfigurationError(f"invalid cron expression {expression!r:.80}: {error}") from error


def zone_of(name: str) -> tzinfo:
    """Return a time zone. Raises `ConfigurationError` for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ConfigurationError(f"unknown time zone {name!r:.80}: use an IANA name, such as Europe/Berlin") from error
