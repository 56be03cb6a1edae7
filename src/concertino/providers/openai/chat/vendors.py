"""How the servers that speak Chat Completions differ from OpenAI's, as data.

From their recorded traffic (OpenRouter, Groq, DeepSeek, Mistral, xAI, Perplexity, Databricks, Azure) and, for the
others, from their documentation, which stands beside each; all as of November 2026. What differs in answers needs no
data: all of it is read from everybody.

Servers at home write the conversation with the model's own template, and those of Qwen 3.5 and later refuse a message
of the system's that is not the first (vLLM's issue 41114, llama.cpp's 20733).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

Reasoning = Literal["", "reasoning_content", "reasoning", "reasoning_details", "parts"]
Kind = Literal["image", "audio", "document"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A server that speaks Chat Completions. The defaults are what an unknown one is most likely to take."""

    name: str
    base_url: str = ""
    hosts: tuple[str, ...] = ()
    """Ends of the host names by which it is known."""
    key: str = ""
    """The environment variable of its key; "" where none is wanted."""
    limit: str = "max_tokens"
    """What it calls the room for the answer."""
    asks_usage: bool = True
    """Whether `stream_options` asks it for usage. The others send it unasked, or refuse unknown settings."""
    parallel_switch: bool = True
    """Whether it takes `parallel_tool_calls`."""
    choices: tuple[str, ...] = ("required", "none", "forced")
    """The tool choices that it takes besides `auto`. One without `none` is sent no tools instead."""
    required: str = "required"
    """Its word for that."""
    reasoning: Reasoning = ""
    """Where reasoning goes back: in which field, in parts of the content, or nowhere."""
    reasoned_calls: bool = False
    """Whether it refuses an answer with calls that has no such field. Where there is no reasoning, it is empty."""
    system_inside: bool = False
    """Whether it takes messages of the system's behind the first. For the others they are marked text of the user's."""
    bridge: str = ""
    """What the model is made to say between the result of a tool and a message of the user's, where an answer must
    stand between them; "": none need."""
    effort: Literal["reasoning_effort", "reasoning", ""] = "reasoning_effort"
    """The field that says how much to reason: a word, or an object with it; "" for none."""
    schemas: bool = True
    """Whether it holds answers to a JSON schema."""
    media: frozenset[Kind] = frozenset({"image"})
    cache_key: bool = False
    """Whether it takes `prompt_cache_key`."""
    breakpoints: bool = False
    """Whether it takes Anthropic's `cache_control` on parts of the content."""
    short_ids: bool = False
    """Whether ids of calls must have nine letters and digits."""
    plain_ids: bool = False
    """Whether ids of calls are limited in length, and ids of others are best written in plain letters."""


_ALL: frozenset[Kind] = frozenset({"image", "audio", "document"})

OPENAI = Vendor(
    name="openai",
    base_url="https://api.openai.com/v1",
    hosts=("api.openai.com",),
    key="OPENAI_API_KEY",
    limit="max_completion_tokens",
    media=_ALL,
    cache_key=True,
    plain_ids=True,
    system_inside=True,
)

