"""Facts planted in a long conversation: the model sees almost all of them, in requests that fit, at a stated cost."""

from __future__ import annotations

import pytest
from benchmarks.context import MODELS, drive, rule_of
from benchmarks.context_conversations import DATA, Conversation, conversation, drawn, joined, recorded
from benchmarks.context_goals import Case
from benchmarks.context_goals import figures as figures_of
from benchmarks.context_policies import Cache, Codex, Figures, Part, Policy, Sizes, part_of, simulate

from concertino import Retention
from concertino.messages import AssistantMessage, Text, ToolCall

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


@pytest.mark.parametrize("window", [32_000, 64_000])
async def test_no_published_policy_is_cheaper_and_shows_more(window: int) -> None:
    await compare(LONG, window)


@pytest.mark.parametrize(("window", "most"), [(8_000, 2.0), (16_000, 1.5), (32_000, 1.3), (64_000, 1.3)])
async def test_the_summarizer_reads_little_more_than_the_history(window: int, most: float) -> None:
    found, _ = await figures(LONG, window)
    assert found.summary_input <= most * sum(map(SIZES.tokens, LONG.messages))


@pytest.mark.parametrize(("answers", "hit"), [(3, 2_500), (4, 0)])
def test_a_breakpoint_of_the_simulated_provider_reaches_back_20_blocks(answers: int, hit: int) -> None:
    """An answer with parallel calls has a block for each."""
    parts: list[Part] = [("system", 2_000, 1), ("first", 500, 1)]
    cache = Cache(rule_of(MODELS["A"]))
    assert cache.bill(parts, [1], 0.0) == 0
    answer = AssistantMessage((Text("I look."), *(ToolCall(f"c{n}", "work", "{}") for n in range(5))))
    parts += [part_of(n, answer, SIZES) for n in range(answers)]
    assert cache.bill(parts, [len(parts) - 1], 1.0) == hit


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["drawn", "short", "logs"])
def test_freshly_drawn_conversations_meet_the_goals(kind: str) -> None:
    """All goals but those of the bill, which depend on where a conversation ends."""
    for case, goal, figure, limit in figures_of(Case(41, kind, 64_000, "A")):
        assert figure <= limit or " / " in goal, (case, goal, figure)


@pytest.mark.skipif(not DATA.exists(), reason="the recorded conversations are not part of a clone")
@pytest.mark.parametrize("kind", ["coding", "service", "chains"])
@pytest.mark.parametrize("window", [32_000, 64_000])
async def test_no_published_policy_is_better_on_recorded_conversations(kind: str, window: int) -> None:
    parts = recorded()[kind]
    found = await compare(joined(kind, parts[: {"coding": 3, "service": 50, "chains": 1}[kind]]), window)
    assert found.lost == 0
    assert found.share(found.verbatim + found.summary) >= 0.9
    if window == 64_000:
        assert found.summary_input_cost <= 0.03 * found.cost
        assert found.summary_input_cost + found.summary_output_cost <= 0.08 * found.cost


async def compare(played: Conversation, window: int) -> Figures:
    """Check cost, sight and the summarizer's input in a window; return the figures."""
    ours, system = await figures(played, window)
    limit = window - min(2_000, window // 4) - system
    codex = simulate(played, Codex(SIZES, limit), rule_of(MODELS["A"]), system)
    assert ours.cost <= 1.003 * codex.cost or ours.share(ours.verbatim) > codex.share(codex.verbatim) + 0.02
    assert ours.summary_input <= 1.305 * sum(map(SIZES.tokens, played.messages))
    assert ours.most <= window
    assert ours.misses == 0
    return ours
