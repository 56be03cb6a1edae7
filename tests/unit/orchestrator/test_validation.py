"""Invalid input raises before the run begins, with the field, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Budget,
    Chat,
    Part,
    Resources,
    Retry,
    Scope,
    Tool,
    ToolContext,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ConfigurationError
from concertino.messages import Media, ToolMessage, UserMessage
from concertino.providers import RateLimit
from concertino.storage.sqlite import MemoryStore
from concertino.testing import ScriptedModel


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def named(**attributes: Any) -> AgentConfig[Any]:
    """An agent with these class attributes."""
    agent: AgentConfig[Any] = type("Odd", (AgentConfig,), attributes)()
    return agent


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("model", ScriptedModel, "open_model"),
        ("history", None, "history"),
        ("history", [{"role": "user", "content": "hello"}], "UserMessage"),
        ("history", "hello", "history"),
        ("history", (message for message in [UserMessage("x")]), "use a list of messages"),
        ("scope", {"user": "u"}, "use a Scope"),
        ("summary", None, "summary"),
        ("personalization", 5, "personalization"),
        ("conversation_id", 7, "conversation_id"),
        ("memories", "tea", "list of texts"),
        ("attachments", ["a.txt"], "Attachments"),
        ("few_shot", None, "few_shot"),
        ("system_prompt", 5, "system_prompt"),
        ("context", [], "use the `context`"),
        ("budget", 5, "use a Budget"),
        ("budget", Budget(tokens=5), r"pass Resources\(store="),
        ("chatbot_id", 3, "chatbot_id"),
        ("few_shot", {3: []}, "for each model id"),
        ("few_shot", {"x:y": "hello"}, "few_shot.*use a list of messages"),
        ("few_shot", {"x:y": ["hello"]}, "few_shot.*UserMessage"),
        ("few_shot", {"x:y": [UserMessage(3)]}, "few_shot.*at index 0, .*: use text"),  # type: ignore[arg-type]
        ("history", [UserMessage("x", media="a.png")], "use a tuple of Media"),  # type: ignore[arg-type]
        ("history", [UserMessage("x", media=("a.png",))], "use Media with a type such as 'image/png'"),  # type: ignore[arg-type]
        ("history", [ToolMessage("1", "look", "x", media=(Media("image/png", b"x"),))], "give it one of data"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_field_of_a_chat_raises(field: str, value: Any, problem: str) -> None:
    settings: dict[str, Any] = {"model": ScriptedModel(), "message": "go"} | {field: value}
    with pytest.raises(ConfigurationError, match=problem):
        ToolOrchestrator(Chat(**settings), AgentConfig())


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("store", "runs.db", "SqliteStore"),
        ("store", MemoryStore, "SqliteStore"),
        ("counter", None, "EstimatingCounter"),
        ("limits", 5, "use a function"),
        ("retention", None, "use a Retention"),
        ("price", None, "use a function"),
        ("retry", 3, "use a Retry"),
        ("models", "openai", r"wiring\.Models\(\)"),
        ("rate_limits", [RateLimit()], "one RateLimit per provider"),
        ("rate_limits", {"openai": 1}, "one RateLimit per provider"),
        ("fallback", "openai:gpt-6-luna", "use a list of model ids"),
        ("fallback", ["gpt-6-luna"], "'provider:name'"),
        ("fallback", [ScriptedModel()], "use a list of model ids"),
        ("fallback", ["openai:gpt-6-luna"], r"Resources\(models="),
    ],
)
def test_an_invalid_field_of_resources_raises(field: str, value: Any, problem: str) -> None:
    settings: dict[str, Any] = {field: value}
    with pytest.raises(ConfigurationError, match=problem):
        ToolOrchestrator(Chat("go", model=ScriptedModel()), AgentConfig(), resources=Resources(**settings))


@pytest.mark.parametrize("field", ["tenant", "user"])
@pytest.mark.parametrize("value", [3, None, b"u", "a\ud800"])
def test_an_invalid_field_of_a_scope_raises(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Scope\(.*use text in valid Unicode"):
        Scope(**{field: value})


@pytest.mark.parametrize("name", ["", " ", None, 5, "a/b", "two\nlines"])
def test_an_invalid_agent_name_raises(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="invalid agent name"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(name=name))


def test_a_prompt_that_is_not_text_raises() -> None:
    with pytest.raises(ConfigurationError, match="agent 'agent': invalid prompt 5"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(prompt=5))


def test_invalid_tools_of_an_agent_raise() -> None:
    for tools in (None, add, 5):
        with pytest.raises(ConfigurationError, match="use a tuple of tools"):
            ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(tools=tools))
    with pytest.raises(ConfigurationError, match="put @tool above the function"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(tools=[print]))


def test_an_invalid_registry_raises() -> None:
    with pytest.raises(ConfigurationError, match=r"pass ToolRegistry\(\[\.\.\.\]\)"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), AgentConfig(), [add])  # type: ignore[arg-type]


@pytest.mark.parametrize("observers", [None, print, [3]])
def test_invalid_observers_raise(observers: Any) -> None:
    with pytest.raises(ConfigurationError, match="list of functions"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), AgentConfig(), observers=observers)


class Raw(Tool):
    """A subclass of `Tool`."""

    name = "raw"
    description = "Raw."
    parameters: dict[str, Any] = {"type": "object"}

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Do nothing."""


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("name", None),
        ("name", "two words"),
        ("description", None),
        ("parameters", "{}"),
        ("timeout", "5"),
        ("timeout", 0),
        ("timeout", float("nan")),
        ("retain", "always"),
    ],
)
def test_an_invalid_tool_setting_raises(setting: str, value: Any) -> None:
    made = Raw()
    setattr(made, setting, value)
    with pytest.raises(ConfigurationError, match=setting):
        ToolRegistry([made])


