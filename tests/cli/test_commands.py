"""Printed commands work as printed, and answers are checked before they are recorded."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import APP, Cli, Shop, assert_refused, run_object

BY = ("--by", "ann")


def pasted(text: str, verb: str) -> tuple[str, ...]:
    """Return the arguments of the only command with *verb* in *text*."""
    (line,) = [line for line in text.splitlines() if f"concertino runs {verb} " in line]
    program, *arguments = shlex.split(line[line.index("concertino runs") :])
    assert program == "concertino"
    return tuple(arguments)


def test_printed_commands_can_be_pasted(shop: Shop, cli: Cli, tmp_path: Path) -> None:
    run = shop("clerk", "refund supplier\nrefund")
    folder = tmp_path / "my data"
    folder.mkdir()
    (tmp_path / "runs.db").rename(folder / "runs.db")
    database = ("--db", "my data/runs.db")
    text = cli("runs", "show", run, *database).stdout
    assert pasted(text, "deny") == ("runs", "deny", f"{run}:1.0", *BY, *database)
    done = cli(*pasted(text, "approve"), "--json", *APP)
    assert done.returncode == 0, done.stderr
    resolve = [word.replace("RESULT", "on Monday") for word in pasted(text, "resolve")]
    done = cli(*resolve)
    assert (done.returncode, cli(*resolve).returncode) == (0, 1)
    text = cli("runs", "show", run, *database).stdout
    assert "All answers have arrived" in text
    resume = pasted(text, "resume")
    assert resume == ("runs", "resume", run, *database)
    done = cli(*resume, *APP)
    assert done.returncode == 3
    assert pasted(done.stderr, "resume") == ("runs", "resume", run, *APP, *database)
    assert cli(*pasted(done.stderr, "approve")).returncode == 0
    done = cli(*pasted(done.stderr, "resume"))
    assert (done.returncode, done.stdout) == (0, "Answer: paid 5; on Monday; paid 5\n")


def test_a_follow_up_command_repeats_the_options(shop: Shop, runs: Cli, cli: Cli) -> None:
    run = shop("clerk", "refund")
    done = runs("deny", f"{run}:1.0", *BY, *APP)
    assert cli(*pasted(done.stderr, "resume")).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"amount": "much"}', "the arguments do not fit refund: amount: 'much' is not of type 'integer'"),
        ('{"to": "Bö"}', "do not fit refund: 'amount' is a required property"),
        ('{"amount": 1, "euros": 2}', "'euros' was unexpected"),
    ],
)
def test_arguments_that_do_not_fit_the_tool_are_refused(
    shop: Shop,
    runs: Cli,
    arguments: str,
    says: str,
) -> None:
    run = shop("clerk", "refund")
    assert_refused(runs("approve", f"{run}:1.0", *BY, "--arguments", arguments), says)
    assert len(run_object(runs, run)["waits"]) == 1
    done = runs("approve", f"{run}:1.0", *BY, "--arguments", '{"amount": 2}', "--resume", *APP)
    assert done.stdout.endswith("Answer: paid 2\n")
    assert_refused(runs("approve", f"{run}:1.0", *BY, "--arguments", arguments), "was already answered", status=1)


@pytest.mark.parametrize("key", ["RUN:1:1", "RUN", "RUN:0.0", "RUN:1.", "RUN:1.0 ", ":1.0", "", "RUN:7.0"])
def test_a_key_without_a_waiting_call_is_refused(shop: Shop, runs: Cli, key: str) -> None:
    run = shop("clerk", "supplier")
    assert_refused(runs("resolve", key.replace("RUN", run), "x"), "no call waits under")
    assert len(run_object(runs, run)["waits"]) == 1


def test_an_ended_research_is_refused_for_a_fork_before_indexing(cli: Cli, corpus: Path) -> None:
    done = json.loads(cli("research", "What are apples?", "--corpus", str(corpus), "--db", "runs.db", "--json").stdout)
    fork = cli("runs", "fork", done["run_id"], "--step", "1", "--corpus", "nowhere", "--db", "runs.db")
    assert_refused(fork, "erased")
