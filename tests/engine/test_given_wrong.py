"""What a product hands in wrong is said before the run begins, and names the field."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Budget, Chat, Session, Tool, ToolContext, ToolOrchestrator, ToolRegistry, tool
from concertino.agents import delegate
from concertino.errors import ConfigurationError
from concertino.messages import Media, ToolMessage, UserMessage
from concertino.providers import RateLimit
from concertino.storage.sqlite import MemoryStore
from concertino.testing import ScriptedModel


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
        ("history", (message for message in [UserMessage("x")]), "must be a list"),
        ("session", {"user_id": "u"}, "must be a Session"),
        ("summary", None, "summary"),
        ("personalization", 5, "personalization"),
        ("conversation_id", 7, "conversation_id"),
        ("memories", "tea", "list of texts"),
        ("attachments", ["a.txt"], "Attachments"),
        ("few_shot", None, "few_shot"),
        ("system_prompt", 5, "system_prompt"),
        ("store", "runs.db", "SqliteStore"),
        ("store", MemoryStore, "SqliteStore"),
        ("counter", None, "EstimatingCounter"),
        ("limits", 5, "must be a function"),
        ("retention", None, "must be a Retention"),
        ("context", [], "must be the `context`"),
        ("price", None, "must be a function"),
        ("retry", 3, "must be a Retry"),
        ("models", "openai", r"wiring\.Models\(\)"),
        ("gates", [RateLimit()], "must be Gates by provider"),
        ("gates", {"openai": 1}, "must be Gates by provider"),
        ("budget", 5, "must be a Budget"),
        ("budget", Budget(tokens=5), r"needs Chat\(store="),
        ("chatbot_id", 3, "chatbot_id"),
        ("few_shot", {3: []}, "by model id"),
        ("few_shot", {"x:y": "hello"}, "few_shot.*must be a list of messages"),
        ("few_shot", {"x:y": ["hello"]}, "few_shot.*UserMessage"),
        ("few_shot", {"x:y": [UserMessage(3)]}, "few_shot.*at place 0; its text"),  # type: ignore[arg-type]
        ("history", [UserMessage("x", media="a.png")], "its media must be"),  # type: ignore[arg-type]
        ("history", [UserMessage("x", media=("a.png",))], "its media must be"),  # type: ignore[arg-type]
        ("history", [ToolMessage("1", "look", "x", media=(Media("image/png", b"x"),))], "its media must be"),  # type: ignore[arg-type]
        ("fallback", "openai:gpt-6-luna", "must be a list of ids of models"),
        ("fallback", ["gpt-6-luna"], "'provider:name'"),
        ("fallback", [ScriptedModel()], "must hold ids of models"),
        ("fallback", ["openai:gpt-6-luna"], r"Chat\(models="),
    ],
)
def test_a_field_of_the_chat(field: str, value: Any, problem: str) -> None:
    settings: dict[str, Any] = {"model": ScriptedModel(), "message": "go"} | {field: value}
    with pytest.raises(ConfigurationError, match=problem):
        ToolOrchestrator(Chat(**settings), AgentConfig())


@pytest.mark.parametrize("field", ["user_id", "organization_id", "plan"])
def test_a_session_that_names_nobody(field: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Session\({field}=\.\.\.\) is 3; it must be text"):
        Session(**{field: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", " ", None, 5, "a/b", "two\nlines"])
def test_a_name_that_cannot_stand_in_a_path(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="the agent's name"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(name=name))


def test_a_prompt_that_is_no_text() -> None:
    with pytest.raises(ConfigurationError, match="the prompt of agent 'agent' is 5"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(prompt=5))


def test_tools_that_are_none(add: Tool) -> None:
    for tools in (None, add, 5):
        with pytest.raises(ConfigurationError, match="use a tuple of tools"):
            ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(tools=tools))
    with pytest.raises(ConfigurationError, match="put @tool above the function"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), named(tools=[print]))


def test_a_registry_that_is_none(add: Tool) -> None:
    with pytest.raises(ConfigurationError, match=r"pass ToolRegistry\(\[\.\.\.\]\)"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), AgentConfig(), [add])  # type: ignore[arg-type]


@pytest.mark.parametrize("observers", [None, print, [3]])
def test_observers_that_are_none(observers: Any) -> None:
    with pytest.raises(ConfigurationError, match="list of functions"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), AgentConfig(), observers=observers)


class Raw(Tool):
    """A tool by subclass."""

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
def test_a_tool_that_no_provider_takes(setting: str, value: Any) -> None:
    made = Raw()
    setattr(made, setting, value)
    with pytest.raises(ConfigurationError, match=setting):
        ToolRegistry([made])


def test_an_agent_whose_name_is_no_name_of_a_tool() -> None:
    with pytest.raises(ConfigurationError, match="'my agent'"):
        ToolRegistry([delegate(named(name="my agent"), description="Mine.")])


def test_a_misspelt_setting_of_a_tool() -> None:
    settings: dict[str, Any] = {"tiemout": 5}
    with pytest.raises(ConfigurationError, match=r"'tiemout'; there are: .*timeout"):
        tool(**settings)
    settings = {"timeout": "5"}
    with pytest.raises(ConfigurationError, match="seconds above 0"):

        @tool(**settings)
        async def late() -> None:
            """Late."""


@pytest.mark.parametrize("target", [5, int])
def test_what_is_no_function(target: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no function"):
        tool(target)