def test_delegating_to_an_agent_with_an_invalid_tool_name_raises() -> None:
    with pytest.raises(ConfigurationError, match="'my agent'"):
        ToolRegistry([delegate(named(name="my agent"), description="Mine.")])


def test_a_misspelt_tool_setting_raises() -> None:
    settings: dict[str, Any] = {"tiemout": 5}
    with pytest.raises(ConfigurationError, match=r"'tiemout': choose from .*timeout"):
        tool(**settings)
    settings = {"timeout": "5"}
    with pytest.raises(ConfigurationError, match="seconds above 0"):

        @tool(**settings)
        async def late() -> None:
            """Late."""


async def wait(self: Any, run: Any, event: Any) -> None:
    """Wait."""


@pytest.mark.parametrize(
    ("name", "member", "problem"),
    [
        ("authorise_tool_call", lambda self, run, call, arguments: None, "is not a hook: rename it to authorize_tool"),
        ("after_steps", lambda self, run, outcome: outcome, "is not a hook: rename it to after_step"),
        ("prepare", lambda self: (), "prepare: too many positional arguments; its signature must fit prepare"),
        ("after_step", lambda self, run, outcome, more: outcome, "after_step: missing a required argument: 'more'"),
        ("conclude", staticmethod(lambda: ""), "conclude: too many positional arguments"),
        ("conclude", "done", "conclude is 'done'; it must be a method conclude"),
        ("on_tool_progress", wait, "on_tool_progress observes and cannot wait"),
    ],
)
def test_a_hook_that_the_engine_cannot_call_raises(name: str, member: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"Odd.{name}")) as caught:
        named(**{name: member})
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("_authorise_tool_call", lambda self: None),
        ("load_customer", lambda self: None),
        ("conclude", lambda self, run, text, more="": text),
        ("conclude", staticmethod(lambda run, text: text)),
        ("conclude", classmethod(lambda cls, run, text: text)),
        ("after_step", lambda self, *args: args[1]),
    ],
)
def test_other_methods_and_wider_signatures_are_accepted(name: str, member: Any) -> None:
    assert hasattr(named(**{name: member}), name)


@pytest.mark.parametrize("target", [5, int])
def test_a_tool_made_from_anything_but_a_function_raises(target: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a function"):
        tool(target)


def test_a_valid_message_is_checked_once() -> None:
    class Counted(tuple[Any, ...]):
        """Media that count how often they are read."""

        reads = 0

        def __iter__(self) -> Iterator[Any]:
            Counted.reads += 1
            return super().__iter__()

    history = [UserMessage("look", media=Counted((Media("image/png", "eA=="),)))]
    for _ in range(3):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go", history=list(history)), AgentConfig())
    assert Counted.reads == 1


def test_an_agent_takes_no_arguments_that_nothing_reads() -> None:
    """A name given to the constructor was ignored without a word."""

    class Brief(AgentConfig[None]):
        def __init__(self, words: int) -> None:
            self.words = words

    with pytest.raises(ConfigurationError, match=r"AgentConfig\(name=\.\.\.\): it takes no arguments"):
        AgentConfig(name="clerk")
    with pytest.raises(ConfigurationError, match=r"Part\(positional arguments\.\.\.\)"):
        Part("x")
    assert Brief(words=5).words == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [("retry", Retry(attempts=5)), ("fallback", ["openai:gpt-6-luna"]), ("rate_limits", {}), ("retention", None)],
)
def test_a_setting_of_resources_is_not_one_of_an_agent(name: str, value: Any) -> None:
    remedy = rf"pass Resources\({name}=\.\.\.\)"
    with pytest.raises(ConfigurationError, match=remedy):
        AgentConfig(**{name: value})
    kind: Any = type("Desk", (AgentConfig,), {name: value})
    with pytest.raises(ConfigurationError, match=rf"Desk\.{name} is not read.*{remedy}"):
        kind()
    type("Own", (AgentConfig,), {name: property(lambda self: 1)})()
