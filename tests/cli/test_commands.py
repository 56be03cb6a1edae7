"""The commands that the program prints are run as they stand; and what can be known of an answer before it is given."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import APP, Cli, Shop, refused, shown

BY = ("--by", "ann")


def pasted(text: str, verb: str) -> tuple[str, ...]:
    """The words of the one command with *verb* in *text*."""
    (line,) = [line for line in text.splitlines() if f"concertino runs {verb} " in line]
    program, *words = shlex.split(line[line.index("concertino runs") :])
    assert program == "concertino"
    return tuple(words)


def test_what_is_printed_can_be_pasted(shop: Shop, cli: Cli, tmp_path: Path) -> None:
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
    assert "its answers are there" in text
    resume = pasted(text, "resume")
    assert resume == ("runs", "resume", run, *database)
    done = cli(*resume, *APP)
    assert done.returncode == 3
    assert pasted(done.stderr, "resume") == ("runs", "resume", run, *APP, *database)
    assert cli(*pasted(done.stderr, "approve")).returncode == 0
    done = cli(*pasted(done.stderr, "resume"))
    assert (done.returncode, done.stdout) == (0, "Answer: paid 5; on Monday; paid 5\n")


def test_the_options_of_an_answer_are_in_what_comes_next(shop: Shop, runs: Cli, cli: Cli) -> None:
    run = shop("clerk", "refund")
    done = runs("deny", f"{run}:1.0", *BY, *APP)
    assert cli(*pasted(done.stderr, "resume")).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"amount": "much"}', "--arguments do not fit refund: amount: 'much' is not of type 'integer'"),
        ('{"to": "Bö"}', "do not fit refund: 'amount' is a required property"),
        ('{"amount": 1, "euros": 2}', "'euros' was unexpected"),
    ],
)
def test_arguments_that_the_tool_would_refuse_are_no_answer(
    shop: Shop,
    runs: Cli,
    arguments: str,
    says: str,
) -> None:
    run = shop("clerk", "refund")
    refused(runs("approve", f"{run}:1.0", *BY, "--arguments", arguments), says)
    assert len(shown(runs, run)["waits"]) == 1
    done = runs("approve", f"{run}:1.0", *BY, "--arguments", '{"amount": 2}', "--resume", *APP)
    assert done.stdout.endswith("Answer: paid 2\n")
    refused(runs("approve", f"{run}:1.0", *BY, "--arguments", arguments), "has its answer already", status=1)


@pytest.mark.parametrize("key", ["RUN:1:1", "RUN:1:call0.1", "RUN", "RUN:0.0", "RUN:1.", "RUN:1.0 ", ":1.0", ""])
def test_a_key_that_no_call_can_have_is_refused(shop: Shop, runs: Cli, key: str) -> None:
    run = shop("clerk", "supplier")
    refused(runs("resolve", key.replace("RUN", run), "x"), "a call's key is RUN:STEP.PLACE")
    done = runs("resolve", f"{run}:7.0", "x", "--json")
    assert (done.returncode, json.loads(done.stdout)["first"]) == (0, True)


def test_a_research_that_has_ended_is_not_forked_and_nothing_is_indexed_for_it(cli: Cli, corpus: Path) -> None:
    done = json.loads(cli("research", "What are apples?", "--corpus", str(corpus), "--db", "runs.db", "--json").stdout)
    fork = cli("runs", "fork", done["run_id"], "--step", "1", "--corpus", "nowhere", "--db", "runs.db")
    refused(fork, "erased, as its data policy wants it")
