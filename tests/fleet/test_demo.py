"""`make fleet` ends with a report, although a worker and a web process were killed."""

from __future__ import annotations

import re

import pytest

from .demo import main


@pytest.mark.slow
def test_the_demonstration(capfd: pytest.CaptureFixture[str]) -> None:
    main()
    shown = capfd.readouterr().out
    parts = dict(zip(*[iter(re.split(r"^=== (.+) ===$", shown, flags=re.MULTILINE)[1:])] * 2, strict=True))
    started = re.findall(r"  (\w+ \d) +process", parts["A fleet on one machine, from Python packages"])
    assert started == ["web 1", "web 2", "worker 1", "worker 2", "worker 3"]
    assert len(re.findall("^## How ", parts["The report"], re.MULTILINE)) == 3
    assert "## Sources" in parts["The report"]

    rows = [
        re.split("  +", line.partition(" s  ")[2]) for line in parts["The timeline by machine"].strip().splitlines()
    ]
    (killed,) = {row[0] for row in rows if row[-1] == "is killed, while a researcher waits for the model"}
    # On a slow machine, a worker that is alive may lose a run as well: its lease is short here.
    interrupted = [row[1] for row in rows if row[0] == killed and row[-1].endswith("no answer of the model")]
    assert interrupted
    (other,) = {"worker 2", "worker 3"} - {killed}
    assert rows[-1][0] == "web 2"
    assert [row for row in rows if row[0] == killed][-1] == [
        killed,
        "is killed, while a researcher waits for the model",
    ]
    assert [row for row in rows if row[0] == "web 1"][-1][1].startswith("is killed")
    assert all([other, path, text] in rows for path in interrupted for text in ("continues", "completed"))
    assert all(["worker 1", "supervisor", text] in rows for text in ("waits, in no process", "continues", "completed"))

    research = parts["The research, and two kills"]
    (last,) = re.findall(r"web 1 is killed, after a reader got event (\d+)", research)
    assert f"web 2 shows that reader the rest, events {int(last) + 1} to" in research
    assert all(re.search(rf"^{path} .*[1-9] unknown", parts["The bill"], re.MULTILINE) for path in interrupted)
