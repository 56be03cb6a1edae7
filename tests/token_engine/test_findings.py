"""What an independent measurement of the token engine found wrong, and the tests that keep each finding away."""

from __future__ import annotations

from importlib import import_module

import pytest

FINDINGS = {
    "a window of which most stays unused": (
        "token_engine.test_floor::test_nothing_is_summarized_below_the_floor",
        "token_engine.test_floor::test_a_floor_above_the_usual_start_holds",
        "token_engine.test_needles::test_facts_stay_in_view_or_in_a_summary",
    ),
    "summaries that a model with reasoning refuses": (
        "token_engine.test_sight::test_a_summary_is_asked_for_with_the_settings_of_the_turn",
        "token_engine.test_sight::test_a_failing_summarizer_is_asked_twice_and_no_more",
    ),
    "results that are reduced before the summarizer reads them": (
        "token_engine.test_sight::test_the_summarizer_reads_whole_results",
    ),
    "digests that show only the beginning": ("token_engine.test_sight::test_a_digest_names_failures_and_the_end",),
    "recall that is absent, or pages without a search": (
        "token_engine.test_sight::test_recall_joins_with_the_first_edit_and_finds_a_fact_in_one_call",
    ),
    "the user's words leave": (
        "token_engine.test_sight::test_the_users_constraints_stay_word_for_word",
        "token_engine.test_sight::test_a_pinned_message_stays_when_the_users_messages_exceed_their_share",
        "token_engine.test_bug_classes::test_merging_summaries_keeps_pinned_messages",
    ),
    "summaries that speak as the system": (
        "token_engine.test_sight::test_a_record_is_a_message_of_the_user_and_never_an_instruction",
        "token_engine.test_sight::test_a_summary_cannot_end_its_record_or_begin_another_one",
    ),
    "small windows that are summarized again and again": (
        "token_engine.test_sight::test_each_summary_frees_a_share_of_a_small_window",
        "token_engine.test_needles::test_the_summarizer_reads_little_more_than_the_history",
    ),
    "requests over the limit": (
        "token_engine.test_limit::test_no_request_exceeds_the_window",
        "token_engine.test_limit::test_no_request_of_a_recorded_conversation_exceeds_the_window",
    ),
    "cache misses that are none": ("token_engine.test_needles::test_facts_stay_in_view_or_in_a_summary",),
    "equal runs that send other bytes": (
        "token_engine.test_sight::test_identical_runs_send_identical_bytes",
        "wire.test_compaction::test_a_run_that_crashed_behind_a_compaction_sends_the_same_request",
    ),
    "ordinary runs that cost more than without a policy": (
        "token_engine.test_needles::test_a_conversation_that_fits_costs_as_much_as_without_a_policy",
        "token_engine.test_floor::test_a_conversation_of_3000_tokens_is_left_alone_in_a_window_of_128000",
        "token_engine.test_floor::test_a_summary_waits_until_its_price_is_a_small_share_of_the_bill",
    ),
    "a bill above that of published policies": (
        "token_engine.test_needles::test_no_published_policy_is_cheaper_and_shows_more",
        "token_engine.test_needles::test_no_published_policy_is_better_on_recorded_conversations",
    ),
    "a benchmark without parallel calls": (
        "token_engine.test_needles::test_a_breakpoint_of_the_simulated_provider_reaches_back_20_blocks",
    ),
    "prompts without sections or settings": (
        "token_engine.test_sight::test_sections_and_instructions_and_model_are_settings",
    ),
    "estimates far from the tokenizer": (
        "token_engine.test_estimates::test_the_estimate_is_near_for_every_script_and_kind",
    ),
    "anchored estimates that miss by more than 1 %": (
        "token_engine.test_estimates::test_the_size_of_a_request_is_near_once_a_provider_has_counted",
        "token_engine.test_estimates::test_the_size_of_a_recorded_request_is_near",
    ),
    "images that all count the same": (
        "unit.token_engine.test_image_sizes::test_an_image_counts_as_its_provider_publishes",
    ),
    "settings that are taken although they are none": (
        "token_engine.test_sight::test_retention_refuses_what_it_cannot_use",
        "token_engine.test_sight::test_a_style_refuses_what_it_cannot_use",
        "token_engine.test_sight::test_limits_within_refuses_what_is_no_number_of_tokens",
    ),
    "calls without their results": (
        "token_engine.test_bug_classes::test_parallel_results_stay_together",
        "unit.token_engine.test_invariants::test_invariants_of_random_conversations",
    ),
}
"""By finding: module and name of each test."""


@pytest.mark.parametrize("finding", FINDINGS)
def test_each_finding_has_its_tests(finding: str) -> None:
    for name in FINDINGS[finding]:
        module, _, test = name.partition("::")
        assert callable(getattr(import_module(f"tests.{module}"), test, None)), name
