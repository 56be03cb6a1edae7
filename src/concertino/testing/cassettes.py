"""Recording what goes over HTTP, and replaying it: `recording`, `replaying`, and `cassette` for either."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ..errors import ConfigurationError
from ..extras import extra
from ..providers.openai.chat.vendors import vendor_of
from .case import RECORD_AGAIN, Case, CassetteError, Interaction, as_json, read_case, write_json
from .redaction import Redaction

if TYPE_CHECKING:
    from .border import Cuts, Match, Player, Recorder

RecordMode = Literal["none", "once", "all"]
"""Replay; record where there is no file; record always."""

VARIABLE = "CONCERTINO_RECORD_MODE"

_KEYS = {"api.anthropic.com": "ANTHROPIC_API_KEY", "generativelanguage.googleapis.com": "GEMINI_API_KEY"}
_PLACEHOLDER = "replayed"


class Cassette:
    """What a block has recorded or replayed so far: its `interactions`. Its `mode` says which."""

    def __init__(self, path: Path, mode: Literal["recording", "replaying"], tape: Recorder | Player) -> None:
        self.path = path
        self.mode = mode
        self._tape = tape

    @property
    def interactions(self) -> list[Interaction]:
        """In the order of asking; when recording, without what is left out."""
        return self._tape.interactions


@asynccontextmanager
async def recording(
    path: str | Path, *, secrets: Iterable[str] = (), passing: Collection[str] = ()
) -> AsyncIterator[Cassette]:
    """Record what the block asks over HTTP, and write it to *path* at the end, whole or not at all.

    A block that raises is written as far as it went, and the recording says so. *secrets* are texts that are left out
    wherever they stand; *passing* are hosts that are not recorded.

    Raises `CassetteError` if nothing was asked, or if a secret would be in the file, which then is not written.
    """
    with extra("web", "recording HTTP"):
        from .border import Recorder, at_the_border  # noqa: PLC0415

    redaction, path = Redaction(secrets), Path(path)
    tape = Recorder(redaction)
    raised: BaseException | None = None
    try:
        with at_the_border(tape, passing):
            yield Cassette(path, "recording", tape)
    except BaseException as error:
        raised = error
        raise
    finally:
        try:
            _write(path, Case(interactions=tape.interactions), redaction, raised)
        except CassetteError as problem:
            _fail(problem, raised)


@asynccontextmanager
async def replaying(
    path: str | Path,
    *,
    match: Match = "order",
    ignore: Collection[str] = (),
    cuts: Cuts = "events",
    passing: Collection[str] = (),
) -> AsyncIterator[Cassette]:
    """Answer what the block asks over HTTP from the recording at *path*, without a network.

    *match* is `order` (the next exchange, which must be equal), `content` (the first unused one that is equal) or
    `none` (the next one, whatever is asked). *ignore* are JSON paths of bodies that are not compared, such as
    `$.messages[*].name`. *cuts* says in which pieces answers come: `events`, `bytes`, or the seed of random ones.
    *passing* are hosts that are asked in earnest.

    Raises `CassetteError` if there is no recording, if something else was asked than was recorded (then whatever the
    block itself raised is its cause), or if exchanges are left.
    """
    with extra("web", "replaying HTTP"):
        from .border import Player, at_the_border  # noqa: PLC0415

    path = Path(path)
    case = read_case(path)
    tape = Player(case, match=match, ignored=ignore, cuts=cuts)
    raised: BaseException | None = None
    try:
        with at_the_border(tape, passing), _keys_for(case):
            yield Cassette(path, "replaying", tape)
    except BaseException as error:
        raised = error
        raise
    finally:
        if tape.problem:
            _fail(CassetteError(f"{path}: {tape.problem}\nIf that is meant, {RECORD_AGAIN}"), raised)
        if tape.left and raised is None:
            lines = [f"  {number}: {one.request.method} {one.request.path}" for number, one in tape.left]
            count = f"{len(lines)} of {len(case.interactions)} recorded exchanges were not asked for"
            raise CassetteError("\n".join([f"{path}: {count}", *lines, f"If that is meant, {RECORD_AGAIN}"]))


@asynccontextmanager
async def cassette(
    path: str | Path,
    *,
    record_mode: RecordMode | None = None,
    secrets: Iterable[str] = (),
    match: Match = "order",
    ignore: Collection[str] = (),
    cuts: Cuts = "events",
    passing: Collection[str] = (),
) -> AsyncIterator[Cassette]:
    """`replaying`, or `recording` if *record_mode*, or the variable `CONCERTINO_RECORD_MODE`, wants it.

    It is `none` (never record), `once` (record where there is no file) or `all` (record anew). Raises
    `ConfigurationError` for any other.
    """
    if _is_to_record(Path(path), record_mode or os.environ.get(VARIABLE) or "none"):
        async with recording(path, secrets=secrets, passing=passing) as tape:
            yield tape
    else:
        async with replaying(path, match=match, ignore=ignore, cuts=cuts, passing=passing) as tape:
            yield tape


def _is_to_record(path: Path, mode: str) -> bool:
    known = get_args(RecordMode)
    if mode not in known:
        raise ConfigurationError(
            f"{mode!r} is no record mode (record_mode= or {VARIABLE}); there are: {', '.join(known)}"
        )
    return mode == "all" or (mode == "once" and not path.exists())


def _write(path: Path, case: Case, redaction: Redaction, raised: BaseException | None) -> None:
    if not case.interactions:
        if raised is None:
            raise CassetteError(
                f"nothing was recorded for {path}: what the block asked, if it did, did not go over httpx2.AsyncClient"
            )
        return
    if raised is not None:
        case.complete, case.why = False, redaction.text(f"{type(raised).__name__}: {raised}"[:500])
    found = as_json(case, path.stem)
    redaction.check(found)
    write_json(path, found)


def _fail(problem: CassetteError, raised: BaseException | None) -> None:
    """Raise *problem* in place of what the block raised, unless that is about the program, not about the test."""
    if isinstance(raised, asyncio.CancelledError | KeyboardInterrupt | SystemExit | GeneratorExit):
        raised.add_note(str(problem))
    else:
        raise problem from raised


@contextmanager
def _keys_for(case: Case) -> Iterator[None]:
    """Placeholders for the API keys that the environment lacks, of the providers in *case*."""
    hosts = {one.request.host for one in case.interactions}
    names = {_KEYS.get(host) or vendor_of("", f"https://{host}").key for host in hosts}
    if any(host.endswith(".azure.com") for host in hosts):
        names.add("AZURE_OPENAI_API_KEY")
    if os.environ.get("GOOGLE_API_KEY"):
        names.discard("GEMINI_API_KEY")
    added = [name for name in names if name and not os.environ.get(name)]
    os.environ.update(dict.fromkeys(added, _PLACEHOLDER))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
