"""On a terminal: the live tree, the rendered report and questions back; hostile text never controls it."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from concertino import AgentConfig, Chat, Resources, Runtime, Scope, SqliteStore
from concertino.cli.render.console import Console
from concertino.cli.render.format import one_line, safe
from concertino.errors import BadRequestError
from concertino.messages import UserMessage
from concertino.providers.base import Model, ModelRequest
from concertino.testing import ScriptedModel, call
from concertino.testing.scripted import Answer
from tests.cli.conftest import APP, Cli, Completed, Shop

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202egnp.exe\u2066"
RESEARCH = ("research", "What are apples?", "--corpus", "pages")


@pytest.fixture
def terminal(cli: Cli) -> Callable[..., Completed]:
    """Call the program on a terminal; *width* and *term* describe it."""

    def run(*arguments: str, width: int = 80, term: str = "xterm-256color", typed: str = "", **env: str) -> Completed:
        size = {"COLUMNS": str(width), "LINES": "24", "TERM": term}
        return cli(*arguments, env=size | env, given=typed, terminal=True)

    return run


def text_of(done: Completed) -> str:
    return _ESCAPE.sub("", done.stdout + done.stderr)


def assert_harmless(done: Completed) -> None:
    """Check that only escape sequences of this program reach the terminal."""
    everything = done.stdout + done.stderr
    left = _ESCAPE.sub("", everything)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", left)
    assert "\x1b[31mred" not in everything


def test_the_run_is_a_tree_and_the_report_is_rendered(terminal: Callable[..., Completed], corpus: Path) -> None:
    done = terminal(*RESEARCH)
    text = text_of(done)
    assert done.returncode == 0
    assert "✓ supervisor" in text
    assert "├── ✓ researcher-1" in text or "└── ✓ researcher-1" in text
    assert "total · " in text
    assert "## " not in text
    assert "red fruits" in text
    assert "stored in" in text


def test_a_dumb_terminal_gets_plain_lines(terminal: Callable[..., Completed], corpus: Path) -> None:
    done = terminal(*RESEARCH, term="dumb")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "supervisor: started" in done.stderr
    assert "# What are apples" in done.stdout


def test_no_color_removes_the_colours(terminal: Callable[..., Completed], corpus: Path) -> None:
    done = terminal(*RESEARCH, NO_COLOR="1")
    assert done.returncode == 0
    assert not re.search(r"\x1b\[(?:\d+;)*[34]\d(?:;\d+)*m", done.stdout + done.stderr)


def test_a_conversation_with_a_prompt(terminal: Callable[..., Completed], corpus: Path) -> None:
    done = terminal("chat", "--corpus", "pages", typed="What are apples?\n/quit\n")
    assert done.returncode == 0
    assert text_of(done).count("you> ") == 2
    assert "red fruits" in text_of(done)


def test_the_model_may_ask_back_once(
    terminal: Callable[..., Completed], corpus: Path, use_model: Callable[[Model], None]
) -> None:
    def report(request: ModelRequest) -> object:
        answer = [message.text for message in request.messages if isinstance(message, UserMessage)][-1]
        return call("report_generation", title="Report", markdown=f"You want {answer}.")

    use_model(ScriptedModel(call("feedback_questions", questions=["Which fruit?", "How long?"]), report))
    done = terminal(*RESEARCH, typed="pears, briefly\n")
    text = text_of(done)
    assert "1. Which fruit?" in text
    assert "2. How long?" in text
    assert "your answer> " in text
    assert "You want pears, briefly." in text
    assert done.returncode == 0


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_stored_text_cannot_control_the_terminal(terminal: Callable[..., Completed], shop: Shop, term: str) -> None:
    run = shop("clerk", f"refund {HOSTILE}\nbroken")
    for arguments in (
        ("runs", "list"),
        ("runs", "show", run),
        ("runs", "approve", f"{run}:1.0", "--by", "ann", "--resume", *APP),
        ("runs", "show", run),
        ("runs", "export", run),
        ("usage", "--by", "agent"),
    ):
        done = terminal(*arguments, "--db", "runs.db", term=term)
        assert done.returncode == 0
        assert_harmless(done)
        if term == "dumb":
            assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_hostile_model_cannot_control_the_terminal(
    terminal: Callable[..., Completed], corpus: Path, use_model: Callable[[Model], None], term: str
) -> None:
    use_model(
        ScriptedModel(
            Answer(text=f"I search. {HOSTILE}", calls=(call("search_documents", query=f"apples {HOSTILE}"),)),
            Answer(text=f"# Red {HOSTILE}\n\n`{HOSTILE}` [link {HOSTILE}](http://x/{HOSTILE})"),
        )
    )
    done = terminal("chat", f"What? {HOSTILE}", "--corpus", "pages", "--db", "runs.db", term=term)
    assert done.returncode == 0
    assert_harmless(done)


def test_printed_text_is_always_safe(capsys: pytest.CaptureFixture[str]) -> None:
    Console(as_json=False).print(Text(f"before {HOSTILE} after", "bold"))
    out = capsys.readouterr().out
    assert out.startswith("before ")
    assert out.endswith(" after\n")
    assert_harmless(Completed(0, out, ""))


INVISIBLE = [
    *("\x00", "\x07", "\x1b", "\x7f", "\x9b", "\xad", "\u061c", "\u200b", "\u200e", "\u2028", "\u2029", "\u202e"),
    *("\u2060", "\u2066", "\u2069", "\ufeff", "\U000e0041"),
]


@pytest.mark.parametrize("char", INVISIBLE, ids=ascii)
def test_what_is_invisible_has_a_visible_escape(char: str) -> None:
    assert safe(f"a{char}b") == f"a{ascii(char)[1:-1]}b"
    assert one_line(f"/srv/{char}data") == f"/srv/{ascii(char)[1:-1]}data"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("क्\u200cष", "क्\u200cष"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("pay\u200dpal", "pay\\u200dpal"),
        ("é\u200cx", "é\\u200cx"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("日本語 é 🍎", "日本語 é 🍎"),
    ],
)
def test_joiners_stay_between_the_characters_that_need_them(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text())
def test_nothing_printed_controls_a_terminal(text: str) -> None:
    assert all(char in "\n\t" or unicodedata.category(char) != "Cc" for char in safe(text))
    assert not set(safe(text)) & set("\u200b\u2028\u2029\u202e\u2066\u2069\x7f")
    assert "\n" not in one_line(text)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_pipe_gets_control_characters_only_if_it_asks_for_them(
    cli: Cli, corpus: Path, use_model: Callable[[Model], None], terminal: bool
) -> None:
    for options, raw in (((), False), (("--raw",), not terminal)):
        use_model(ScriptedModel(f"Red {HOSTILE}"))
        done = cli("chat", "What?", "--corpus", "pages", *options, terminal=terminal, env={"TERM": "dumb"})
        assert (HOSTILE in done.stdout) is raw
        assert ("\\x1b]0;owned\\x07" in done.stdout) is not raw
        assert "\x1b" not in done.stderr


def test_an_invented_tool_name_is_not_printed(
    cli: Cli, corpus: Path, tmp_path: Path, use_model: Callable[[Model], None], caplog: pytest.LogCaptureFixture
) -> None:
    use_model(ScriptedModel(call(f"no{HOSTILE}such"), "Red."))
    done = cli("chat", "What?", "--corpus", "pages", "--db", "runs.db")
    exported = cli(
        "runs",
        "export",
        json.loads(cli("runs", "list", "--json", "--db", "runs.db").stdout)["run_id"],
        "--db",
        "runs.db",
    )
    for text in (done.stdout, done.stderr, exported.stdout, caplog.text):
        assert "owned" not in text
    assert "unknown_tool" in done.stderr
    assert b"owned" not in (tmp_path / "runs.db").read_bytes()


def test_a_link_shows_its_real_host(
    terminal: Callable[..., Completed], corpus: Path, use_model: Callable[[Model], None]
) -> None:
    use_model(ScriptedModel("See [https://bank.example](https://evil.example/x)."))
    done = terminal("chat", "What?", "--corpus", "pages")
    assert "https://bank.example (https://evil.example/x)" in text_of(done)
    assert "\x1b]8" not in done.stdout


def test_every_line_of_the_lists_fits_the_terminal(terminal: Callable[..., Completed], shop: Shop) -> None:
    from rich.cells import cell_len

    run = shop("clerk", "lookup " + "日本語の質問 " * 20)
    for width in (80, 120):
        done = terminal("runs", "list", "--db", "runs.db", width=width)
        lines = text_of(done).splitlines()
        assert any(run in line for line in lines)  # an id is never shortened
        assert any(line.endswith("…") for line in lines)
        assert all(cell_len(line) <= width for line in lines)


def test_erasing_asks(terminal: Callable[..., Completed], corpus: Path) -> None:
    terminal("chat", "What are apples?", "--corpus", "pages", "--db", "runs.db")
    done = terminal("runs", "erase", "--user", "nobody", "--db", "runs.db", typed="yes\n")
    assert "type yes to continue> " in text_of(done)
    assert "erased 0 runs and 0 memories of user 'nobody'" in text_of(done)
    assert done.returncode == 0


async def _fail(path: str) -> str:
    """Store a run whose owner, conversation, model, task and error are hostile, and return its id."""
    async with await SqliteStore.open(Path(path)) as store:
        model = ScriptedModel(BadRequestError(f"no {HOSTILE}", provider="scripted"), name=f"m {HOSTILE}")
        runtime = Runtime([AgentConfig()], Resources(model=model, store=store))
        scope = Scope(f"acme {HOSTILE}", f"ann {HOSTILE}")
        run = await runtime.start(Chat(f"do {HOSTILE}", scope=scope, conversation_id=f"c {HOSTILE}"), "agent")
        result = await run.result()
        assert (result.status, HOSTILE in str(result.error)) == ("failed", True)
        await runtime.close()
        return run.id


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_names_and_errors_cannot_control_the_terminal(terminal: Callable[..., Completed], term: str) -> None:
    run = asyncio.run(_fail("runs.db"))
    for arguments in (
        ("runs", "list"),
        ("runs", "list", "--json"),
        ("runs", "show", run),
        ("runs", "export", run),
        ("usage", "--by", "user,tenant,model,agent"),
        ("usage", "--by", "agent", "--run", run),
    ):
        done = terminal(*arguments, "--db", "runs.db", term=term)
        assert done.returncode == 0, done.stderr
        assert "owned" in done.stdout or arguments[:2] == ("usage", "--by")
        assert_harmless(done)
    for wrong in (
        ("runs", "show", f"run_{HOSTILE}"),
        ("runs", "list", "--state", HOSTILE),
        ("runs", "approve", f"{run}:1.0 {HOSTILE}"),
        ("runs", "stop", f"run_{HOSTILE}"),
        ("runs", "stop", run),
        ("runs", HOSTILE),
        ("usage", "--by", HOSTILE),
    ):
        done = terminal(*wrong, "--db", "runs.db", term=term)
        assert done.returncode != 0
        assert_harmless(done)
