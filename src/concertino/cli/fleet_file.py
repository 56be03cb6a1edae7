"""The file that the processes of a fleet share: `--config config.toml`."""

from __future__ import annotations

import dataclasses
import difflib
import logging
import tomllib
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .. import wiring
from ..errors import ConfigurationError
from ..providers import SharedRateLimit
from ..runtime import Bell, Fleet, LocalBell
from ..runtime.bus.nats_url import servers_of
from ..runtime.fleet import COROUTINES, GENERIC
from ..storage import Store
from .options import Options

log = logging.getLogger("concertino")

_REMEDIES = {
    "string_type": "use a string",
    "list_type": "use a list",
    "dict_type": "use a table",
    "bool_type": "use true or false",
    "model_type": "use a table",
    "int_type": "use a whole number",
    "float_type": "use a number",
    "finite_number": "use a finite number",
    "greater_than": "use a number above {gt:g}",
    "greater_than_equal": "use a number of at least {ge:g}",
    "less_than_equal": "use a number of at most {le:,}",
    "string_too_short": "leave the field out, or use at least one character",
    "too_short": "name at least one",
}
"""By the type of pydantic's error."""
_MOST = 100_000
"""Most runs or requests at once: more than a process can have."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class WorkerTable(_Table):
    """The table `[worker]`, which only workers read."""

    worker_targets: list[str] = Field(default=[GENERIC], min_length=1)
    """The targets whose work the process takes."""
    coroutines: int = Field(default=COROUTINES, ge=1, le=_MOST)
    """Most runs that the process has at the same time."""
    grace: float = Field(default=20.0, ge=0, le=86_400)
    """Seconds that runs have to end after a signal."""


class RateLimitTable(_Table):
    """A table `[rate_limits.PROVIDER]`: the limits of the provider's key, which all processes share."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    max_concurrent: int | None = Field(default=None, ge=1, le=_MOST)
    """Requests that one process has at the same time."""


class FleetFile(_Table):
    """The fields of the file."""

    database: str | None = Field(default=None, min_length=1)
    """As `--db`: a PostgreSQL URL, or a SQLite file for the processes of one machine."""
    nats: str | None = None
    """The URL of a NATS server, over which processes wake each other; by default they do so over the database."""
    publish: bool = False
    """Whether the processes publish the usage of each step over NATS."""
    app: str | None = None
    """As `--app`."""
    model: str | None = None
    """As `--model`."""
    corpus: list[str] | None = None
    """As `--corpus`."""
    targets: dict[str, list[str]] = {}
    """The agents of each target."""
    allowed_tools: dict[str, list[str]] = {}
    """By agent: the tools that its runs get; an agent that is not named gets all of its own."""
    rate_limits: dict[str, RateLimitTable] = {}
    """By provider: the limits of its key."""
    worker: WorkerTable = WorkerTable()

    def bell(self, options: Options) -> AbstractAsyncContextManager[Bell]:
        """Open the bell of a process."""
        return wiring.open_bell(options.db or "", self.nats)

    def fleet(self, bell: Bell, takes: Collection[str], store: Store) -> Fleet:
        """Return the fleet as a process sees it that takes the work of these targets. Raises `ConfigurationError`."""
        limits = {name: SharedRateLimit(store, name, **table.model_dump()) for name, table in self.rate_limits.items()}
        for name in limits:
            _check_provider(name)
        return Fleet(
            bell=bell,
            targets=self.targets,
            takes=takes,
            coroutines=self.worker.coroutines,
            rate_limits=limits,
            allowed_tools=self.allowed_tools,
            publishes=self.publish,
        )


def read_fleet_file(path: str) -> FleetFile:
    """Return the file at *path*. Raises `ConfigurationError` if it cannot be read or a field is invalid."""
    try:
        file = FleetFile.model_validate(tomllib.loads(Path(path).read_text("utf-8-sig")))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {_problem(error)}") from None
    try:
        wiring.is_url(file.database or "")
        if file.nats is not None:
            servers_of(file.nats)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    _check(path, "targets", file.targets, ())
    _check(path, "worker.worker_targets", file.targets, file.worker.worker_targets)
    if "" in file.rate_limits:
        raise ConfigurationError(f"{path}: invalid rate_limits '': use the name of a provider")
    if file.publish and not file.nats:
        raise ConfigurationError(f"{path}: publish needs a NATS server: set nats, or leave publish out")
    return file


def _check(path: str, field: str, targets: Mapping[str, list[str]], takes: Collection[str]) -> None:
    """Raise the error of a fleet with these targets, as one of *field*."""
    try:
        Fleet(bell=LocalBell(), targets=targets, takes=takes)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: invalid {field}: {error}") from None


def _check_provider(name: str) -> None:
    """Warn of limits for a provider that is not known. Models of the app and of other servers may have any name."""
    known = wiring.provider_names()
    if name not in known:
        likely = difflib.get_close_matches(name, known, 1)
        remedy = f"did you mean {likely[0]!r}?" if likely else f"the providers of the package are {', '.join(known)}"
        log.warning("rate_limits.%s limits only models whose provider is named %r; %s", name, name, remedy)


def _problem(error: ValidationError) -> str:
    """Return the first problem of the file: its field, the value and the remedy."""
    first = error.errors(include_url=False)[0]
    *tables, _ = first["loc"]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown field {field}: choose from {', '.join(_fields(tables))}"
    remedy = _REMEDIES.get(first["type"], "").format(**first.get("ctx", {})) or first["msg"]
    value = first["input"]
    shown = f" {value!r:.80}" if isinstance(value, str | int | float) else ""
    return f"invalid {field}{shown}: {remedy}"


def _fields(tables: list[Any]) -> Collection[str]:
    """Return the names of the fields of the table with this path."""
    match tables:
        case ["worker"]:
            return WorkerTable.model_fields
        case ["rate_limits", _]:
            return RateLimitTable.model_fields
        case _:
            return FleetFile.model_fields


def with_fleet_file(options: Options) -> Options:
    """Return *options* with those of their configuration file, which the command line overrides."""
    if options.config is None:
        return options
    file = read_fleet_file(options.config)
    return dataclasses.replace(
        options,
        db=_checked(options.config, options.db or file.database),
        app=options.app or file.app,
        model=options.model or file.model,
        corpus=options.corpus or file.corpus,
    )


def _checked(path: str, database: str | None) -> str:
    """Return the database of a fleet. Raises `ConfigurationError` if it or its folder is missing, or a URL is invalid.

    A process on a new file would find no work, and look as if it worked.
    """
    if not database:
        raise ConfigurationError(
            f"{path}: the database is missing: use a postgresql:// URL, or the path of a SQLite file"
        )
    if wiring.is_url(database):
        try:
            wiring.check_url(database)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from None
        return database
    folder = Path(database).expanduser().parent
    if not folder.is_dir():
        raise ConfigurationError(f"{path}: invalid database {database!r}: create the folder {folder} first")
    return database