VENDORS: tuple[Vendor, ...] = (
    OPENAI,
    replace(OPENAI, name="azure", base_url="", hosts=(".openai.azure.com", ".cognitiveservices.azure.com")),
    # Foundry's other models; its reference knows `max_tokens` only.
    Vendor(
        name="azure-foundry",
        hosts=(".services.ai.azure.com", ".models.ai.azure.com"),
        key="AZURE_API_KEY",
        system_inside=True,
    ),
    # "Preserving reasoning": the list goes back unmodified. It passes Anthropic's marks on.
    Vendor(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        hosts=("openrouter.ai",),
        key="OPENROUTER_API_KEY",
        reasoning="reasoning_details",
        effort="reasoning",
        media=_ALL,
        breakpoints=True,
        system_inside=True,
    ),
    # Usage comes in `x_groq` and, if asked for, in a chunk of its own.
    Vendor(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        hosts=("api.groq.com",),
        key="GROQ_API_KEY",
        limit="max_completion_tokens",
        reasoning="reasoning",
        system_inside=True,
    ),
    # "Thinking mode": within a turn of tools the reasoning goes back, and is refused if it is missing ("Missing
    # `reasoning_content` field"), also where another vendor's model has made the call.
    Vendor(
        name="deepseek",
        base_url="https://api.deepseek.com",
        hosts=("api.deepseek.com",),
        key="DEEPSEEK_API_KEY",
        parallel_switch=False,
        reasoning="reasoning_content",
        reasoned_calls=True,
        schemas=False,
        media=frozenset(),
        system_inside=True,
    ),
    # Usage comes unasked with the last chunk; unknown settings are refused; "required" is called "any". The validator
    # of mistral-common says which role may follow which: a result is followed by a result or an answer, an answer by
    # nothing of the system's ("Unexpected role 'user' after role 'tool'", code 3230).
    Vendor(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        hosts=("api.mistral.ai",),
        key="MISTRAL_API_KEY",
        asks_usage=False,
        required="any",
        reasoning="parts",
        bridge="Noted.",
        media=frozenset({"image", "audio"}),
        cache_key=True,
        short_ids=True,
    ),
    Vendor(
        name="xai",
        base_url="https://api.x.ai/v1",
        hosts=("api.x.ai",),
        key="XAI_API_KEY",
        limit="max_completion_tokens",
        system_inside=True,
    ),
    Vendor(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        hosts=("api.perplexity.ai",),
        key="PERPLEXITY_API_KEY",
        parallel_switch=False,
        choices=(),
    ),
    Vendor(
        name="databricks", hosts=(".azuredatabricks.net", ".databricks.com"), key="DATABRICKS_TOKEN", system_inside=True
    ),
    # docs.ollama.com, "OpenAI compatibility": it names what it takes; a tool choice it passes over. Results of tools it
    # writes into the prompt whether tools are declared or not.
    Vendor(
        name="ollama",
        base_url="http://localhost:11434/v1",
        parallel_switch=False,
        choices=(),
        reasoning="reasoning",
    ),
    # docs.vllm.ai, "Reasoning Outputs": `reasoning` was `reasoning_content` before 0.11; "Interleaved Thinking": it
    # goes back under the same name.
    Vendor(name="vllm", reasoning="reasoning"),
    # llama.cpp's server: a tool that is named in the choice is passed over, without an error (its issue 26535).
    Vendor(name="llamacpp", reasoning="reasoning_content", choices=("required", "none")),
    # ai.google.dev, "OpenAI compatibility" and "Thought signatures": they come and go in `extra_content` of calls.
    Vendor(
        name="google-openai",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        hosts=("generativelanguage.googleapis.com",),
        key="GEMINI_API_KEY",
        parallel_switch=False,
        media=frozenset({"image", "audio"}),
        system_inside=True,
    ),
    # docs.fireworks.ai, "Reasoning": `reasoning_content`, which goes back, and `reasoning_effort`.
    Vendor(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        hosts=("api.fireworks.ai",),
        key="FIREWORKS_API_KEY",
        reasoning="reasoning_content",
        system_inside=True,
    ),
)

NAMES = tuple(vendor.name for vendor in VENDORS if vendor.base_url and vendor is not OPENAI)
"""The vendors that can be asked by name alone."""

COMPATIBLE = "openai-compatible"
"""What a server is called of which only the address is known."""

_BY_NAME = {vendor.name: vendor for vendor in VENDORS}


def vendor_of(name: str, url: str) -> Vendor:
    """The vendor called *name*, or else the one whose host *url* has, or else an unknown one of that name."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    host = urlsplit(url).hostname or ""
    for vendor in VENDORS:
        if any(host == end or (end.startswith(".") and host.endswith(end)) for end in vendor.hosts):
            return vendor
    return Vendor(name=name or host or COMPATIBLE)
