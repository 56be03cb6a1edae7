"""`concertino runs resume` and `fork` in another process than the run's first."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Cli, Shop


def listed(cli: Cli, *options: str) -> list[dict[str, Any]]:
    done = cli("runs", "list", "--json", "--db", "runs.db", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_fork_continues_from_a_step(shop: Shop, cli: Cli) -> None:
    shop("clerk", "lookup\nlookup\nbroken")
    (run,) = listed(cli)
    done = cli("runs", "fork", run["run_id"], "--step", "3", "--app", "shop:make_runtime", "--db", "runs.db")
    assert done.returncode == 0
    assert done.stdout.startswith("Answer: tea is 7; tea is 7; ValueError: no ")
    fork, _ = listed(cli)
    assert fork["forked_from"] == run["run_id"]
    shown = json.loads(cli("runs", "show", fork["run_id"], "--db", "runs.db", "--json").stdout)
    assert [step["step"] for step in shown["timeline"]] == [3, 4]
    assert shown["cost"] == "0.000000030"
    for step, says in (("9", "has no step 9"), ("0", "greater than or equal to 1"), ("x", "valid integer")):
        done = cli("runs", "fork", run["run_id"], "--step", step, "--app", "shop:make_runtime", "--db", "runs.db")
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
    assert len(listed(cli)) == 2


def test_an_unknown_agent_needs_an_app(shop: Shop, cli: Cli) -> None:
    shop("clerk", "supplier")
    (run,) = listed(cli)
    done = cli("runs", "resume", run["run_id"], "--db", "runs.db")
    assert done.returncode == 2
    assert "agent 'clerk'" in done.stderr
    assert "--app" in done.stderr
