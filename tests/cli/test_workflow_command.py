"""`concertino workflow`: run, show and resume."""

from __future__ import annotations

import json
import re

from .conftest import Cli, assert_refused

APP = ("--app", "tests.cli.flows:make_runtime", "--db", "runs.db")


def test_a_workflow_runs_is_shown_and_resumed(cli: Cli) -> None:
    done = cli("workflow", "run", "flow", "tea", *APP)
    assert (done.returncode, done.stdout) == (3, "")
    assert "step 1: see (scripted)" in done.stderr
    assert "completed see: tea is red" in done.stderr
    found = re.search(r"concertino runs approve ((\S+):\S+)", done.stderr)
    assert found is not None
    shown = cli("workflow", "show", found[2], "--db", "runs.db")
    assert re.search(r"1 +see +scripted +completed", shown.stdout)
    assert re.search(r"2 +ask +human +running", shown.stdout)
    assert "waits: Ship tea?" in shown.stderr
    state = json.loads(cli("workflow", "show", found[2], "--db", "runs.db", "--json").stdout)
    assert state["variables"]["colour"] == "tea is red"
    done = cli("workflow", "resume", found[2], *APP, given='{"answer": "tomorrow"}\n', terminal=True)
    assert (done.returncode, "tea is red: tomorrow" in done.stdout) == (0, True)


def test_a_failed_workflow_is_shown_with_its_reason(cli: Cli) -> None:
    done = cli("workflow", "run", "flow", "tea", *APP, given="no\n", terminal=True)
    assert done.returncode == 1
    found = re.search(r"run_\w+", done.stderr)
    assert found is not None
    assert "failed: step 'ask': not allowed" in cli("workflow", "show", found[0], "--db", "runs.db").stderr


def test_other_names_and_runs_are_refused(cli: Cli) -> None:
    assert_refused(cli("workflow", "run", "nothing", "x", *APP), "no workflow 'nothing': choose from flow")
    assert_refused(cli("workflow", "run", "flow", "x", "--db", "runs.db"), "with --app MODULE:NAME")
    done = cli("worker", "run", "clerk", "Mark r1", "--app", "tests.cli.clerk:make_runtime", "--db", "other.db")
    found = re.search(r"run_\w+", done.stderr)
    assert found is not None
    assert_refused(cli("workflow", "show", found[0], "--db", "other.db"), "is not a run of a workflow: use runs show")
