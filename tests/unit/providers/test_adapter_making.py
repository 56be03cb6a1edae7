"""Creating a model: keys, extras, settings, and the cost of the import."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from openai import AsyncOpenAI

from concertino.errors import ConcertinoError, MissingExtraError, MissingKeyError
from concertino.providers import Model, model_id
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel

MAKERS: list[tuple[Callable[[str], Model], list[str], str]] = [
    (AnthropicModel, ["ANTHROPIC_API_KEY"], "anthropic"),
    (OpenAIModel, ["OPENAI_API_KEY"], "openai"),
    (GoogleModel, ["GEMINI_API_KEY", "GOOGLE_API_KEY"], "google"),
]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in [names for _, names, _ in MAKERS] + [["OPENAI_BASE_URL"]]:
        for name in names:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("make", "variables", "extra"), MAKERS)
def test_a_missing_key_is_named(
    make: Callable[[str], Model], variables: list[str], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingKeyError) as caught:
        make("m")
    for variable in variables:
        assert variable in str(caught.value)
        with monkeypatch.context() as patch:
            patch.setenv(variable, "key")
            assert model_id(make("m")) == f"{extra}:m"


@pytest.mark.parametrize(("_", "__", "extra"), MAKERS)
def test_a_missing_sdk_is_named(_: object, __: object, extra: str) -> None:
    assert_creation_fails(extra, missing="google.genai" if extra == "google" else extra)


@pytest.mark.parametrize("extra", ["anthropic", "openai", "google"])
def test_a_missing_dependency_of_an_sdk_is_named(extra: str) -> None:
    assert_creation_fails(extra, missing="pydantic")


def assert_creation_fails(extra: str, missing: str) -> None:
    """Create the adapter's model in a process without the module *missing*."""
    program = f"""
import sys
sys.modules[{missing!r}] = None
import concertino.providers.{extra} as adapter
from concertino.errors import MissingExtraError
names = [name for name in adapter.__all__ if name.endswith("Model")]
for name in names:
    try:
        getattr(adapter, name)("m", api_key="k", base_url="http://127.0.0.1:1")
    except MissingExtraError as error:
        assert "concertino[{extra}]" in str(error), error
        assert "module {missing!r}" in str(error), error
    else:
        raise AssertionError(f"{{name}} was created")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_loads_no_sdk() -> None:
    program = """
import sys
import concertino
import concertino.providers
import concertino.providers.anthropic, concertino.providers.openai, concertino.providers.google
import concertino.providers.catalog, concertino.providers.pricing
loaded = {"anthropic", "openai", "google.genai", "genai_prices", "httpx2"} & sys.modules.keys()
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_local_server_needs_no_key() -> None:
    model = OpenAIModel("llama", base_url="http://127.0.0.1:1/v1", provider="ollama")
    assert model_id(model) == "ollama:llama"


async def test_a_given_client_is_not_closed() -> None:
    async with AsyncOpenAI(api_key="k") as client:
        model = OpenAIModel("gpt-5", client=client)
        await model.close()
        assert not client.is_closed()


def test_errors_are_of_the_tree() -> None:
    assert issubclass(MissingExtraError, ConcertinoError)


@pytest.mark.parametrize("make", [AnthropicModel, OpenAIModel])
async def test_the_transport_is_aiohttp_if_it_is_installed(make: Callable[..., Any]) -> None:
    model = make("m", api_key="k", base_url="http://127.0.0.1:1")
    transport = type(model._client()._client).__mro__
    installed = importlib.util.find_spec("aiohttp") is not None
    assert any("Aiohttp" in base.__name__ for base in transport) == installed
    await model.close()
