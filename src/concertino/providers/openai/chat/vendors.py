"""The deviations of other servers from OpenAI's Chat Completions, as data.

From recorded traffic (OpenRouter, Groq, DeepSeek, Mistral, xAI, Perplexity, Databricks, Azure) and, for the others,
from the documentation cited at each entry, as of November 2026. Deviations in answers need no data, because the reader
accepts all of them from every server.

Local servers format the conversation with the model's own template. Those of Qwen 3.5 and later refuse a system message
that is not the first (vLLM's issue 41114, llama.cpp's 20733).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal
from urllib.parse import urlsplit

from ....errors import ConfigurationError
from ....messages import MediaKind
from ....records import record

ReasoningField = Literal["", "reasoning_content", "reasoning", "reasoning_details", "parts"]
Outside = tuple[Literal["media", "reasoning"], ...]
Setting = Literal["top_p", "seed", "frequency_penalty", "presence_penalty", "service_tier", "logprobs", "stop"]


@record(kw_only=True)
class Vendor:
    """A server that implements Chat Completions. The defaults are what an unknown server most likely accepts."""

    name: str
    base_url: str = ""
    host: str = ""
    """The environment variable of another host; "" without one."""
    hosts: tuple[str, ...] = ()
    """Suffixes of its host names."""
    key: str = ""
    """The environment variable of its key; "" if it needs none."""
    limit: str = "max_tokens"
    """The setting that limits the answer's tokens."""
    asks_usage: bool = True
    """Whether `stream_options` requests usage. Other servers always send it, or refuse unknown settings."""
    parallel_switch: bool = True
    """Whether it accepts `parallel_tool_calls`."""
    choices: tuple[str, ...] = ("required", "none", "forced")
    """The tool choices that it accepts in addition to `auto`. Without `none`, no tools are sent instead."""
    required: str = "required"
    """Its value for the tool choice `required`."""
    reasoning: ReasoningField = ""
    """The field in which reasoning goes back, `parts` for content parts, or "" if it does not."""
    reasoned_calls: bool = False
    """Whether it refuses a message with calls that lacks this field. Without reasoning, the field is empty."""
    system_inside: bool = False
    """Whether it accepts system messages after the first. Other vendors get tagged text in a user message."""
    bridge: str = ""
    """The text of an assistant message between tool results and a user message, if the server requires one."""
    effort: Literal["reasoning_effort", "reasoning", ""] = "reasoning_effort"
    """The field of the reasoning effort, which in `reasoning` is an object; "" without one."""
    schemas: bool = True
    """Whether it can enforce a JSON schema."""
    media: frozenset[MediaKind] = frozenset({"image"})
    cache_key: bool = False
    """Whether it accepts `prompt_cache_key`."""
    breakpoints: bool = False
    """Whether it accepts Anthropic's `cache_control` on content parts."""
    outside: tuple[Outside, ...] = (("reasoning",), ("media",), ("media", "reasoning"))
    """The details of its usage report that are not in prompt and completion if the total exceeds both by exactly them:
    the first combination that fits. The default trusts the details; OpenAI counts everything inside."""
    unnamed_reasoning: bool = False
    """Whether it counts reasoning in the total alone."""
    lacks: frozenset[Setting] = frozenset()
    """The settings that it refuses or ignores."""
    seed: str = "seed"
    """Its name for the setting `seed`."""
    short_ids: bool = False
    """Whether call ids must have nine letters and digits."""
    plain_ids: bool = False
    """Whether call ids are limited in length; ids of other providers are hashed if needed."""


_MOST: frozenset[MediaKind] = frozenset({"image", "audio", "document"})

OPENAI = Vendor(
    name="openai",
    base_url="https://api.openai.com/v1",
    hosts=("api.openai.com",),
    key="OPENAI_API_KEY",
    limit="max_completion_tokens",
    media=_MOST,
    cache_key=True,
    outside=(),
    plain_ids=True,
    system_inside=True,
)

