"""A URL in place of a path: in the wiring and on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from concertino.errors import ConfigurationError, DatabaseVersionError, StorageError
from concertino.storage import PostgresStore
from concertino.storage.postgres import Notifications
from concertino.wiring import open_store

from .server import Server


def test_the_command_line_uses_a_database(server: Server, tmp_path: Path) -> None:
    url = server.database()
    page = tmp_path / "page.txt"
    page.write_text("Apples are red.")
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "concertino.cli", *arguments, "--db", url]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)

    asked = run("chat", "Which apples?", "--corpus", str(page), "--model", "demo", "--json")
    assert asked.returncode == 0, asked.stderr
    listed = run("runs", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout.splitlines()[0])["run_id"] == json.loads(asked.stdout.splitlines()[-1])["run_id"]


def test_a_password_is_not_shown() -> None:
    from concertino.cli.options import without_password

    assert without_password("postgresql://ann:x%40y@host/db?a=1") == "postgresql://ann@host/db?a=1"
    assert without_password("postgresql://host/db?password=x&a=1") == "postgresql://host/db?password=&a=1"
    assert without_password("a:b@c.db") == "a:b@c.db"


async def test_a_url_opens_a_store(server: Server) -> None:
    async with await open_store(server.database()) as store:
        assert isinstance(store, PostgresStore)


@pytest.mark.parametrize("url", ["postgresql://[", "postgresql://host/db?nonsense=1"])
async def test_an_invalid_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the URL of the database"):
        await PostgresStore.open(url)


async def test_invalid_settings(url: str) -> None:
    with pytest.raises(ConfigurationError, match="invalid schema 'A b'"):
        await PostgresStore.open(url, schema="A b")
    with pytest.raises(ConfigurationError, match="sessions=0"):
        await PostgresStore.open(url, sessions=0)


async def test_a_server_that_is_not_there(server: Server) -> None:
    with pytest.raises(StorageError, match=r"nowhere.* cannot be reached|does not exist"):
        await PostgresStore.open(server.url("nowhere"))
    with pytest.raises(StorageError, match="cannot be reached"):
        await PostgresStore.open("postgresql://127.0.0.1:1/x")
    assert issubclass(DatabaseVersionError, StorageError)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("?sslmod=require", "has the unknown parameter 'sslmod': did you mean 'sslmode'? Use parameters of libpq"),
        ("?sslmode=require&pool=9", "has the unknown parameter 'pool': Use parameters of libpq"),
    ],
)
async def test_a_parameter_that_does_not_exist_is_named(query: str, problem: str) -> None:
    url = f"postgresql://ann:secret@db.internal/chat{query}"
    with pytest.raises(ConfigurationError, match=re.escape(problem)) as caught:
        await PostgresStore.open(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        Notifications(url)


async def test_a_part_of_a_password_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="write special characters, such as @ or %") as caught:
        await PostgresStore.open("postgresql://ann:s3cr%zzt@db.internal/chat")
    assert "s3cr" not in str(caught.value)
