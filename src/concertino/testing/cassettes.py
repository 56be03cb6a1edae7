"""HTTP recordings: `recording`, `replaying`, and `cassette` for either."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ..errors import ConfigurationError
from ..extras import extra
from .case import RECORD_AGAIN, Case, CassetteError, Interaction, as_json, read_case, write_json
from .redaction import Redaction

if TYPE_CHECKING:
    from .interception import Cuts, Match, Player, Recorder

RecordMode = Literal["none", "once", "all"]
"""`none`: replay only. `once`: record if the file is missing. `all`: always record."""

VARIABLE = "CONCERTINO_RECORD_MODE"

_KEYS = {"api.anthropic.com": "ANTHROPIC_API_KEY", "generativelanguage.googleapis.com": "GEMINI_API_KEY"}
_PLACEHOLDER = "replayed"


class Cassette:
    """The `interactions` that a block has recorded or replayed so far, according to its `mode`."""

    def __init__(self, path: Path, mode: Literal["recording", "replaying"], tape: Recorder | Player) -> None:
        self.path = path
        self.mode = mode
        self._tape = tape

    @property
    def interactions(self) -> list[Interaction]:
        """Interactions in the order of the requests; redacted when recording."""
        return self._tape.interactions


@asynccontextmanager
async def recording(
    path: str | Path, *, secrets: Iterable[str] = (), passing: Collection[str] = ()
) -> AsyncIterator[Cassette]:
    """Record the HTTP requests of the block, and write them to *path* atomically at the end.

    If the block raises, the recording so far is written and marked as incomplete. *secrets* are texts to remove
    everywhere; requests to the hosts *passing* are not recorded.

    Raises `CassetteError` without writing the file if there was no request, or if the file would contain a secret.
    """
    with extra("web", "recording HTTP"):
        from .interception import Recorder, intercept  # noqa: PLC0415

    redaction, path = Redaction(secrets), Path(path)
    tape = Recorder(redaction)
    raised: BaseException | None = None
    try:
        with intercept(tape, passing):
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
    """Answer the HTTP requests of the block from the recording at *path*, without a network.

    *match* is `order` (the next exchange, which must match), `content` (the first unused exchange that matches) or
    `none` (the next exchange, without a comparison). *ignore* lists JSON paths of bodies that are not compared, such as
    `$.messages[*].name`. *cuts* chooses the pieces of responses: `events`, `bytes`, or the seed of random pieces.
    Requests to the hosts *passing* use the network.

    Raises `CassetteError` if the recording is missing, if a request does not match (chained to the exception of the
    block, if any), or if exchanges are left over.
    """
    with extra("web", "replaying HTTP"):
        from .interception import Player, intercept  # noqa: PLC0415

    path = Path(path)
    case = read_case(path)
    tape = Player(case, match=match, ignored=ignore, cuts=cuts)
    raised: BaseException | None = None
    try:
        with intercept(tape, passing), _keys_for(case):
            yield Cassette(path, "replaying", tape)
    except BaseException as error:
        raised = error
        raise
    finally:
        if tape.problem:
            _fail(CassetteError(f"{path}: {tape.problem}\nIf the change is intended, {RECORD_AGAIN}"), raised)
        if tape.left and raised is None:
            lines = [f"  {number}: {one.request.method} {one.request.path}" for number, one in tape.left]
            count = f"{len(lines)} of {len(case.interactions)} recorded exchanges were not requested"
            raise CassetteError("\n".join([f"{path}: {count}", *lines, f"If the change is intended, {RECORD_AGAIN}"]))


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
    """Record or replay, depending on *record_mode* or the variable `CONCERTINO_RECORD_MODE`.

    The mode is `none` (replay only), `once` (record if the file is missing) or `all` (always record). Raises
    `ConfigurationError` for any other mode.
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
            f"invalid record mode {mode!r} (record_mode= or {VARIABLE}): choose from {', '.join(known)}"
        )
    return mode == "all" or (mode == "once" and not path.exists())


def _write(path: Path, case: Case, redaction: Redaction, raised: BaseException | None) -> None:
    if not case.interactions:
        if raised is None:
            raise CassetteError(
                f"nothing was recorded for {path}: the block sent no request through httpx2.AsyncClient"
            )
        return
    if raised is not None:
        case.complete, case.why = False, redaction.text(f"{type(raised).__name__}: {raised}"[:500])
    found = as_json(case, path.stem)
    redaction.check(found)
    write_json(path, found)


def _fail(problem: CassetteError, raised: BaseException | None) -> None:
    """Raise *problem* from the exception of the block; if that ends the program, add *problem* to it as a note."""
    if isinstance(raised, asyncio.CancelledError | KeyboardInterrupt | SystemExit | GeneratorExit):
        raised.add_note(str(problem))
    else:
        raise problem from raised


@contextmanager
def _keys_for(case: Case) -> Iterator[None]:
    """Set placeholders for missing API keys of the providers in *case*."""
    from ..providers.openai.chat.vendors import vendor_of  # noqa: PLC0415 - imports the optional httpx2

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
