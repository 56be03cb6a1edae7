"""What a soak leaves behind, to be audited."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .outside import Outside


@dataclass
class Record:
    """Notes of a soak, besides the database."""

    outside: Outside
    database: str
    turns: dict[str, list[str]] = field(default_factory=dict)
    """The runs of each guest's turns."""
    outages: list[tuple[float, float]] = field(default_factory=list)
    """When the database was away, by its clock."""
    untaken: dict[tuple[int, float], tuple[float, str]] = field(default_factory=dict)
    """By run and time at which it was due: when it was last seen untaken, and its state then."""
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    late: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """By kind: the seconds by which things were late, and what they were."""
