"""The settings of a connection: those of the URL, and ours."""

from __future__ import annotations

import re
from difflib import get_close_matches
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
        raise ConfigurationError(f"the URL of the database {_problem(url, str(error).strip())}") from None


def _problem(url: str, reason: str) -> str:
    """Return what is wrong with *url*, for which libpq gives the *reason*, and the remedy.

    A name that libpq quotes is shown only if it is that of a parameter: anything else may be a part of the password.
    """
    quoted = re.findall(r'"([^"]+)"', reason)
    name = next((each for each in quoted if re.search(rf"[?&]{re.escape(each)}=", url)), None)
    if name is None:
        reason = re.sub(r'"[^"]*"', "'...'", reason)
        return f"cannot be read: {reason}; write special characters, such as @ or % in a password, as %40 or %25"
    known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
    alike = "".join([f"did you mean {each!r}? " for each in get_close_matches(name, known, 1)])
    return f"has the unknown parameter {name!r}: {alike}Use parameters of libpq, such as 'sslmode', or remove it"


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
