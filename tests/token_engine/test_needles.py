"""Facts planted in a long conversation: the model sees almost all of them, in requests that fit, at a stated cost."""

from __future__ import annotations

import pytest
from benchmarks.context import MODELS, drive, rule_of
from benchmarks.context_conversations import Conversation, conversation, drawn, joined
from benchmarks.context_policies import Codex, Figures, Policy, Sizes, simulate

from concertino import Retention

SIZES = Sizes()
LONG = joined("drawn", [drawn(1, 90), drawn(2, 90)])


async def figures(played: Conversation, window: int, model: str = "A") -> tuple[Figures, int]:
    return await drive(played, MODELS[model], window, Retention(), SIZES)


@pytest.mark.parametrize(
    ("window", "model"), [(64_000, "A"), (64_000, "O"), (64_000, "G"), (32_000, "A"), (16_000, "A"), (8_000, "G")]
)
async def test_facts_stay_in_view_or_in_a_summary(window: int, model: str) -> None:
    found, _ = await figures(LONG, window, model)
    assert found.edits
    assert found.lost == 0
    assert found.share(found.verbatim + found.summary) >= 0.9
    assert found.most <= window
    assert found.misses == 0
    if window >= 32_000:
        assert found.constraints_verbatim == found.constraints


async def test_a_conversation_that_fits_costs_as_much_as_without_a_policy() -> None:
    played = conversation("drawn", drawn(3, 60))
    ours, system = await figures(played, 200_000)
    whole = simulate(played, Policy(SIZES, 10**9), rule_of(MODELS["A"]), system)
    assert ours.edits == 0
    assert ours.share(ours.verbatim) == 1
    assert ours.cost <= 1.001 * whole.cost


async def test_no_published_policy_is_cheaper_and_shows_more() -> None:
    ours, system = await figures(LONG, 64_000)
    codex = simulate(LONG, Codex(SIZES, 62_000 - system), rule_of(MODELS["A"]), system)
    assert ours.cost < codex.cost or ours.share(ours.verbatim) > codex.share(codex.verbatim)
