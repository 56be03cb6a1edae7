"""Signals and failures: the run ends in an orderly way, and its results so far are printed and stored.

The model itself raises the signal in this process, so no test waits.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from concertino.errors import BadRequestError
from concertino.messages import ToolMessage
from concertino.providers.base import Model, ModelRequest
from concertino.testing import ScriptedModel, call
from concertino.testing.scripted import Answer
from tests.cli.conftest import Cli, stored_answers
from tests.cli.test_research_command import check_object

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are raised in this process")
UseModel = Callable[[Model], None]


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """Give the test the default signal handlers, also if its process ignores signals as `nohup` makes it do."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def reported() -> str:
    """Return what the running command has written to standard error."""
    written: bytes = sys.stderr.buffer.getvalue()  # type: ignore[attr-defined]  # replaced by `call_main`
    return written.decode()


def interrupted_research(number: int) -> ScriptedModel:
    """Return a model of two researchers: the second receives the signal once the first is reported as completed."""

    async def receive() -> None:
        while "researcher-1: completed" not in reported():  # noqa: ASYNC110 - the output has no event
            await asyncio.sleep(0.01)
        signal.raise_signal(number)
        await asyncio.Event().wait()

    def researcher(request: ModelRequest) -> Answer:
        if "wait" in str(request.messages[0]):
            return Answer(before=receive)
        results = [m.content for m in request.messages if isinstance(m, ToolMessage)]
        if not results:
            return Answer(calls=(call("read_document", location="pages/apples.md"),))
        source = results[0].partition("]")[0]
        return Answer(text=f"Apples are red {source}]. Without a source [s0000000000].")

    asked = (call("researcher", query="about apples"), call("researcher", query="wait"))
    return ScriptedModel(
        scripts={
            "You lead a research": [Answer(text="I ask two.", calls=asked)],
            "You are a researcher": [researcher] * 3,
        }
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_parks_the_run(
    cli: Cli, corpus: Path, tmp_path: Path, use_model: UseModel, number: signal.Signals
) -> None:
    use_model(interrupted_research(number))
    done = cli("research", "What is it?", "--corpus", "pages", "--db", "runs.db")
    assert done.returncode == 128 + number
    parked = re.fullmatch(
        r"parked in runs\.db \(run (run_\w+)\); to continue: concertino (runs resume \1 --corpus pages --db runs\.db)",
        done.stderr.splitlines()[-1],
    )
    assert parked
    states = {path: state for path, (state, _) in stored_answers(tmp_path / "runs.db").items()}
    assert states == {
        "supervisor": "running",
        "supervisor/researcher-1": "completed",
        "supervisor/researcher-2": "running",
    }
    listed = cli("runs", "list", "--json", "--db", "runs.db")
    assert [json.loads(line)["state"] for line in listed.stdout.splitlines()] == ["interrupted"]


def test_a_parked_run_is_resumed_by_the_printed_command(
    cli: Cli, corpus: Path, use_model: UseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def receive() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    use_model(ScriptedModel(Answer(text="So far. ", midway=receive)))
    first = cli("chat", "What is it?", "--corpus", "pages", "--db", "runs.db")
    command = first.stderr.splitlines()[-1].partition("to continue: concertino ")[2]
    model = ScriptedModel("It is red.")
    monkeypatch.setattr("concertino.wiring.Models.__init__.__defaults__", (lambda _: model,))
    done = cli(*command.split())
    assert (done.returncode, done.stdout) == (0, "It is red.\n")


def test_a_second_signal_cancels_the_run(cli: Cli, corpus: Path, tmp_path: Path, use_model: UseModel) -> None:
    async def receive() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)

    use_model(ScriptedModel(Answer(text="So far so good. ", midway=receive)))
    done = cli("chat", "What is it?", "--corpus", "pages", "--db", "runs.db")
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("stopped; its results so far are in runs.db (run run_")
    assert {state for state, _ in stored_answers(tmp_path / "runs.db").values()} == {"cancelled"}


def test_a_parked_run_is_still_one_json_object(cli: Cli, corpus: Path, use_model: UseModel) -> None:
    use_model(interrupted_research(signal.SIGINT))
    done = cli("research", "What is it?", "--corpus", "pages", "--db", "runs.db", "--json")
    assert done.returncode == 130
    found = json.loads(done.stdout)
    check_object(found)
    assert (found["status"], found["error"]) == ("suspended", None)


def test_a_signal_parks_a_resumed_run(cli: Cli, shop: Callable[[str, str], str], tmp_path: Path) -> None:
    run = shop("clerk", "refund\nmodel")
    approved = cli("runs", "approve", f"{run}:1.0", "--by", "ann", "--db", "runs.db")
    assert approved.returncode == 0
    done = cli("runs", "resume", run, "--app", "tests.cli.shop:make_interrupted", "--db", "runs.db")
    assert done.returncode == 130
    assert f"runs resume {run} --app tests.cli.shop:make_interrupted" in done.stderr.splitlines()[-1]
    assert {state for state, _ in stored_answers(tmp_path / "runs.db").values()} == {"running"}


def test_an_ignored_hangup_does_not_stop_the_run(cli: Cli, corpus: Path, use_model: UseModel) -> None:
    async def receive() -> None:
        signal.raise_signal(signal.SIGHUP)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    use_model(ScriptedModel(Answer(text="It is red.", before=receive)))
    done = cli("chat", "What is it?", "--corpus", "pages", "--db", "runs.db")
    assert (done.returncode, done.stdout) == (0, "It is red.\n"), done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_a_failed_run_names_its_error_and_keeps_its_results(
    cli: Cli, corpus: Path, tmp_path: Path, use_model: UseModel, as_json: bool
) -> None:
    use_model(ScriptedModel("I begin. ", Answer(text="So far. ", error=BadRequestError("the provider says\nno"))))
    done = cli("research", "What?", "--corpus", "pages", "--db", "runs.db", *(["--json"] if as_json else []))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("concertino: the run failed: BadRequestError: the provider says no")
    assert "runs.db" in last
    if as_json:
        found = json.loads(done.stdout)
        assert found["status"] == "failed"
        assert "the provider says" in found["error"]
    else:
        assert done.stdout == "So far.\n"
    assert stored_answers(tmp_path / "runs.db") == {"supervisor": ("failed", "So far. ")}
