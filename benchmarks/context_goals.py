"""The goals of the policy on freshly drawn conversations: `python -m benchmarks.context_goals [--seeds 1 2 3]`.

Prints each figure that misses its goal, and then the worst figure for each goal. A seed draws long conversations of
seven kinds, for each window, and conversations of natural length for a window of 200,000 tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

from benchmarks.context import MODELS, drive, rule_of
from benchmarks.context_conversations import Conversation, fresh, fresh_natural
from benchmarks.context_policies import POLICIES, Figures, Sizes, simulate
from concertino import Retention

WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000, 200_000)
READ = {8_000: 2.0, 16_000: 1.5}
"""By window: the most that the summarizer may read, as a share of the history; 1.3 in larger windows."""
EQUAL = 0.02
"""Difference of two shares of verbatim facts that count as equal."""


@dataclass(frozen=True)
class Case:
    """A conversation in a window of a model."""

    seed: int
    kind: str
    window: int
    model: str


Row = tuple[Case, str, float, float]
"""A case, its goal, the figure and the limit, which the figure must not exceed."""


def figures(case: Case) -> list[Row]:
    """Return the figure for each goal that applies to *case*."""
    played, sizes = fresh(case.seed)[case.kind], Sizes()
    ours, system = asyncio.run(drive(played, MODELS[case.model], case.window, Retention(), sizes))
    return [(case, *found) for found in _goals(case, played, ours, system, sizes)]


def _goals(
    case: Case, played: Conversation, ours: Figures, system: int, sizes: Sizes
) -> Iterator[tuple[str, float, float]]:
    window, history = case.window, sum(map(sizes.tokens, played.messages))
    limit = window - min(2_000, window // 4) - system
    yield "cache misses", ours.misses, 0
    yield "largest request / window", ours.most / window, 1
    yield "summarizer input / history", ours.summary_input / history, READ.get(window, 1.3)
    if history < 0.6 * limit:
        yield "edits below the floor", ours.edits, 0
    if window >= 64_000:
        yield "facts neither verbatim nor in a summary", 1 - ours.share(ours.verbatim + ours.summary), 0.1
        yield "facts lost", ours.share(ours.lost), 0
        yield "constraints not verbatim", 1 - ours.constraints_verbatim / max(ours.constraints, 1), 0
    if window == 64_000:
        yield "summarizer input / bill", ours.summary_input_cost / ours.cost, 0.03
        yield "summarizer / bill", (ours.summary_input_cost + ours.summary_output_cost) / ours.cost, 0.08
    for policy in POLICIES:
        theirs = simulate(played, policy(sizes, limit), rule_of(MODELS[case.model]), system)
        if theirs.most > window or policy is POLICIES[0]:
            continue
        ahead = theirs.share(theirs.verbatim) - ours.share(ours.verbatim)
        if abs(ahead) <= EQUAL:
            yield f"cost / {policy.name} at equal sight", ours.cost / theirs.cost, 1
        elif ahead > 0 and theirs.share(theirs.lost) <= ours.share(ours.lost):
            yield f"cost / {policy.name} that shows more", ours.cost / theirs.cost, 1


def natural(case: Case) -> list[Row]:
    """Return what a conversation of natural length costs in its window, relative to no trimming."""
    played, sizes = fresh_natural(case.seed)[case.kind], Sizes()
    spec = MODELS[case.model]
    ours, system = asyncio.run(drive(played, spec, case.window, Retention(), sizes))
    whole = simulate(played, POLICIES[0](sizes, 10**9), rule_of(spec), system)
    if whole.most > case.window - 2_000:
        return []
    return [(case, "natural length / no trimming", ours.cost / whole.cost, 1.03)]


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the misses and the worst figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context_goals", description=__doc__)
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=["A"])
    parser.add_argument("--windows", nargs="*", type=int, default=WINDOWS)
    parser.add_argument("--kinds", nargs="*")
    chosen = parser.parse_args(arguments)
    kinds = chosen.kinds or list(fresh(1))
    long = [Case(*each) for each in product(chosen.seeds, kinds, chosen.windows, chosen.models)]
    short = [
        Case(seed, kind, 200_000, model)
        for seed, model in product(chosen.seeds, chosen.models)
        for kind in fresh_natural(seed)
    ]
    found: list[Row] = []
    with ProcessPoolExecutor(2) as pool:
        for some in (*pool.map(figures, long), *pool.map(natural, short)):
            found += some
    for case, goal, figure, limit in found:
        if figure > limit + 1e-9:
            where = f"{case.kind} {case.seed}, {case.window // 1_000}k, {case.model}"
            print(f"missed: {where}: {goal} {figure:.3f} > {limit}")
    for goal in dict.fromkeys(goal for _, goal, _, _ in found):
        every = [(figure, limit) for _, each, figure, limit in found if each == goal]
        misses = sum(figure > limit + 1e-9 for figure, limit in every)
        mean = statistics.mean(figure for figure, _ in every)
        print(f"{goal}: {len(every)} figures, {misses} missed, mean {mean:.3f}, most {max(every)[0]:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
