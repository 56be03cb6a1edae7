"""`concertino worker`: the list, the passes of a run, and the cards of its approvals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import Cli, assert_refused

APP = ("--app", "tests.cli.clerk:make_runtime", "--db", "runs.db")


def test_the_built_in_worker_is_listed_and_answers_from_the_corpus(cli: Cli, corpus: Path) -> None:
    done = cli("worker", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "librarian" in done.stdout
    done = cli("worker", "run", "librarian", "What are apples?", "--corpus", str(corpus))
    assert done.returncode == 0
    assert "Apples are red fruits." in done.stdout
    for shown in ("pass 1 of 6: demo:quotes", "confidence low. plan:", "pass 2 of 6", "loop ended: responded"):
        assert shown in done.stderr


def test_the_workers_of_a_runtime_are_listed(cli: Cli) -> None:
    done = cli("worker", "list", *APP)
    assert re.findall(r"^(\w+) +(active|coming soon)", done.stdout, re.MULTILINE) == [
        ("clerk", "active"),
        ("later", "coming soon"),
    ]
    (first, _) = map(json.loads, cli("worker", "list", *APP, "--json").stdout.splitlines())
    assert (first["id"], first["approval_label"]) == ("clerk", "Mark it")


def test_a_pipe_gets_the_commands_that_answer_the_card(cli: Cli) -> None:
    done = cli("worker", "run", "clerk", "Mark r1", *APP)
    assert (done.returncode, done.stdout) == (3, "")
    assert 'waits for approval: mark {"record": "r1"} (Mark it)' in done.stderr
    found = re.search(r"concertino runs approve (\S+)", done.stderr)
    assert found is not None
    done = cli("runs", "approve", found[1], "--resume", *APP)
    assert done.returncode == 0
    assert "marked r1" in done.stdout


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ("y\n", "marked r1"),
        ('{"record": "r2"}\n', "marked r2"),
        ("what?\nno\n", "the user refused it"),
    ],
)
def test_a_person_at_a_terminal_approves_edits_or_refuses(typed: str, result: str, cli: Cli) -> None:
    done = cli("worker", "run", "clerk", "Mark r1", *APP, given=typed, terminal=True)
    assert done.returncode == 0
    assert result in done.stdout
    assert "clerk asks: Mark it" in done.stderr


def test_a_card_may_stay_open(cli: Cli) -> None:
    done = cli("worker", "run", "clerk", "Mark r1", *APP, given="\n", terminal=True)
    assert done.returncode == 3
    assert "suspended in" in done.stderr


def test_unknown_and_unavailable_workers_are_refused(cli: Cli) -> None:
    assert_refused(cli("worker", "run", "nobody", "x", *APP), "no worker 'nobody': choose from clerk, later")
    done = cli("worker", "run", "later", "x", *APP)
    assert done.returncode == 1
    assert "coming soon" in done.stderr


def test_a_worker_of_a_runtime_needs_its_app_before_any_document_is_read(cli: Cli) -> None:
    done = cli("worker", "run", "clerk", "Mark r1", "--corpus", "nowhere")
    assert_refused(done, "there is no worker 'clerk': choose from librarian, or name", "--app MODULE:NAME")
