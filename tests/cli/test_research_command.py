"""`concertino research`: its output on each stream, and what it stores."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli, stored_answers

TOKENS = {"prompt", "completion", "cached", "cache_write", "reasoning", "cache_write_1h"}


def citations(report: str) -> set[str]:
    return set(re.findall(r"\[([Ss][0-9a-f]+)\]", report))


def check_object(found: dict[str, Any]) -> None:
    """Check the invariants of every object that `--json` prints."""
    assert {"run_id", "status", "report", "sources", "usage", "totals", "tool_calls"} <= found.keys()
    assert citations(found["report"]) <= {source["id"] for source in found["sources"]}
    assert all(source.keys() == {"id", "title", "location"} for source in found["sources"])
    assert all({"agent_path", "model", "tokens", "cost"} <= record.keys() for record in found["usage"])
    assert found["totals"]["tokens"].keys() == TOKENS
    for kind in TOKENS:
        assert found["totals"]["tokens"][kind] == sum(record["tokens"][kind] for record in found["usage"])
    assert found["totals"]["cost"] == sum(record["cost"] for record in found["usage"])


def test_standard_output_has_only_the_report(cli: Cli, corpus: Path, database: Path) -> None:
    done = cli("research", "What are apples?", "--corpus", str(corpus))
    assert done.returncode == 0
    assert done.stdout.startswith("# ")
    assert "\x1b" not in done.stdout + done.stderr
    assert "red fruits" in done.stdout
    lines = done.stderr.splitlines()
    assert sum("no language model is involved" in line for line in lines) == 1
    assert any(line.startswith("supervisor: started: What are apples?") for line in lines)
    assert any(line.startswith("supervisor/researcher-1: search_documents") for line in lines)
    assert any(re.match(r"supervisor: completed: \d+ tool calls, [\d,]+ tokens, \$0\.00, ", line) for line in lines)
    assert re.fullmatch(rf"stored in {re.escape(str(database))} as run_\w+", lines[-1])


def test_json_is_one_object_with_consistent_sums(cli: Cli, corpus: Path, database: Path) -> None:
    done = cli("research", "What are apples, and what do pears need?", "--corpus", str(corpus), "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    check_object(found)
    assert found["status"] == "completed"
    assert found["error"] is None
    assert citations(found["report"])
    assert found["tool_calls"]["supervisor"] >= 2
    assert any(path.startswith("supervisor/researcher-") for path in found["tool_calls"])
    with sqlite3.connect(database) as connection:
        booked = connection.execute("SELECT count(*) FROM usage").fetchone()[0]
    connection.close()
    assert stored_answers(database)["supervisor"] == ("completed", found["report"])
    assert booked == len(found["usage"])


def test_a_question_can_come_from_standard_input(cli: Cli, corpus: Path) -> None:
    question = 'Ünï 🍎\nwhat are "apples"?'
    done = cli("research", "-", "--corpus", str(corpus), "--json", given=question)
    found = json.loads(done.stdout)
    check_object(found)
    assert found["question"] == question


def test_several_paths_may_follow_one_corpus_option(cli: Cli, corpus: Path) -> None:
    paths = [str(corpus / "apples.md"), str(corpus / "pears.md")]
    for arguments in (["Pears?", "--corpus", *paths], ["--corpus", *paths, "Pears?"]):
        done = cli("research", *arguments)
        assert done.returncode == 0
        assert "green fruits" in done.stdout


def test_escapes_in_a_page_reach_no_terminal_line(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "evil.md"
    page.write_text("# Evil \x1b]0;owned\x07\n\nAn apple is \x1b[31mred.\n")
    done = cli("research", "What is an apple \x1b[31m?", "--corpus", str(page))
    assert done.returncode == 0
    assert "\x1b" not in done.stderr


def test_json_survives_a_narrow_encoding(cli: Cli, corpus: Path) -> None:
    done = cli("research", "Äpples: apples?", "--corpus", str(corpus), "--json", encoding="ascii")
    assert json.loads(done.stdout)["question"] == "Äpples: apples?"
