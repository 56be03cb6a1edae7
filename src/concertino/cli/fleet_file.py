"""The file that the processes of a fleet share: `--config config.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .. import wiring
from ..errors import ConfigurationError
from ..providers import SharedRateLimit
from ..runtime import Bell, Fleet
from ..runtime.fleet import COROUTINES, GENERIC
from ..storage import Store
from .options import Options


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class WorkerTable(_Table):
    """The table `[worker]`, which only workers read."""

    worker_targets: list[str] = Field(default=[GENERIC], min_length=1)
    """The targets whose work the process takes."""
    coroutines: int = Field(default=COROUTINES, ge=1)
    """Most runs that the process has at the same time."""
    grace: float = Field(default=20.0, ge=0)
    """Seconds that runs have to end after a signal."""


class RateLimitTable(_Table):
    """A table `[rate_limits.PROVIDER]`: the limits of the provider's key, which all processes share."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    max_concurrent: int | None = Field(default=None, ge=1)
    """Requests that one process has at the same time."""


class FleetFile(_Table):
    """The fields of the file."""

    database: str | None = None
    """As `--db`: a PostgreSQL URL, or a SQLite file for the processes of one machine."""
    nats: str | None = None
    """The URL of a NATS server, over which processes wake each other; by default they do so over the database."""
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
        return Fleet(
            bell=bell,
            targets=self.targets,
            takes=takes,
            coroutines=self.worker.coroutines,
            rate_limits=limits,
            allowed_tools=self.allowed_tools,
        )


def read_fleet_file(path: str) -> FleetFile:
    """Return the file at *path*. Raises `ConfigurationError` if it cannot be read or a field is invalid."""
    try:
        return FleetFile.model_validate(tomllib.loads(Path(path).read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{path}: invalid {field}: {first['msg']}") from None


def with_fleet_file(options: Options) -> Options:
    """Return *options* with those of their configuration file, which the command line overrides."""
    if options.config is None:
        return options
    file = read_fleet_file(options.config)
    return dataclasses.replace(
        options,
        db=options.db or file.database,
        app=options.app or file.app,
        model=options.model or file.model,
        corpus=options.corpus or file.corpus,
    )
