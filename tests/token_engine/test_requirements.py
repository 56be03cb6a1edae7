"""What the token engine promises, and the tests of each promise; `test_findings` lists those of earlier defects."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benchmarks.context import HEADER, MODELS, drive, frontier, main, rule_of
from benchmarks.context_conversations import conversation, drawn
from benchmarks.context_policies import POLICIES, REASONING, Sizes

from concertino import Retention
from concertino.messages import UserMessage
from concertino.testing import ScriptedModel, asks_for_summary

from .test_sight import looks, records, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "context.md"
REQUIREMENTS = {
    "1. The benchmark measures sight and cost of every policy": (
        "token_engine.test_requirements::test_the_benchmark_prints_sight_and_cost_of_every_policy",
        "token_engine.test_requirements::test_the_reasoning_of_a_summarizer_is_billed",
        "token_engine.test_needles::test_a_breakpoint_of_the_simulated_provider_reaches_back_20_blocks",
        "token_engine.test_needles::test_facts_stay_in_view_or_in_a_summary",
    ),
    "2. The model sees the facts, at a bounded cost": (
        "token_engine.test_sight::test_a_conversation_below_the_floor_is_sent_whole",
        "token_engine.test_needles::test_facts_stay_in_view_or_in_a_summary",
        "token_engine.test_needles::test_a_conversation_that_fits_costs_as_much_as_without_a_policy",
        "token_engine.test_needles::test_no_published_policy_is_cheaper_and_shows_more",
        "token_engine.test_needles::test_no_published_policy_is_better_on_recorded_conversations",
        "token_engine.test_needles::test_freshly_drawn_conversations_meet_the_goals",
        "token_engine.test_floor::test_a_summary_waits_until_its_price_is_a_small_share_of_the_bill",
    ),
    "3. There is one summary, in fixed sections, and little code": (
        "token_engine.test_requirements::test_a_view_has_one_summary_in_sections",
        "token_engine.test_sight::test_the_summarizer_reads_whole_results",
        "token_engine.test_sight::test_each_summary_frees_a_share_of_a_small_window",
        "rules.test_sizes::test_the_token_engine_stays_small",
    ),
    "4. Nothing is edited below the floor": (
        "token_engine.test_floor::test_nothing_is_summarized_below_the_floor",
        "token_engine.test_floor::test_a_floor_in_tokens_is_the_same_in_every_window",
        "token_engine.test_floor::test_a_conversation_of_3000_tokens_is_left_alone_in_a_window_of_128000",
        "token_engine.test_requirements::test_the_page_shows_the_defaults",
    ),
    "5. The user's messages and pinned ones stay": (
        "token_engine.test_sight::test_the_users_constraints_stay_word_for_word",
        "token_engine.test_sight::test_a_pinned_message_stays_when_the_users_messages_exceed_their_share",
        "token_engine.test_bug_classes::test_the_first_and_the_newest_user_message_stay_in_the_view",
        "token_engine.test_bug_classes::test_merging_summaries_keeps_pinned_messages",
    ),
    "6. Digests show what matters, and recall finds the rest": (
        "token_engine.test_sight::test_a_digest_names_failures_and_the_end",
        "token_engine.test_sight::test_recall_joins_with_the_first_edit_and_finds_a_fact_in_one_call",
        "token_engine.test_recall::test_recall_finds_a_fact_of_a_result_that_was_summarized_twice",
        "token_engine.test_recall::test_recall_finds_a_fact_of_a_users_message",
    ),
    "7. Small windows are not summarized again and again": (
        "token_engine.test_sight::test_retention_refuses_numbers_that_it_cannot_use",
        "token_engine.test_sight::test_a_summary_is_short_where_its_span_is",
        "token_engine.test_needles::test_the_summarizer_reads_little_more_than_the_history",
        "token_engine.test_failed_summaries::test_a_tiny_window_asks_for_at_most_one_summary_for_each_request",
    ),
    "8. Summaries are data, and failures cost little": (
        "token_engine.test_sight::test_a_record_is_a_message_of_the_user_and_never_an_instruction",
        "token_engine.test_sight::test_a_summary_cannot_end_its_record_or_begin_another_one",
        "token_engine.test_sight::test_a_summary_is_asked_for_with_the_settings_of_the_turn",
        "token_engine.test_sight::test_sections_and_instructions_and_model_are_settings",
        "token_engine.test_transcripts::test_a_result_cannot_pass_for_a_message_in_the_transcript_of_a_summarizer",
        "token_engine.test_transcripts::test_a_result_cannot_pass_for_a_message_in_what_recall_shows",
        "token_engine.test_failed_summaries::test_a_summarizer_that_always_fails_is_asked_twice_in_a_conversation",
        "token_engine.test_failed_summaries::test_failures_cost_a_small_share_of_the_bill",
        "token_engine.test_failed_summaries::test_a_resumed_run_remembers_its_failures",
    ),
    "9. Equal runs send equal bytes, within the limit": (
        "token_engine.test_sight::test_identical_runs_send_identical_bytes",
        "token_engine.test_transcripts::test_equal_transcripts_have_equal_marks",
        "token_engine.test_needles::test_facts_stay_in_view_or_in_a_summary",
        "token_engine.test_limit::test_no_request_exceeds_the_window",
        "unit.token_engine.test_invariants::test_invariants_of_random_conversations",
    ),
    "10. Counts are near": (
        "token_engine.test_estimates::test_the_estimate_is_near_for_every_script_and_kind",
        "token_engine.test_estimates::test_the_size_of_a_request_is_near_once_a_provider_has_counted",
        "token_engine.test_estimates::test_the_size_of_a_recorded_request_is_near",
        "unit.token_engine.test_margin::test_no_request_exceeds_the_limit",
    ),
    "11. Notes, compaction by the provider, and images": (
        "agents.test_notes::test_the_newest_notes_survive_summaries_and_older_ones_leave",
        "wire.test_compaction::test_anthropics_summary_is_billed_sent_back_and_no_measure_of_the_view",
        "wire.test_compaction::test_openais_item_is_sent_back",
        "unit.token_engine.test_image_sizes::test_an_image_counts_as_its_provider_publishes",
        "unit.providers.test_scaled_images::test_claude_gets_the_scaled_image_and_the_message_keeps_the_whole",
    ),
}
"""By promise: module and name of each test."""


@pytest.mark.parametrize("promise", REQUIREMENTS)
def test_each_promise_has_its_tests(promise: str) -> None:
    for name in REQUIREMENTS[promise]:
        module, _, test = name.partition("::")
        assert callable(getattr(import_module(f"tests.{module}"), test, None)), name


def test_the_benchmark_prints_sight_and_cost_of_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    frontier(conversation("drawn", drawn(1, 90)), MODELS["A"], 16_000, {"concertino": Retention()}, Sizes())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert {"policy", "verbatim/summary/recallable/lost", "x untrimmed", "x sliding"} <= {*HEADER}
    assert {row[1] for row in rows} == {policy.name for policy in POLICIES[1:]} | {"concertino"}
    for row in rows:
        assert len(row) == len(HEADER)
        assert abs(sum(map(int, row[2].split("/"))) - 100) <= 2


@pytest.mark.parametrize("kind", ["short", "poems"])
def test_the_benchmark_refuses_kinds_that_it_does_not_have(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--kinds", kind])
    error = capsys.readouterr().err
    assert f"invalid --kinds {kind!r}: choose from drawn" in error
    assert "--unseen also has short" in error


async def test_the_reasoning_of_a_summarizer_is_billed() -> None:
    played = conversation("drawn", drawn(1, 90))
    found, _ = await drive(played, MODELS["A"], 16_000, Retention(), Sizes())
    assert found.summaries
    assert found.summary_output_cost > found.summaries * rule_of(MODELS["A"]).output * REASONING


async def test_a_view_has_one_summary_in_sections() -> None:
    model = ScriptedModel(*looks(90), "done", summaries=["notes"] * 90)
    await run(model)
    asked = [request.messages[-1] for request in model.requests if asks_for_summary(request)]
    assert len(asked) > 1
    for message in asked:
        assert isinstance(message, UserMessage)
        assert re.findall(r"^- ([\w' ]+)", message.text, re.MULTILINE) == [
            *("The user's words", "Decisions", "Files", "Errors", "Done", "Open", "Next step")
        ]
    assert max(len(records(request)) for request in model.requests) == 1


def test_the_page_shows_the_defaults() -> None:
    (shown,) = re.findall(
        r"^(from concertino import [^`]*?retention = Retention\(.*?^\)$)", PAGE.read_text(), re.M | re.S
    )
    names: dict[str, Any] = {}
    exec(shown, names)
    assert replace(names["retention"], style=Retention().style) == Retention()
