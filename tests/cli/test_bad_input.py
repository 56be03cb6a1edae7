"""Invalid input: a status, one line that names the part and the remedy, and no traceback."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from concertino.cli.command_context import DEMO
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["research"], ("question is missing", "concertino research")),
        (["research", " \n"], ("question is empty", "in quotes")),
        (["research", "what", "is", "this"], ("'what', 'is', 'this'", "in quotes")),
        (["research", "q", "--model", "gpt-5"], ("'gpt-5'", "or did you mean 'openai:gpt-5'?")),
        (["research", "q", "--model", "foo:bar"], ("'foo'", "choose from anthropic, openai, google")),
        (["research", "q", "--model", f"{DEMO}:big"], ("'big'", DEMO)),
        (["research", "q", "--model", ""], ("''", DEMO)),
        (["research", "q", "--corpus", "nowhere"], ("nowhere", "folder or a file")),
        (["research", "q", "--corpus", "void"], ("nothing to read in void",)),
        (["research", "q", "--corpus", ""], ("--corpus is empty", "omit the option")),
        (["research", "q", "--corpus", "void", "nowhere"], ("'nowhere'", "each path after --corpus exists")),
        (["research", "q", "--db", "file/x.db"], ("file", "--db")),
        (["research", "q", "--db", "void"], ("void is a folder", "name a file")),
        (["research", "q", "--db", "file"], ("file is not a SQLite database", "open another path")),
        (["chat", "q", "--model", "foo:bar"], ("'foo'", "anthropic")),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_invalid_input_is_refused_in_one_line(
    cli: Cli, tmp_path: Path, arguments: list[str], says: tuple[str, ...], as_json: bool
) -> None:
    (tmp_path / "void").mkdir()
    (tmp_path / "file").write_text("text")
    done = cli(*arguments, *(["--json"] if as_json else []))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("concertino: ")
    for part in says:
        assert part in line


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_a_missing_key_names_its_variable(cli: Cli, provider: str) -> None:
    pytest.importorskip({"google": "google.genai"}.get(provider, provider))
    done = cli("research", "q", "--model", provider)
    assert done.returncode == 2
    variable = {"google": "GEMINI_API_KEY"}.get(provider, f"{provider.upper()}_API_KEY")
    (line,) = done.stderr.splitlines()
    assert variable in line
    assert f"--model {DEMO}" in line


def test_a_newer_database_is_not_changed(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    assert cli("chat", "apples", "--corpus", str(corpus), "--db", str(file)).returncode == 0
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = file.read_bytes()
    done = cli("chat", "apples", "--corpus", str(corpus), "--db", str(file))
    assert done.returncode == 2
    assert "newer concertino" in done.stderr
    assert file.read_bytes() == before


def test_an_unreadable_file_is_named_and_skipped(cli: Cli, corpus: Path) -> None:
    (corpus / "broken.md").write_bytes(bytes(range(32)))
    done = cli("research", "What are apples?", "--corpus", str(corpus))
    assert done.returncode == 0
    assert "broken.md" in done.stderr
    assert "red fruits" in done.stdout


def test_an_unreadable_folder_is_refused(cli: Cli, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_folder = os.scandir

    def refuse(path: Any) -> Any:  # permissions alone do not bind root
        if path == str(corpus):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", refuse)
    done = cli("research", "q", "--corpus", str(corpus))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{corpus.name} (Permission denied)" in done.stderr


def test_the_version(cli: Cli) -> None:
    done = cli("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("concertino ")


def test_an_unknown_option_is_refused(cli: Cli) -> None:
    assert cli("research", "q", "--nonsense").returncode == 2
