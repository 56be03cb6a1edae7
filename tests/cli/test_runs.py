"""`concertino runs` and `concertino usage` over runs of a product's own agents."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR
from concertino.storage.sqlite import SqliteStore
from tests.cli.conftest import APP, Cli, Shop, assert_refused, run_object

# -- list and show ---------------------------------------------------------------------------------------------------


def test_list_is_a_table_newest_first(shop: Shop, runs: Cli) -> None:
    first, second = shop("clerk", "lookup"), shop("chief", "clerk \x1b]0;owned\x07 " + "x" * 300)
    done = runs("list")
    assert done.returncode == 0
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["RUN", "STARTED", "(UTC)", "STATE", "STEPS", "COST", "AGENT", "TASK"]
    assert [line.split()[0] for line in lines] == [second, first]
    assert "suspended" in lines[0]
    assert lines[0].endswith("x" * 300)
    assert lines[1].endswith("  completed      2  <$0.0001  clerk  lookup")
    assert len(runs("list", "--all").stdout.splitlines()) == 4
    assert len(runs("list", "--limit", "1").stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 2),
        (("--user", "Zoë"), 0),
        (("--tenant", "shop"), 2),
        (("--tenant", "other"), 0),
        (("--tenant", "shop", "--user", "Zoë"), 2),
        (("--tenant", "shop", "--user", "zoe"), 0),
        (("--conversation", "conv_1"), 2),
        (("--conversation", "conv_2"), 0),
        (("--state", "suspended"), 1),
        (("--state", "completed", "--tenant", "shop", "--user", "Zoë", "--conversation", "conv_1"), 1),
        (("--state", "running"), 0),
        (("--state", "interrupted"), 0),
        (("--state", "suspended", "--all"), 2),
        (("--limit", "1"), 1),
    ],
)
def test_list_filters_runs(shop: Shop, runs: Cli, options: tuple[str, ...], count: int) -> None:
    shop("clerk", "lookup")
    shop("chief", "clerk")
    done = runs("list", "--json", *options)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, len(found)) == (0, count)
    assert all((one["tenant"], one["user"]) == ("shop", "Zoë") for one in found)


def test_show_reports_a_suspended_run(shop: Shop, runs: Cli) -> None:
    run = shop("clerk", "lookup\nbroken refund supplier")
    done = runs("show", run)
    assert done.returncode == 0
    for part in (
        f"{run}  suspended",
        "user     Zoë, of shop, conv_1",
        "budget   run: 30 of 1,000,000 tokens and <$0.0001 of $2.50 spent",
        'done       lookup {"name": "tea"}',
        'failed     broken {"name": "cup"}\n                 ValueError: no \\x1b[31mcup',
        'waiting    refund {"amount": 5, "to": "Jürgen ',
        'waiting    supplier {"question": "when?"}',
        "suspended  every open call waits",
        "who       ann, Bö",
        f"concertino runs approve {run}:2.1 --by ann --db runs.db\n",
        f"concertino runs resolve {run}:2.2 RESULT --db runs.db\n",
        "until     no deadline",
    ):
        assert part in done.stdout
    found = run_object(runs, run)
    assert (found["state"], found["steps"], found["cost"], found["tokens"]) == ("suspended", 2, "0.000000030", 30)
    assert [call["state"] for call in found["timeline"][1]["calls"]] == ["failed", "waiting", "waiting"]
    assert [(wait["tool"], wait["waits_for"]) for wait in found["waits"]] == [
        ("refund", "approval"),
        ("supplier", "result"),
    ]
    assert json.loads(found["waits"][0]["arguments"])["to"] == "Jürgen \x1b[31m🍎"
    (account,) = found["accounts"]
    assert (Decimal(account["money"]), account["spent_money"]) == (Decimal("2.50"), "0.000000030")


def test_show_draws_the_tree_of_agents(shop: Shop, runs: Cli) -> None:
    run = shop("chief", "lookup clerk clerk")
    found = run_object(runs, run)
    assert [one["agent_path"] for one in found["agents"]] == ["chief", "chief/clerk-1", "chief/clerk-2"]
    assert found["tokens"] == sum(one["tokens"] for one in found["agents"]) == 45
    child = found["agents"][1]["run_id"]
    assert found["waits"][0]["run_id"] == child
    text = runs("show", run).stdout
    assert "\n  clerk-2" in text or "\nclerk-2" in text
    below = run_object(runs, child)
    assert (below["tokens"], len(below["agents"]), len(below["waits"])) == (15, 1, 1)
    assert f"part of  {run}" in runs("show", child).stdout


def test_erased_content_is_shown_as_erased(shop: Shop, runs: Cli) -> None:
    run = shop("vault", "refund lookup broken")
    before = run_object(runs, run)
    # Hidden even before it is erased; but a person who approves a call must see its arguments.
    assert [call["arguments"] for call in before["timeline"][0]["calls"]] == [None, None, None]
    assert "Jürgen" in before["waits"][0]["arguments"]
    assert before["task"] == "[redacted]"
    assert "Jürgen" not in runs("export", run).stdout
    assert runs("deny", f"{run}:1.0", "--by", "ann", "--resume", *APP).returncode == 0
    done = runs("show", run)
    assert done.returncode == 0
    assert "approval   denied by ann after " in done.stdout
    assert "The data policy has erased parts of this run" in done.stdout
    found = run_object(runs, run)
    assert found["erased"]
    assert (found["task"], found["answer"]) == ("[redacted]", "[redacted]")
    calls = {call["name"]: call for call in found["timeline"][0]["calls"]}
    assert [wait["verdict"] for wait in calls["refund"]["waits"]] == ["denied"]
    assert (calls["refund"]["state"], calls["refund"]["arguments"]) == ("failed", None)
    assert calls["broken"]["state"] == "failed"
    for command in (("fork", run, "--step", "1"), ("resume", run)):
        assert_refused(runs(*command, *APP), "erased" if command[0] == "fork" else "has ended")


# -- answers ---------------------------------------------------------------------------------------------------------


def test_only_the_first_approval_counts(shop: Shop, runs: Cli) -> None:
    run = shop("clerk", "refund")
    key = f"{run}:1.0"
    done = runs("approve", key, "--by", "Bö", "--arguments", '{"amount": 3, "to": "é"}')
    assert done.returncode == 0
    assert f"{key}: approved by Bö at " in done.stdout
    assert done.stderr == f"to continue: concertino runs resume {run} --db runs.db --app MODULE:NAME\n"
    assert run_object(runs, run)["state"] == "suspended"
    assert "All answers have arrived" in runs("show", run).stdout
    for late in (("approve", key, "--by", "ann"), ("deny", key, "--by", "ann")):
        assert_refused(runs(*late), "was already answered: approved by Bö", status=1)
    found = json.loads(runs("deny", key, "--by", "ann", "--json").stdout)
    assert (found["first"], found["verdict"], found["by"]) == (False, "approved", "Bö")
    done = runs("resume", run, *APP)
    assert (done.returncode, done.stdout) == (0, "Answer: paid 3\n")
    assert_refused(runs("approve", key, "--by", "ann"), "was already answered", status=1)


def test_a_run_continues_with_the_result_of_a_call(shop: Shop, runs: Cli) -> None:
    run = shop("clerk", "supplier supplier")
    done = runs("resolve", f"{run}:1.0", "-", given="Montag é\n")
    assert done.returncode == 0
    assert "1 other call of the run still waiting" in done.stderr
    done = runs("resolve", f"{run}:1.1", "too \x1b[31mlate", "--failed", "--by", "post", "--resume", *APP, "--json")
    first, outcome = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["first"], first["verdict"], first["by"]) == (True, "failed", "post")
    assert (done.returncode, outcome["status"]) == (0, "completed")
    assert outcome["report"] == "Answer: Montag é\n; too \x1b[31mlate"
    assert "failed     supplier" in runs("show", run).stdout


def test_a_run_that_waits_again_names_its_waits(shop: Shop, runs: Cli) -> None:
    run = shop("clerk", "refund supplier\nrefund")
    done = runs("approve", f"{run}:1.0", "--by", "ann", "--resume", *APP)
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    assert lines[-1].startswith(f"suspended in runs.db (run {run})")
    assert any(f"concertino runs resolve {run}:1.1 RESULT" in line for line in lines)
    done = runs("resolve", f"{run}:1.1", "x", "--resume", *APP, "--json")
    assert done.returncode == 3
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["status"] == "suspended"
    assert outcome["waiting"] == [{"key": f"{run}:2.0", "kind": "approval", "tool": "refund"}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("approve", "RUN:1.0", "--by", "eve"), "'eve' may not answer RUN:1.0; those who may: ann, Bö"),
        (("approve", "RUN:1.0", "--by", ""), "'' may not answer"),
        (("approve", "RUN:1.0", "--by", "ann", "--arguments", "{"), "--arguments is not JSON"),
        (("approve", "RUN:1.0", "--by", "ann", "--arguments", "[1]"), "must be a JSON object"),
        (("approve", "RUN:1.0", "--by", "ann", "--arguments", "[" * 100_000), "--arguments is not JSON"),
        (("approve", "RUN:9.9", "--by", "ann"), "no call waits under 'RUN:9.9'"),
        (("approve", ""), "no call waits under ''"),
        (("approve", "RUN:1.1"), "use resolve"),
        (("deny", "RUN:1.1", "--reason", "no"), "use resolve"),
        (("resolve", "RUN:1.0", "x"), "use approve or deny"),
        (("resolve", "run_x:1.0", "x"), "no call waits"),
        (("resolve", "nonsense", "x"), "no call waits"),
        (("approve", "RUN:1.0", "--by", "ann", "--resume"), "agent 'clerk'"),
        (("resume", "run_x"), "no run 'run_x'"),
        (("resume", "\x1b[31m"), "no run"),
        (("show", "run_x"), "concertino runs list --all --db runs.db"),
        (("export", "run_x"), "no run 'run_x'"),
        (("stop", "run_x"), "no run 'run_x'"),
        (("fork", "run_x", "--step", "1"), "no run 'run_x'"),
        (("list", "--state", "asleep"), "invalid --state 'asleep': choose from running, interrupted, suspended"),
        (("erase", "--tenant", "shop", "--user", "Zoë", "--yes"), "has not ended"),
        (("erase", "--user", "", "--yes"), "neither may be empty"),
        (("erase", "--yes"), "erase needs --user, --tenant or both"),
    ],
)
def test_invalid_input_is_refused_in_one_line(shop: Shop, runs: Cli, arguments: tuple[str, ...], says: str) -> None:
    run = shop("clerk", "refund supplier")
    done = runs(*(argument.replace("RUN", run) for argument in arguments))
    assert_refused(done, says.replace("RUN", run))
    assert len(run_object(runs, run)["waits"]) == 2


def test_wrong_usage(cli: Cli) -> None:
    for arguments in (
        ["nonsense"],
        ["show"],
        ["resolve", "key"],
        ["list", "--limit", "0"],
        ["stop", "r", "--deadline", "x"],
    ):
        assert cli("runs", *arguments).returncode == 2
    assert "resume" in cli("runs", "--help").stdout


def test_an_overdue_wait_expires(shop: Shop, runs: Cli, tmp_path: Path) -> None:
    run = shop("clerk", "refund")
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("UPDATE operations SET expires = ?", (time.time() - 1,))
    connection.commit()
    connection.close()
    assert_refused(runs("approve", f"{run}:1.0", "--by", "ann"), "was already answered: expired", status=1)
    done = runs("resume", run, *APP)
    assert (done.returncode, done.stdout) == (0, "Answer: approval timed out\n")


def test_a_suspended_run_is_stopped(shop: Shop, runs: Cli) -> None:
    run = shop("chief", "clerk")
    child = run_object(runs, run)["agents"][1]["run_id"]
    assert_refused(runs("stop", child), "is a sub-agent's", run)
    done = runs("stop", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{run} stopped\n")
    found = run_object(runs, run)
    assert (found["state"], found["waits"]) == ("cancelled", [])
    assert_refused(runs("approve", f"{child}:1.0", "--by", "ann"), "was already answered: cancelled", status=1)


# -- export, erase, usage --------------------------------------------------------------------------------------------


def test_export_is_the_whole_tree(shop: Shop, runs: Cli) -> None:
    run = shop("chief", "lookup clerk")
    child = run_object(runs, run)["agents"][1]["run_id"]
    done = runs("export", run)
    assert done.returncode == 0
    assert runs("export", child).stdout == done.stdout
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["kind"] for line in lines]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "run": 2,
        "entry": sum(line["entries"] for line in lines if line["kind"] == "run"),
        "message": kinds.count("message"),
        "usage": 2,
        "wait": 1,
    }
    assert [line["run_id"] for line in lines if line["kind"] == "run"] == [run, child]
    assert {line["cost"] for line in lines if line["kind"] == "usage"} == {"0.000000015"}


def test_erase_asks_first_and_keeps_the_ledger(shop: Shop, runs: Cli, cli: Cli) -> None:
    run = shop("clerk", "lookup")
    for answer in ("", "no\n"):
        done = runs("erase", "--tenant", "shop", "--user", "Zoë", given=answer)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == "concertino: nothing was erased; --yes erases without asking"
    assert run_object(runs, run)["task"] == "lookup"
    assert runs("erase", "--user", "Zoë", "--tenant", "other", "--yes").stdout.startswith(
        "erased 0 runs and 0 memories of"
    )
    done = runs("erase", "--tenant", "shop", "--user", "Zoë", given="yes\n")
    assert (done.returncode, done.stdout) == (0, "erased 1 run and 0 memories of user 'Zoë' of tenant 'shop'\n")
    done = runs("show", run)
    assert done.returncode == 0
    assert "lookup" not in done.stdout
    assert "Zoë" not in done.stdout
    assert "erased" in done.stdout
    found = run_object(runs, run)
    assert (found["task"], found["user"], found["cost"]) == ("", "", "0.000000030")
    assert runs("export", run).returncode == 0
    assert_refused(runs("fork", run, "--step", "1", *APP), "erased")
    done = cli("usage", "--by", "user", "--db", "runs.db")
    assert done.stdout.splitlines()[1].split()[:2] == ["shop", "(none)"]
    again = runs("erase", "--tenant", "shop", "--user", "Zoë", "--yes", "--json")
    assert json.loads(again.stdout) == {"tenant": "shop", "user": "Zoë", "runs": 0, "memories": 0}


def usage(cli: Cli, *options: str) -> list[dict[str, Any]]:
    done = cli("usage", "--db", "runs.db", "--json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_usage_is_summed_exactly(shop: Shop, cli: Cli) -> None:
    run = shop("chief", "clerk")
    shop("clerk", "lookup")
    *sums, total = usage(cli, "--by", "agent", "--by", "tenant")
    assert [(one["by"]["agent"], one["cost"]) for one in sums] == [
        ("chief", "0.000000015"),
        ("chief/clerk-1", "0.000000015"),
        ("clerk", "0.000000030"),
    ]
    assert {one["by"]["tenant"] for one in sums} == {"shop"}
    nothing = {"cached": 0, "cache_write": 0, "reasoning": 0, "cache_write_1h": 0}
    assert total == {
        "by": {},
        "total": True,
        "attempts": 4,
        "tokens": {"prompt": 40, "completion": 20, **nothing},
        "unknown_tokens": {"prompt": 0, "completion": 0, **nothing},
        "cost": "0.000000060",
        "estimated": 0,
        "unknown": 0,
        "unpriced": 0,
    }
    assert usage(cli, "--by", "run,day")[0]["by"]["run"] == run
    assert [one["by"] for one in usage(cli)] == [{"model": "shop:follows"}, {}]
    lines = cli("usage", "--db", "runs.db", "--by", "user").stdout.splitlines()
    assert lines[0].split() == ["TENANT", "USER", "ATTEMPTS", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert lines[1].split() == ["shop", "Zoë", "4", "40", "0", "20", "<$0.0001"]
    assert lines[2].split() == ["total", "4", "40", "0", "20", "<$0.0001"]


def test_usage_within_dates(shop: Shop, cli: Cli) -> None:
    shop("clerk", "lookup")
    day = time.strftime("%Y-%m-%d", time.gmtime())
    assert usage(cli, "--since", day, "--until", day)[-1]["attempts"] in (0, 2)  # 0: it is midnight just now
    assert usage(cli, "--until", "2026-01-01")[-1]["attempts"] == 0
    assert usage(cli, "--since", "2026-01-01T00:00+01:00")[-1]["attempts"] == 2
    for options, says in (
        (("--since", "yesterday"), "invalid --since 'yesterday': use a date"),
        (("--until", "9999-12-31"), "invalid --until '9999-12-31'"),
        (("--until", "2026-13-01"), "invalid --until"),
        (("--since", "2026-02-01", "--until", "2026-01-01"), "is not before"),
        (("--by", "moon"), "invalid --by 'moon': choose from run, agent"),
        (("--by", ""), "choose from run, agent"),
    ):
        assert_refused(cli("usage", "--db", "runs.db", *options), says)


def test_usage_counts_unknown_figures(shop: Shop, cli: Cli, tmp_path: Path) -> None:
    shop("clerk", "lookup\nlookup")
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.execute("UPDATE usage SET source = 'unknown', cost = NULL WHERE booking = 1")
    connection.execute("UPDATE usage SET source = 'estimated' WHERE booking = 2")
    connection.commit()
    connection.close()
    lines = cli("usage", "--db", "runs.db").stdout.splitlines()
    assert lines[1].endswith("1 estimated, 1 unknown, 1 without a price")


def test_all_reports_leave_out_the_hints_of_unknown_usage(shop: Shop, runs: Cli, cli: Cli, tmp_path: Path) -> None:
    run = shop("clerk", "lookup\nlookup")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection, connection:
        connection.execute("UPDATE usage SET source = 'unknown', cost = NULL WHERE booking = 1")
    totals = [
        json.loads(cli("usage", "--db", "runs.db", "--json", *of).stdout.splitlines()[-1])
        for of in ((), ("--run", run))
    ]
    found = run_object(runs, run)
    step = found["timeline"][0]
    for one in totals:
        known, hinted = (
            sum(one[name][kind] for kind in ("prompt", "completion")) for name in ("tokens", "unknown_tokens")
        )
        assert (found["tokens"], found["unknown_tokens"]) == (known, hinted)
        assert (step["tokens"], step["unknown_tokens"]) == (0, hinted)
        assert known > 0 < hinted


# -- databases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("runs", "list"), ("runs", "show", "run_x"), ("usage",)])
def test_a_missing_database_is_not_created(cli: Cli, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert_refused(cli(*arguments, "--db", "nowhere.db"), "no database at nowhere.db")
    assert list(tmp_path.glob("nowhere*")) == []
    assert_refused(cli(*arguments), "concertino.db", "--db")


async def _create(path: Path) -> None:
    await (await SqliteStore.open(path)).close()


def test_an_empty_database_has_no_runs(cli: Cli, tmp_path: Path) -> None:
    asyncio.run(_create(tmp_path / "runs.db"))
    done = cli("runs", "list", "--db", "runs.db")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no matching runs in runs.db\n")
    assert cli("runs", "list", "--db", "runs.db", "--json").stdout == ""
    lines = cli("usage", "--db", "runs.db").stdout.splitlines()
    assert lines[1].split() == ["total", "0", "0", "0", "0", "$0.00"]
    assert_refused(cli("runs", "show", "run_x", "--db", "runs.db"), "no run 'run_x'")


def test_another_file_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    assert_refused(cli("runs", "list", "--db", "file"), "not a SQLite database")
    assert_refused(cli("usage", "--db", str(tmp_path)), "no database at")


def test_a_read_only_database_can_be_inspected(
    shop: Shop, runs: Cli, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shop("clerk", "lookup\nrefund")
    database = tmp_path / "runs.db"
    before = database.read_bytes()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    for path in (database, tmp_path):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        assert run in runs("list").stdout
        assert "waiting    refund" in runs("show", run).stdout
        assert '"kind": "wait"' in runs("export", run).stdout
        assert "shop:follows" in cli("usage", "--db", "runs.db").stdout
    finally:
        for path in (database, tmp_path):
            path.chmod(path.stat().st_mode | 0o200)
    assert database.read_bytes() == before


# -- dead letters ----------------------------------------------------------------------------------------------------


def test_a_dead_letter_is_listed_and_retried(shop: Shop, runs: Cli, tmp_path: Path) -> None:
    run = shop("clerk", "refund")

    async def give_up() -> None:
        async with await SqliteStore.open(tmp_path / "runs.db") as store:
            stored = await store.run(OPERATOR, run)
            assert stored is not None
            await store.postpone(stored.start.scope, run, reason="its process ended 3 times", seconds=None)

    asyncio.run(give_up())
    (found,) = (json.loads(line) for line in runs("list", "--json", "--state", "dead_letter").stdout.splitlines())
    assert (found["run_id"], found["reason"]) == (run, "its process ended 3 times")
    text = runs("show", run).stdout
    assert f"{run}  dead_letter" in text
    assert "reason   its process ended 3 times" in text
    assert f"concertino runs retry {run} --db runs.db" in text
    done = runs("retry", run)
    assert (done.returncode, done.stdout) == (0, f"{run} can be resumed\n")
    assert done.stderr == f"to continue: concertino runs resume {run} --db runs.db --app MODULE:NAME\n"
    assert run_object(runs, run)["state"] != "dead_letter"
    assert_refused(runs("retry", run), run)
    assert_refused(runs("retry", "run_x"), "no run 'run_x'")
