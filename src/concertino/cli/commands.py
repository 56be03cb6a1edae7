"""The commands that are printed for people to type next: with the options that were given for this one."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ..waits import Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options that the next command needs, too."""

    database: Path | None = None
    corpus: tuple[str, ...] = ()
    app: str | None = None
    """`module:name` of the function that makes a product's `Runtime`; None: this program's own."""

    def answering(self, wait: Wait) -> tuple[str, ...]:
        """How a wait is answered: with one of these."""
        if wait.kind == "result":
            return (self._command("resolve", wait.key, "RESULT"),)
        by = ("--by", wait.who[0]) if wait.who else ()
        return self._command("approve", wait.key, *by), self._command("deny", wait.key, *by)

    def resuming(self, run_id: str) -> str:
        """How a run is taken up."""
        app = () if self.app is None else ("--app", self.app)
        corpus = [word for path in self.corpus for word in ("--corpus", path)]
        return self._command("resume", run_id, *app, *corpus)

    def listing(self) -> str:
        """How all runs are listed."""
        return self._command("list", "--all")

    def _command(self, *words: str) -> str:
        database = () if self.database is None else ("--db", str(self.database))
        return shlex.join(("concertino", "runs", *words, *database))
