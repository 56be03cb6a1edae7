"""`concertino new agent`: a first agent with its test, in two files of the current folder."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path
from string import Template

from ...errors import ConfigurationError
from ..render.console import Console

_AGENT = Template('''\
"""The agent $name, and its tools."""

from concertino import AgentConfig, tool


@tool(effect="read")
async def find_order(number: str) -> str:
    """Find an order by its number."""
    return f"order {number} was shipped on Monday"  # ask your own service here


class $class_name(AgentConfig):
    """Answers questions about orders."""

    name = "$name"
    prompt = "You help customers with their orders. Look an order up before you answer."
    tools = (find_order,)
''')
_TEST = Template('''\
"""Tests of the agent $name. Run them with `pytest`; they need no model and no key."""

import asyncio

from $name import $class_name

from concertino import Chat, ToolOrchestrator
from concertino.testing import ScriptedModel, call, check_agent


def test_it_looks_the_order_up() -> None:
    with ScriptedModel(call("find_order", number="A7"), "It was shipped on Monday.") as model:
        result = asyncio.run(ToolOrchestrator(Chat("Where is my order A7?", model=model), $class_name()).run())
    assert result.text == "It was shipped on Monday."
    assert result.tool_call_count == 1


def test_it_works_whatever_the_model_answers() -> None:
    check_agent($class_name())
''')


def new_agent(name: str, console: Console) -> int:
    """Write the agent *name* and its test. Raises `ConfigurationError` if the name is invalid or taken."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigurationError(
            f"invalid agent name {name!r}: use lower-case letters, digits and '_', such as my_agent"
        )
    words = {"name": name, "class_name": "".join(part.capitalize() for part in name.split("_"))}
    files = {Path(f"{name}.py"): _AGENT, Path(f"test_{name}.py"): _TEST}
    for path in files:
        if path.exists():
            raise ConfigurationError(f"{path} exists already: choose another name, or remove the file")
    if importlib.util.find_spec(name) is not None:
        raise ConfigurationError(f"invalid agent name {name!r}: a module has this name already; choose another one")
    for path, template in files.items():
        path.write_text(template.substitute(words), encoding="utf-8")
        console.print(str(path))
    console.notice("next: pip install pytest, and run pytest")
    return 0
