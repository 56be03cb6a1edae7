"""What a soak leaves behind, to be audited."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .outside import Outside

AWAY, KILL = "PostgreSQL was away", "kill"


@dataclass(frozen=True)
class Late:
    """Something that came late."""

    seconds: float
    starved: float
    """For how many of them processes waited for the machine."""
    about: str

    @property
    def own(self) -> float:
        """The seconds that the machine does not explain."""
        return self.seconds - self.starved

    def __str__(self) -> str:
        return f"{self.own:.2f} s late, and {self.starved:.2f} s for lack of a processor: {self.about}"


@dataclass
class Record:
    """Notes of a soak, besides the database."""

    outside: Outside
    database: str
    turns: dict[str, list[str]] = field(default_factory=dict)
    """The runs of each guest's turns."""
    happened: list[tuple[float, float, str]] = field(default_factory=list)
    """Begin, end and name of each fault, by the clock of the machine, which is the database's, too."""
    untaken: dict[tuple[int, float], tuple[float, str]] = field(default_factory=dict)
    """By run and time at which it was due: when it was last seen untaken, and its state then."""
    claims: dict[int, set[float]] = field(default_factory=lambda: defaultdict(set))
    """By queued turn: the ends of the claims that were seen."""
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    late: dict[str, list[Late]] = field(default_factory=dict)
    """By kind."""
    starved: float = 0.0
    """The share of the time for which processes waited for the machine."""

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Note a fault that lasts as long as the `with` block."""
        begin = time.time()
        yield
        self.happened.append((begin, time.time(), name))

    def kills(self, begin: float, end: float) -> bool:
        """Return whether a worker was killed in a span."""
        return any(name == KILL and since <= end and until >= begin for since, until, name in self.happened)

    def between(self, begin: float, end: float) -> str:
        """Name the faults of a span."""
        seen = Counter(name for since, until, name in self.happened if since <= end and until >= begin)
        return ", ".join(f"{many} x {name}" for name, many in seen.items()) or "nothing happened"