VENDORS: tuple[Vendor, ...] = (
    OPENAI,
    replace(OPENAI, name="azure", base_url="", hosts=(".openai.azure.com", ".cognitiveservices.azure.com")),
    # Foundry's other models; its reference lists `max_tokens` only.
    Vendor(
        name="azure-foundry",
        hosts=(".services.ai.azure.com", ".models.ai.azure.com"),
        key="AZURE_API_KEY",
        system_inside=True,
    ),
    # "Preserving reasoning": the list goes back unmodified. It forwards Anthropic's breakpoints.
    Vendor(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        hosts=("openrouter.ai",),
        key="OPENROUTER_API_KEY",
        reasoning="reasoning_details",
        effort="reasoning",
        media=_MOST | {"video"},
        breakpoints=True,
        system_inside=True,
    ),
    # Usage comes in `x_groq` and, on request, in a chunk of its own.
    Vendor(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        hosts=("api.groq.com",),
        key="GROQ_API_KEY",
        limit="max_completion_tokens",
        reasoning="reasoning",
        system_inside=True,
    ),
    # "Thinking mode": inside a tool loop the reasoning goes back. Its absence is refused ("Missing `reasoning_content`
    # field"), even if another vendor's model made the call.
    Vendor(
        name="deepseek",
        base_url="https://api.deepseek.com",
        hosts=("api.deepseek.com",),
        key="DEEPSEEK_API_KEY",
        parallel_switch=False,
        reasoning="reasoning_content",
        reasoned_calls=True,
        schemas=False,
        lacks=frozenset({"seed", "service_tier"}),
        media=frozenset(),
        system_inside=True,
    ),
    # Usage always comes with the last chunk; unknown settings are refused; "required" is called "any". The validator of
    # mistral-common defines the order of roles: a result or an assistant message follows a result, and no system
    # message follows an assistant message ("Unexpected role 'user' after role 'tool'", code 3230).
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
        outside=(("media",),),
        lacks=frozenset({"logprobs", "service_tier"}),
        seed="random_seed",
        short_ids=True,
    ),
    Vendor(
        name="xai",
        base_url="https://api.x.ai/v1",
        hosts=("api.x.ai",),
        key="XAI_API_KEY",
        limit="max_completion_tokens",
        reasoning="reasoning_content",
        outside=(("reasoning",),),
        system_inside=True,
    ),
    Vendor(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        hosts=("api.perplexity.ai",),
        key="PERPLEXITY_API_KEY",
        parallel_switch=False,
        choices=(),
        lacks=frozenset({"seed", "service_tier", "logprobs"}),
    ),
    Vendor(
        name="databricks", hosts=(".azuredatabricks.net", ".databricks.com"), key="DATABRICKS_TOKEN", system_inside=True
    ),
    # docs.ollama.com, "OpenAI compatibility", lists the accepted settings; a tool choice is ignored. Tool results enter
    # the prompt even if no tools are declared.
    Vendor(
        name="ollama",
        base_url="http://127.0.0.1:11434/v1",
        host="OLLAMA_HOST",
        parallel_switch=False,
        choices=(),
        lacks=frozenset({"service_tier"}),
        reasoning="reasoning",
    ),
    # docs.vllm.ai, "Reasoning Outputs": `reasoning` was `reasoning_content` before 0.11; "Interleaved Thinking": it
    # goes back under the same name. "Multimodal Inputs": `video_url`, `input_audio`.
    Vendor(
        name="vllm",
        reasoning="reasoning",
        media=frozenset({"image", "audio", "video"}),
        lacks=frozenset({"service_tier"}),
    ),
    # llama.cpp's server ignores a named tool choice, without an error (its issue 26535).
    Vendor(
        name="llamacpp", reasoning="reasoning_content", choices=("required", "none"), lacks=frozenset({"service_tier"})
    ),
    # ai.google.dev, "OpenAI compatibility" and "Thought signatures": they are in `extra_content` of calls.
    Vendor(
        name="google-openai",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        hosts=("generativelanguage.googleapis.com",),
        key="GEMINI_API_KEY",
        parallel_switch=False,
        media=frozenset({"image", "audio"}),
        unnamed_reasoning=True,
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
"""The vendors with a fixed address, which a name alone selects."""

COMPATIBLE = "openai-compatible"
"""The vendor name of a server without a host name."""

_BY_NAME = {vendor.name: vendor for vendor in VENDORS}


def vendor_of(name: str, url: str) -> Vendor:
    """Return the vendor called *name*, else the one with the host of *url*, else an unknown vendor of that name."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    host = urlsplit(url).hostname or ""
    for vendor in VENDORS:
        if any(host == end or (end.startswith(".") and host.endswith(end)) for end in vendor.hosts):
            return vendor
    return Vendor(name=name or host or COMPATIBLE)


def address_of(vendor: Vendor, environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL of *vendor*, at the host that its environment variable names; "" if it has no address.

    The variable is read as Ollama's own clients read `OLLAMA_HOST`: `HOST`, `HOST:PORT`, `:PORT` or a URL. Raises
    `ConfigurationError` for any other form.
    """
    given = environ.get(vendor.host, "").strip(" \"'") if vendor.host else ""
    if not given:
        return vendor.base_url
    own = urlsplit(vendor.base_url)
    try:
        parts = urlsplit(given if "://" in given else f"{own.scheme}://{given}")
        port = parts.port or (None if "://" in given else own.port)
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https"):
        raise ConfigurationError(f"invalid {vendor.host} {given!r}: use HOST:PORT or a URL, such as http://host:11434")
    name = parts.hostname or own.hostname or ""
    if name == "0.0.0.0":  # noqa: S104 - a server listens there; not every system can connect to it
        name = own.hostname or ""
    address = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{address}{f':{port}' if port else ''}{parts.path.rstrip('/')}{own.path}"
