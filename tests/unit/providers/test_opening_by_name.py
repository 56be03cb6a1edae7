"""Models opened by name: vendors of OpenAI's format, and a server known by its address only."""

from __future__ import annotations

import socket

import pytest

from concertino import AgentConfig, Chat, Resources, Retry, ToolOrchestrator
from concertino.errors import ConfigurationError, MissingKeyError, RunError, UnknownModelError, UnknownProviderError
from concertino.providers import model_id
from concertino.providers.openai.chat.vendors import address_of, vendor_of
from concertino.testing import ScriptedModel
from concertino.wiring import Models, open_model


def test_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    assert model_id(open_model("openrouter:anthropic/claude-sonnet-4.5")) == "openrouter:anthropic/claude-sonnet-4.5"
    assert model_id(open_model("ollama:llama3:8b")) == "ollama:llama3:8b"
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(MissingKeyError, match="GROQ_API_KEY"):
        open_model("groq:m")
    with pytest.raises(UnknownModelError, match="groq"):
        open_model("groq")


class Closing(ScriptedModel):
    """Records that it was closed; the model `bad` fails to close."""

    async def close(self) -> None:
        """See `Model.close`."""
        closed.append(self.name)
        if self.name == "bad":
            raise OSError("no")


closed: list[str] = []


async def test_each_model_is_opened_once_and_all_are_closed() -> None:
    opened = list[str]()

    def opens(spec: str) -> Closing:
        if spec == "nobody:m":
            raise UnknownProviderError(spec)
        opened.append(spec)
        return Closing(name=spec.partition(":")[2])

    closed.clear()
    with pytest.raises(OSError, match="no"):
        async with Models(opens) as models:
            assert models("x:a") is models("x:a")
            assert models("x:bad") is not models("x:a")
            models("x:c")
            with pytest.raises(UnknownProviderError):
                models("nobody:m")
    assert opened == ["x:a", "x:bad", "x:c"]
    assert sorted(closed) == ["a", "bad", "c"]


def test_a_server_known_by_its_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_COMPATIBLE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_COMPATIBLE_URL"):
        open_model("openai-compatible:m")
    monkeypatch.setenv("OPENAI_COMPATIBLE_URL", "http://127.0.0.1:8000/v1")
    assert model_id(open_model("openai-compatible:m")) == "127.0.0.1:m"
    with pytest.raises(UnknownProviderError, match="groq"):
        open_model("nobody:m")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("gpu", "http://gpu:11434/v1"),
        (" 'gpu:80' ", "http://gpu:80/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("https://models.example/ollama/", "https://models.example/ollama/v1"),
    ],
)
def test_the_host_of_ollama(host: str, url: str) -> None:
    assert address_of(vendor_of("ollama", ""), {"OLLAMA_HOST": host}) == url


@pytest.mark.parametrize("host", ["gpu:port", "gpu:99999999", "ftp://gpu"])
def test_an_invalid_host_of_ollama_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(ConfigurationError, match="invalid OLLAMA_HOST"):
        open_model("ollama:qwen3")


def test_an_address_without_a_scheme_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_URL", "garbage")
    with pytest.raises(ConfigurationError, match="invalid address 'garbage' of openai-compatible"):
        open_model("openai-compatible:m")


async def test_an_unreachable_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setenv("OLLAMA_HOST", host)
        model = open_model("ollama:qwen3")
        orchestrator = ToolOrchestrator(
            Chat("hi", model=model), AgentConfig(), resources=Resources(retry=Retry(attempts=1))
        )
        with pytest.raises(RunError, match=f"ollama could not be reached at http://{host}: "):
            await orchestrator.run()
        await model.close()


@pytest.mark.parametrize(
    ("spec", "likely"),
    [
        ("openai/gpt-6-luna", "openai:gpt-6-luna"),
        ("groq/llama", "groq:llama"),
        ("antropic:claude-x", "anthropic:claude-x"),
        ("mistrall", "mistral"),
        ("gpt-6-luna", "openai:gpt-6-luna"),
    ],
)
def test_a_misspelt_provider_is_named_with_what_was_probably_meant(spec: str, likely: str) -> None:
    with pytest.raises(UnknownProviderError, match=f"; or did you mean '{likely}'"):
        open_model(spec)


def test_a_provider_that_is_like_no_other_has_no_hint() -> None:
    with pytest.raises(UnknownProviderError) as raised:
        open_model("nobody:m")
    assert "did you mean" not in str(raised.value)
