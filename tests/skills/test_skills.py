"""Skills are checked when they are loaded, read on demand, and run within limits and after an approval."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, Runtime, Scope, ToolOrchestrator
from concertino.agents import Skills
from concertino.errors import ConfigurationError
from concertino.messages import ToolMessage
from concertino.testing import ScriptedModel, call
from concertino.tools.skills import ScriptLimits, Skill, load_skills, skill_tools

ANN = Scope("acme", "ann")
FRONT = "---\nname: {name}\ndescription: >\n  Counts the words\n  of a text.\nlicense: MIT\n---\n"
BODY = "# Count words\n\nRun `scripts/count.py` with the text.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skill = tmp_path / "skills" / "count-words"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(FRONT.format(name="count-words") + BODY)
    (skill / "references.md").write_text("A word is between two spaces.")
    (skill / "picture.png").write_bytes(b"\x89PNG\0\0")
    (skill / "scripts" / "words.py").write_text("def count(text):\n    return len(text.split())\n")
    (skill / "scripts" / "count.py").write_text("import sys, words\nprint(words.count(sys.argv[1]))\n")
    return tmp_path / "skills"


def script(folder: Path, text: str, name: str = "go.py") -> None:
    (folder / "count-words" / "scripts" / name).write_text(text)


async def results(skills: Path, /, *calls: Any, **settings: Any) -> list[ToolMessage]:
    class Clerk(AgentConfig[Any]):
        name = "clerk"
        parts = (Skills(load_skills(skills), approve=False, **settings),)

    with ScriptedModel(list(calls), "Done.") as model:
        result = await ToolOrchestrator(Chat("Go.", model=model), Clerk()).run()
    assert "- count-words: Counts the words of a text." in model.requests[0].system
    return [message for message in result.messages if isinstance(message, ToolMessage)]


async def go(folder: Path, **limits: Any) -> ToolMessage:
    limits = {"seconds": 120, **limits}
    (message,) = await results(
        folder, call("run_skill_script", name="count-words", file="scripts/go.py"), scripts=ScriptLimits(**limits)
    )
    return message


async def test_the_body_and_the_files_are_read_on_demand(folder: Path) -> None:
    loaded, text, picture, unknown = await results(
        folder,
        call("load_skill", name="count-words"),
        call("read_skill_file", name="count-words", file="references.md"),
        call("read_skill_file", name="count-words", file="picture.png"),
        call("load_skill", name="other"),
    )
    files = "picture.png, references.md, scripts/count.py, scripts/words.py"
    assert loaded.content == f"{BODY.strip()}\n\nFiles: {files}"
    assert text.content == "A word is between two spaces."
    assert picture.content == "picture.png is not a text"
    assert unknown.content == "there is no skill 'other'; choose from count-words"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "link", "scripts", "", "a\0b"])
async def test_no_file_outside_the_skill_is_read_or_run(folder: Path, name: str) -> None:
    (folder / "secret").write_text("secret")
    (folder / "count-words" / "link").symlink_to(folder / "secret")
    turn = [call(tool, name="count-words", file=name) for tool in ("read_skill_file", "run_skill_script")]
    for message in await results(folder, *turn, scripts=ScriptLimits()):
        assert message.is_error
        assert "has no file" in message.content
        assert "secret'" not in message.content.partition("its files are")[2]


async def test_a_script_runs_with_its_modules_and_arguments(folder: Path) -> None:
    (message,) = await results(
        folder,
        call("run_skill_script", name="count-words", file="scripts/count.py", arguments=["a b; echo c"]),
        scripts=ScriptLimits(),
    )
    assert message.content == "4\n"


async def test_a_script_needs_an_approval_and_a_setting(folder: Path) -> None:
    skills = load_skills(folder)
    assert [tool.name for tool in Skills(skills).tools] == ["load_skill", "read_skill_file"]

    class Clerk(AgentConfig[Any]):
        name = "clerk"
        parts = (Skills(skills, scripts=ScriptLimits()),)

    turn = call("run_skill_script", name="count-words", file="scripts/count.py", arguments=["a"])
    runtime = Runtime([Clerk()], Resources(model=ScriptedModel(turn, "Done.")), store=MemoryStore())
    run = await runtime.start(Chat("Go.", scope=ANN), "clerk")
    (wait,) = (await run.result()).waiting
    assert wait.kind == "approval"
    await runtime.approve(ANN, wait.key)
    result = await (await runtime.resume(ANN, run.id)).result()
    assert result.messages[2].content == "1\n"


async def test_a_script_has_no_network_and_no_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    script(folder, "import os, socket\nprint(sorted(os.environ))\nprint([name for _, name in socket.if_nameindex()])\n")
    shown = (await go(folder)).content
    assert "SECRET_KEY" not in shown
    assert "['lo']" in shown
    allowed = (await go(folder, network=True)).content
    assert "['lo']" not in allowed or [name for _, name in __import__("socket").if_nameindex()] == ["lo"]


@pytest.mark.parametrize(
    ("text", "limits", "shown"),
    [
        ("while True: pass", {"cpu_seconds": 1}, "exit code 137"),
        ("import time\ntime.sleep(3_600)", {"seconds": 1}, "did not end within 1 s"),
        ("x = bytearray(10**9)", {"megabytes": 300}, "MemoryError"),
        ("open('x', 'wb').write(b'x' * 2_000_000)", {"file_megabytes": 1}, "File too large"),
        ("import sys\nprint('so far')\nsys.exit(3)", {}, "exit code 3\nso far"),
    ],
)
async def test_a_script_ends_at_its_limits(folder: Path, text: str, limits: dict[str, Any], shown: str) -> None:
    script(folder, text)
    message = await go(folder, **limits)
    assert message.is_error
    assert shown in message.content


async def test_a_long_output_loses_its_middle(folder: Path) -> None:
    script(folder, "print('begin' + 'x' * 10**6 + 'end')")
    content = (await go(folder)).content
    assert len(content) < 300_000
    assert content.startswith("begin")
    assert content.endswith("end\n")


async def test_the_children_of_a_script_end_with_it(folder: Path) -> None:
    script(folder, "import subprocess\nprint(subprocess.Popen(['sleep', '3600']).pid)")
    started = await go(folder, network=True)  # in a namespace, it would have another pid
    status = Path(f"/proc/{started.content.strip()}/status").read_text
    with suppress(OSError):
        while "State:\tZ" not in status():  # noqa: ASYNC110 - the kernel ends it
            await asyncio.sleep(0.01)


async def test_a_script_works_in_the_products_folder(folder: Path, tmp_path: Path) -> None:
    script(folder, "open('report.txt', 'w').write('done')")
    place = tmp_path / "work"
    place.mkdir()
    turn = call("run_skill_script", name="count-words", file="scripts/go.py")
    await results(folder, turn, scripts=ScriptLimits(), folder=lambda context: place)
    assert (place / "report.txt").read_text() == "done"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no front matter", "has no front matter"),
        ("---\nname: [\n---\n", "is not YAML"),
        ("---\n- a\n---\n", "must be fields and values"),
        ("---\nname: Count\ndescription: d\n---\n", "invalid name 'Count'"),
        ("---\nname: a--b\ndescription: d\n---\n", "invalid name 'a--b'"),
        ("---\nname: other\ndescription: d\n---\n", "its name is 'other'"),
        ("---\nname: bad\n---\n", "invalid description"),
        (f"---\nname: bad\ndescription: {'d' * 1_025}\n---\n", "invalid description"),
        (f"---\nname: bad\ndescription: d\ncompatibility: {'d' * 501}\n---\n", "invalid compatibility"),
        ("x" * 1_000_001, "more than 1,000,000 bytes"),
    ],
)
def test_an_invalid_skill_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text(text)
    with pytest.raises(ConfigurationError, match=problem):
        load_skills(tmp_path)


def test_other_problems_are_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="no folder of skills"):
        load_skills(tmp_path / "absent")
    with pytest.raises(ConfigurationError, match="no skills in"):
        load_skills(tmp_path)
    (skill,) = load_skills(folder)
    other = Skill(name=skill.name, description="d", folder=tmp_path, metadata={})
    with pytest.raises(ConfigurationError, match="two skills are named 'count-words'"):
        skill_tools([skill, other])
    with pytest.raises(ConfigurationError, match="seconds=0"):
        ScriptLimits(seconds=0)
    assert skill.metadata == {"license": "MIT"}
