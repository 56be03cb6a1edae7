"""Prices: costs calculated by hand from the providers' price pages."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from concertino.providers.pricing import price
from concertino.usage import Receipt, Tokens


def _listed() -> list[tuple[Any, Any]]:
    """Providers and models that their ids find."""
    wanted = ("anthropic", "openai", "google", "perplexity", "groq")
    makers = [maker for maker in get_snapshot().providers if maker.id in wanted]
    return [(maker, model) for maker in makers for model in maker.models if maker.find_model(model.id) is model]


LISTED = _listed()


@pytest.mark.parametrize(
    ("provider", "model", "tokens", "expected"),
    [
        # gpt-4o: 2.50 input, 1.25 cached, 10.00 output for a million; 600 * 2.50 + 400 * 1.25 + 200 * 10
        ("openai", "gpt-4o-2024-08-06", Tokens(1000, 200, cached=400), "0.004"),
        # The same with nothing cached: 1000 * 2.50 + 200 * 10
        ("openai", "gpt-4o", Tokens(1000, 200), "0.0045"),
        # Reasoning is output already and is not charged twice: 1000 * 1.25 + 200 * 10
        ("openai", "gpt-5", Tokens(1000, 200, reasoning=150), "0.00325"),
        # Haiku 4.5: 1 input, 0.10 read, 1.25 written, 5 output; 100 * 1 + 700 * 0.1 + 200 * 1.25 + 50 * 5
        ("anthropic", "claude-haiku-4-5-20251001", Tokens(1000, 50, cached=700, cache_write=200), "0.00067"),
        # The same, 150 of those written for an hour at 2: 100 * 1 + 700 * 0.1 + 50 * 1.25 + 150 * 2 + 50 * 5
        ("anthropic", "claude-haiku-4-5", Tokens(1000, 50, 700, 200, cache_write_1h=150), "0.0007825"),
        # Sonnet 4.5 up to 200,000: 3 input, 0.30 read, 3.75 written, 15 output; 100 * 3 + 900 * 0.3 + 10 * 15
        ("anthropic", "claude-sonnet-4-5", Tokens(1000, 10, cached=900), "0.00072"),
        # Gemini 2.5 Pro up to 200,000: 1.25 input, 0.125 cached, 10 output; 500 * 1.25 + 500 * 0.125 + 100 * 10
        ("google", "gemini-2.5-pro", Tokens(1000, 100, cached=500, reasoning=90), "0.0016875"),
        # Gemini 2.5 Pro above: 2.50 input, 15 output; 300,000 * 2.50 + 1000 * 15
        ("google", "gemini-2.5-pro", Tokens(300_000, 1000), "0.765"),
        ("openai", "gpt-4o", Tokens(), "0"),
    ],
)
def test_costs(provider: str, model: str, tokens: Tokens, expected: str) -> None:
    cost, version = price(provider, model, tokens)
    assert cost == Decimal(expected)
    assert version.startswith("genai-prices ")


WEB = {"web_search": 2}


@pytest.mark.parametrize(
    ("provider", "model", "tokens", "receipt", "expected"),
    [
        # gpt-5: 1.25 and 10 for a million; half of it in flex and batch, twice in priority
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(service_tier="default"), "0.00325"),
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(service_tier="flex"), "0.001625"),
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(service_tier="batch"), "0.001625"),
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(service_tier="priority"), "0.0065"),
        ("anthropic", "claude-haiku-4-5", Tokens(1000, 50), Receipt(service_tier="standard"), "0.00125"),
        # No list price for these tiers
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(service_tier="scale"), None),
        ("google", "gemini-2.5-pro", Tokens(1000, 100), Receipt(service_tier="PROVISIONED_THROUGHPUT"), None),
        ("google", "gemini-2.5-pro", Tokens(1000, 100), Receipt(service_tier="ON_DEMAND"), "0.00225"),
        # Ten dollars for a thousand searches; Gemini 2.5: 35 for a thousand prompts; Gemini 3: 14
        ("anthropic", "claude-haiku-4-5", Tokens(1000, 50), Receipt(server_tools=WEB), "0.02125"),
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(server_tools={"file_search": 4}), "0.01325"),
        ("google", "gemini-2.5-flash", Tokens(), Receipt(server_tools=WEB), "0.035"),
        ("google", "gemini-3-pro-preview", Tokens(), Receipt(server_tools=WEB), "0.028"),
        ("openai", "gpt-4o-search-preview", Tokens(1, 1), Receipt(server_tools=WEB), None),
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(server_tools={"code_interpreter": 1}), None),
        ("openai", "gpt-5", Tokens(1000, 200), Receipt(server_tools={"code_interpreter": 0}), "0.00325"),
        ("google", "gemini-2.5-pro", Tokens(1000, 100), Receipt(server_tools={"code_execution": 2}), "0.00225"),
        # Gemini 2.5 Flash: text 0.30, audio 1 for a million; 400 * 0.3 + 600 * 1 + 100 * 2.5
        ("google", "gemini-2.5-flash", Tokens(1000, 100), Receipt(modalities={"input_audio": 600}), "0.00097"),
        # Its image model: 0.30 input, 30 for image output
        ("google", "gemini-2.5-flash-image", Tokens(0, 1000), Receipt(modalities={"output_image": 1000}), "0.03"),
    ],
)
def test_costs_by_receipt(provider: str, model: str, tokens: Tokens, receipt: Receipt, expected: str | None) -> None:
    assert price(provider, model, tokens, receipt)[0] == (None if expected is None else Decimal(expected))


def test_the_providers_own_bill_is_the_cost() -> None:
    receipt = Receipt(cost=Decimal("0.5"), service_tier="scale")
    assert price("openrouter", "no-such-model", Tokens(1, 1), receipt) == (Decimal("0.5"), "billed by openrouter")


def test_claude_has_a_price_for_both_cache_lifetimes() -> None:
    (maker,) = [provider for provider in get_snapshot().providers if provider.id == "anthropic"]
    priced = 0
    for model in maker.models:
        costs = [price("anthropic", model.id, Tokens(8_000, 0, 0, 8_000, cache_write_1h=n))[0] for n in (0, 8_000)]
        plain = price("anthropic", model.id, Tokens(8_000, 0))[0]
        if plain and costs[0] and costs[0] != plain:
            priced += 1
            short, long = (cost and cost / plain for cost in costs)
            rough = "claude-3-haiku" in model.id  # rounded: 0.30 and 0.50 where 0.25 is the input's
            assert rough or (short, long) == (Decimal("1.25"), Decimal(2)), model.id
    assert priced >= 10


@pytest.mark.parametrize(
    ("provider", "model", "tokens"),
    [
        ("openai", "no-such-model", Tokens(1, 1)),
        ("no-such-provider", "gpt-4o", Tokens(1, 1)),
        ("openai", "whisper-1", Tokens(1, 1)),
        ("openai", "gpt-4o", Tokens(10, 1, cached=20)),
        ("openai", "gpt-4o", Tokens(-1, 1)),
    ],
)
def test_an_unknown_price_is_none(provider: str, model: str, tokens: Tokens) -> None:
    assert price(provider, model, tokens) == (None, "")


@pytest.mark.parametrize("provider", ["demo", "scripted"])
def test_what_asks_nobody_is_free(provider: str) -> None:
    assert price(provider, "any", Tokens(1000, 1000)) == (Decimal(0), "free")


def test_pricing_opens_no_thread_and_no_connection() -> None:
    program = """
