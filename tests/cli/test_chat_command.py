"""`concertino chat`: one turn, or one for each line."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.cli.conftest import Cli
from tests.cli.test_research_command import check_object


def test_one_turn(cli: Cli, corpus: Path) -> None:
    done = cli("chat", "What are apples?", "--corpus", str(corpus))
    assert done.returncode == 0
    assert "red fruits" in done.stdout
    assert "main_thread: started" in done.stderr


def test_each_line_is_a_turn_of_one_conversation(cli: Cli, corpus: Path, database: Path) -> None:
    lines = "What are apples?\n\nWhat are pears?\n/quit\nnever asked\n"
    done = cli("chat", "--corpus", str(corpus), "--json", given=lines)
    assert done.returncode == 0
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    for turn in (first, second):
        check_object(turn)
        assert turn["status"] == "completed"
        assert turn["sources"]
    assert (first["question"], second["question"]) == ("What are apples?", "What are pears?")
    assert first["conversation_id"] == second["conversation_id"]
    # The second turn includes the first one.
    assert second["usage"][0]["tokens"]["prompt"] > first["usage"][0]["tokens"]["prompt"]
    connection = sqlite3.connect(database)
    owners = connection.execute("SELECT DISTINCT conversation_id FROM runs").fetchall()
    connection.close()
    assert owners == [(first["conversation_id"],)]


def test_the_end_of_input_ends_the_conversation(cli: Cli, corpus: Path) -> None:
    done = cli("chat", "--corpus", str(corpus), given="What are apples?")
    assert done.returncode == 0
    assert "red fruits" in done.stdout
    assert cli("chat", "--corpus", str(corpus)).returncode == 0


def test_an_empty_message_is_refused(cli: Cli) -> None:
    done = cli("chat", "  ")
    assert done.returncode == 2
    assert done.stderr.startswith("concertino: the question is empty")
