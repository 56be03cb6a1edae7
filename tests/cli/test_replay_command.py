"""`concertino replay` and `concertino runs test`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import APP, Cli, Shop, assert_refused

BETTER = """
from concertino import Resources, Runtime
from tests.cli.shop import Clerk, _find, _price


class Better(Clerk):
    prompt = "You are a better clerk."


def make_runtime(store):
    return Runtime([Better()], Resources(store=store, models=_find, price=_price))
"""


def test_runs_are_equal_with_unchanged_code_and_differ_with_changed_code(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    first, second = shop("clerk", "lookup broken\nlookup"), shop("chief", "lookup")
    done = cli("replay", first, second, *APP, "--db", "runs.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "2 equal, 0 changed, 0 skipped",
        "changed answers: 0; calls: 4 -> 4; cost: <$0.0001 -> <$0.0001",
    ]
    (tmp_path / "better.py").write_text(BETTER)
    changed = cli("replay", first, "--app", "better:make_runtime", "--db", "runs.db")
    assert changed.returncode == 1
    assert changed.stdout.splitlines()[:4] == [
        "step 1: system differs",
        "  recorded: You are a clerk.",
        "  replayed: You are a better clerk.",
        "0 equal, 1 changed, 0 skipped",
    ]
    assert "(partly estimated)" in changed.stdout
    shop("clerk", "lookup")
    several = cli("replay", "--newest", "10", "--app", "better:make_runtime", "--db", "runs.db")
    assert several.returncode == 1
    assert several.stdout.splitlines()[1].split()[1:3] == ["1", "system"]
    assert "0 equal, 2 changed, 0 skipped" in several.stdout
    against = json.loads(cli("replay", first, "--against", "chief", *APP, "--db", "runs.db", "--json").stdout)
    assert (against["agent"], against["state"], against["divergence"]["where"]) == ("chief", "changed", "system")
    live = cli("replay", first, "--app", "better:make_runtime", "--model", "shop:follows", "--db", "runs.db", "--json")
    before, after = (json.loads(live.stdout)[side] for side in ("before", "after"))
    assert (after["calls"], after["answer"]) == (["lookup", "broken", "lookup"], before["answer"])


def test_runs_that_cannot_be_replayed_are_named(cli: Cli, shop: Shop) -> None:
    waiting, vault = shop("clerk", "refund"), shop("vault", "lookup")
    done = cli("replay", waiting, vault, *APP, "--db", "runs.db")
    assert (done.returncode, done.stdout) == (2, "0 equal, 0 changed, 2 skipped\n")
    assert "skipped 1 run: it has not ended: it is suspended" in done.stderr
    assert "skipped 1 run: its content was erased" in done.stderr
    assert_refused(cli("replay", *APP, "--db", "runs.db"), "name the runs to replay")
    assert_refused(cli("replay", waiting, "--newest", "2", *APP, "--db", "runs.db"), "name the runs to replay")
    assert_refused(cli("replay", "run_x", *APP, "--db", "runs.db"), "no run 'run_x'")
    assert_refused(cli("replay", waiting, "--against", "x", *APP, "--db", "runs.db"), "no agent 'x'")


def test_a_run_of_a_built_in_agent_is_replayed(cli: Cli, corpus: Path) -> None:
    cli("chat", "Which fruits are red?", "--corpus", str(corpus), "--db", "runs.db")
    done = cli("replay", "--newest", "5", "--corpus", str(corpus), "--db", "runs.db")
    assert (done.returncode, "1 equal, 0 changed, 0 skipped" in done.stdout) == (0, True)


@pytest.mark.slow
def test_a_run_becomes_a_test_that_passes_and_fails_with_the_agent(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    run = shop("clerk", "lookup broken\nlookup")
    arguments = ("runs", "test", run, "--app", "shop:make_runtime", "--db", "runs.db")
    done = cli(*arguments)
    file = tmp_path / f"test_clerk_{run[-8:]}.py"
    assert (done.returncode, done.stdout) == (0, "")
    assert file.name in done.stderr
    source = file.read_text()
    assert '    [call("lookup", name="tea"), call("broken", name="cup")],\n' in source
    assert "    (\"lookup\", {'name': 'tea'}, \"tea is 7\"),\n" in source
    assert r'ToolError("ValueError: no \x1b[31mcup")' in source
    assert_refused(cli(*arguments), f"{file.name} exists already")
    assert_refused(cli(*arguments[:3], "--db", "runs.db"), "--app MODULE:NAME")
    waiting = shop("clerk", "refund")
    assert_refused(cli("runs", "test", waiting, *APP, "--db", "runs.db"), "cannot become a test: it has not ended")

    def outcome() -> tuple[int, str]:
        program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", file.name]
        found = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        return found.returncode, found.stdout

    assert outcome()[0] == 0, outcome()
    module = tmp_path / "shop.py"
    module.write_text(module.read_text().replace('name = "clerk"', 'name = "clerk"\n    tool_call_limit = 1'))
    status, output = outcome()
    assert (status, "unused steps of the script" in output or "assert" in output) == (1, True)


@pytest.mark.parametrize("path", ["no/such/folder.py"])
def test_a_file_that_cannot_be_written_is_refused(cli: Cli, shop: Shop, path: str) -> None:
    run = shop("clerk", "lookup")
    assert_refused(cli("runs", "test", run, *APP, "--db", "runs.db", "--save", path), "cannot be written")
