"""The settings of a connection: those of the URL, and ours."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...errors import ConfigurationError

_DEFAULTS = {
    "application_name": "concertino",
    "client_encoding": "UTF8",
    "connect_timeout": "5",
    # A server that is gone without a word is noticed within ten seconds.
    "keepalives_idle": "4",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


def parsed(url: str) -> dict[str, Any]:
    """Return the settings in *url*. Raises `ConfigurationError`."""
    try:
        return conninfo_to_dict(url)
    except (psycopg.Error, ValueError) as error:
        raise ConfigurationError(f"the URL of the database cannot be read: {error}") from None


def conninfo(given: dict[str, Any], schema: str, patience: float, *, read_only: bool) -> str:
    """Return the connection string for *schema* with the settings *given*; a statement ends within *patience* s."""
    limit = max(1, round(patience * 1000))
    settings: dict[str, object] = {
        "search_path": schema,
        "statement_timeout": limit,
        "lock_timeout": limit,
        # Planning a statement anew costs more than most statements do.
        "plan_cache_mode": "force_generic_plan",
        # A process that was frozen inside a transaction keeps its locks no longer.
        "idle_in_transaction_session_timeout": 5000,
    }
    if read_only:
        settings["default_transaction_read_only"] = "on"
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    chosen = {
        **_DEFAULTS,
        "target_session_attrs": "any" if read_only else "read-write",
        **given,
        "options": f"{options} {given.get('options', '')}".strip(),
    }
    return make_conninfo(**chosen)