import socket, threading
def refuse(*_): raise AssertionError("a connection")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from concertino.providers.pricing import price
from concertino.usage import Tokens
assert price("openai", "gpt-4o", Tokens(1, 1))[0]
assert threading.active_count() == 1, threading.enumerate()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_preload_loads_the_list_in_a_thread() -> None:
    program = """
import sys, threading
from decimal import Decimal
from concertino.providers.pricing import preload, price
from concertino.usage import Tokens
preload("scripted", "any")
assert threading.active_count() == 1
assert "genai_prices" not in sys.modules
preload("openai", "gpt-4o")
(loading,) = [thread for thread in threading.enumerate() if thread.name == "concertino-prices"]
assert price("openai", "gpt-4o", Tokens(1_000_000, 0))[0] == Decimal("2.5")
loading.join()
preload("openai", "gpt-4o")
assert threading.active_count() == 1, "a model is loaded once"
preload("no-such-provider", "gpt-4o")
[thread.join() for thread in threading.enumerate() if thread.name == "concertino-prices"]
assert price("no-such-provider", "gpt-4o", Tokens(1, 1)) == (None, "")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


prompts = st.sampled_from((0, 1, 1_000, 128_000, 200_000, 200_001, 500_000))
sizes = st.integers(0, 300_000)


@given(st.sampled_from(LISTED), prompts, sizes, sizes, sizes, sizes)
def test_costs_equal_those_of_the_list(
    listed: tuple[Any, Any], prompt: int, read: int, written: int, hour: int, completion: int
) -> None:
    maker, model = listed
    read = min(read, prompt)
    written = min(written, prompt - read)
    hour = min(hour, written)
    usage = genai_prices.Usage(
        input_tokens=prompt,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
        output_tokens=completion,
    )
    found = model.calc_price(usage, maker)
    prices = found.model_price
    paid = prices.input_mtok is not None and (not completion or prices.output_mtok is not None)
    cost, _ = price(maker.id, model.id, Tokens(prompt, completion, read, written, cache_write_1h=hour))
    assert cost == (found.total_price if paid else None)
