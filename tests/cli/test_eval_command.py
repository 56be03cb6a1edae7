"""`concertino eval`: data sets, scorers, baselines and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

from concertino.evaluation import Trial

from .conftest import APP, Cli, Shop, assert_refused

CASES = (
    '{"id": "tea", "message": "lookup", "expected": "tea is 7"}\n{"id": "none", "message": "hello", "expected": "7"}\n'
)


def is_seven(trial: Trial) -> bool:
    """Score answers with a seven."""
    return "7" in trial.result.text


def test_an_agent_is_scored_and_compared_with_a_baseline(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(CASES)
    arguments = ("eval", "cases.jsonl", *APP, "--agent", "clerk", "--db", "runs.db", "--model", "shop:follows")
    done = cli(*arguments, "--save", "report.json", "--record", "eval.db")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split() == ["completed", "1.000", "0.342", "to", "1.000", "2"]
    assert done.stdout.splitlines()[2].split() == ["contains", "0.500", "0.095", "to", "0.905", "2"]
    assert "Answer: nothing" in done.stdout
    assert "3 runs" not in done.stderr
    assert "2 runs of shop:follows: <$0.0001" in done.stderr
    listed = cli("runs", "list", "--db", "eval.db").stdout
    assert "lookup" in listed
    assert "clerk" not in cli("runs", "list", "--db", "runs.db").stdout  # an evaluation is not production
    again = cli(*arguments, "--baseline", "report.json")
    assert (again.returncode, "+0.000" in again.stdout) == (0, True)
    (tmp_path / "cases.jsonl").write_text(CASES.replace("tea is 7", "cup is 7"))
    worse = cli(*arguments, "--baseline", "report.json", "--max-drop", "0")
    assert worse.returncode == 1
    assert "contains has regressed: 0.500 -> 0.000" in worse.stderr
    assert cli(*arguments, "--baseline", "report.json").returncode == 0  # two cases prove nothing
    least = cli(*arguments, "--min", "0.9", "--score", "tests.cli.test_eval_command:is_seven")
    assert (least.returncode, "is_seven is below 0.9" in least.stderr) == (1, True)


def test_stored_runs_are_cases_that_expect_their_answers(cli: Cli, shop: Shop) -> None:
    shop("clerk", "lookup")
    shop("clerk", "lookup lookup")
    shop("chief", "lookup")
    done = cli("eval", "--stored", *APP, "--agent", "clerk", "--db", "runs.db", "--score", "exact", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["scores"]["exact"]["mean"], len(found["trials"])) == (0, 1.0, 2)
    done = cli("eval", "--conversation", "conv_1", *APP, "--agent", "chief", "--db", "runs.db", "--json")
    assert len(json.loads(done.stdout)["trials"]) == 1


def test_the_built_in_agent_needs_no_key(cli: Cli, tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "cases.csv").write_text("message,expected\nWhich fruits are red?,apples\n")
    done = cli("eval", "cases.csv", "--corpus", str(corpus), "--db", "runs.db", "--repeats", "2", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["scores"]["contains"]["mean"] == 1.0


def test_mistakes_are_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(CASES)
    own = ("--db", "runs.db", *APP)
    assert_refused(cli("eval", *own, "--agent", "clerk"), "give a file of cases, or --stored")
    assert_refused(cli("eval", "cases.jsonl", "--stored", *own, "--agent", "clerk"), "give a file of cases")
    assert_refused(cli("eval", "cases.jsonl", *own), "choose an agent of your Runtime: clerk, chief, vault")
    assert_refused(cli("eval", "cases.jsonl", *own, "--agent", "x"), "no agent 'x'")
    assert_refused(cli("eval", "--stored", *own, "--agent", "clerk"), "no completed run of 'clerk'")
    assert_refused(cli("eval", "cases.jsonl", *own, "--agent", "clerk", "--score", "x"), "invalid --score 'x'")
    assert_refused(cli("eval", "cases.jsonl", *own, "--agent", "clerk", "--score", "no:x"), "--score no:x")
    assert_refused(cli("eval", "cases.jsonl", *own, "--agent", "clerk", "--score", "json:__doc__"), "not a function")
    assert_refused(cli("eval", "cases.jsonl", *own, "--baseline", "no.json"), "no.json is not a report")
