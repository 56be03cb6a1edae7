"""The rules by which the hooks of parts become one decision."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    AssistantMessage,
    Chat,
    Continue,
    DataPolicy,
    Deny,
    Fail,
    Finish,
    HookError,
    KeepFor,
    Limits,
    Part,
    Runtime,
    Special,
    SystemMessage,
    Text,
    ToolData,
    ToolOrchestrator,
    delegate,
)
from concertino.errors import ConfigurationError
from concertino.messages import ForcedTool, ToolCall
from concertino.orchestrator.agent import HOOKS, OBSERVERS
from concertino.orchestrator.composition import _CHAINED, _MERGED, merge_permissions, strictest
from concertino.orchestrator.hooks import Hooks
from concertino.orchestrator.outcome import Outcome
from concertino.testing import ScriptedModel

SINGLE = sorted(set(HOOKS) - set(OBSERVERS) - _CHAINED.keys() - _MERGED.keys())


def part(name: str, **hooks: Any) -> Part:
    """Return a part with these hooks; each is a function without `self`."""
    made: Part = type(name, (Part,), {hook: staticmethod(function) for hook, function in hooks.items()})()
    return made


def decide(hook: str, parts: Sequence[Part], *args: Any, agent: Any = None) -> Any:
    own = {} if agent is None else {hook: staticmethod(agent)}
    config: AgentConfig[Any] = type("Desk", (AgentConfig,), {"name": "desk", "parts": tuple(parts), **own})()
    return asyncio.run(getattr(Hooks(config), hook)(*args))


# -- single-valued -----------------------------------------------------------------------------------------------------


def test_every_hook_has_one_rule() -> None:
    assert SINGLE == [
        "answer_without_model",
        "get_model_id",
        "initialize_agent_state",
        "interpret_response",
        "on_limit",
        "on_no_tool_calls",
        "on_tools_disabled",
        "preprocess_tool_arguments",
        "should_continue_loop",
    ]
    assert not _CHAINED.keys() & _MERGED.keys()


@pytest.mark.parametrize("hook", SINGLE)
def test_two_deciders_of_a_single_valued_hook_are_an_error_that_names_both(hook: str) -> None:
    def any_hook(run: Any, *_: Any) -> Any:
        return None

    one, two = part("One", **{hook: any_hook}), part("Two", **{hook: any_hook})
    with pytest.raises(ConfigurationError, match=f"agent 'desk': {hook} is decided by part 'One' and by part 'Two'"):
        type("Desk", (AgentConfig,), {"name": "desk", "parts": (one, two)})()
    with pytest.raises(ConfigurationError, match="is decided by part 'One' and by agent 'desk'"):
        type("Desk", (AgentConfig,), {"name": "desk", "parts": (one,), hook: staticmethod(any_hook)})()
    agent: AgentConfig[Any] = type("Desk", (AgentConfig,), {"name": "desk"})()
    agent.parts = (one, two)
    chat = Chat("x", model=ScriptedModel())
    for use in (
        lambda: ToolOrchestrator(chat, agent),
        lambda: Runtime([agent]),
        lambda: delegate(agent, description=""),
    ):
        with pytest.raises(ConfigurationError, match=hook):
            use()


def test_a_part_of_a_single_valued_hook_decides_it() -> None:
    assert decide("get_model_id", [part("Small", get_model_id=lambda run: "x:small")], None) == "x:small"


# -- the parts themselves ----------------------------------------------------------------------------------------------


def test_a_misspelt_hook_of_a_part_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"Money\.authorise_tool_call is not a hook: rename it to authorize_"):
        part("Money", authorise_tool_call=lambda run, call, arguments: Allow()).name = "x"

    class Money(Part):
        def authorise_tool_call(self, run: Any, call: Any, arguments: Any) -> Any:
            return Allow()

    with pytest.raises(ConfigurationError, match="authorise_tool_call is not a hook"):
        Money()


class Hours:
    """Allows."""

    def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Allow | Deny:
        return Allow()


class Ceiling:
    """Denies."""

    def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Allow | Deny:
        return Deny("too much")


def test_a_hook_that_is_inherited_twice_is_an_error() -> None:
    """Python would call the first one only, and the other rule would be lost."""

    class Clerk(Hours, Ceiling, AgentConfig[None]):
        pass

    class Both(Hours, Ceiling, Part):
        pass

    for made in (Clerk, Both):
        with pytest.raises(ConfigurationError, match="inherits authorize_tool_call from Hours and Ceiling"):
            made()


def test_a_class_may_decide_between_inherited_hooks_or_call_them_all() -> None:
    class Decided(Hours, Ceiling, AgentConfig[None]):
        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Allow | Deny:
            return Ceiling.authorize_tool_call(self, run, call, arguments)

    class Polite(Hours):
        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Allow | Deny:
            return super().authorize_tool_call(run, call, arguments)

    class Cooperative(Polite, Ceiling, AgentConfig[None]):
        pass

    class Child(Hours, AgentConfig[None]):
        pass

    for made in (Decided, Cooperative, Child):
        assert isinstance(made(), AgentConfig)


def test_a_wrong_signature_of_a_part_is_an_error() -> None:
    class Money(Part):
        def authorize_tool_call(self, run: Any, call: Any) -> Any:
            return Allow()

    with pytest.raises(ConfigurationError, match=r"Money\.authorize_tool_call: too many positional arguments"):
        Money()


def test_what_is_no_part_is_an_error() -> None:
    class Money(Part):
        pass

    for wrong in (Money(), [Money], ["memory"]):
        with pytest.raises(ConfigurationError, match="use a tuple of Part objects"):
            type("Desk", (AgentConfig,), {"parts": wrong})()


def test_an_error_names_the_part() -> None:
    def fails(run: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(HookError, match=r"hook prepare of agent 'desk' \(part 'Facts'\) raised ValueError: no"):
        decide("prepare", [part("Facts", prepare=fails), part("More", prepare=lambda run: ())], None)
    with pytest.raises(HookError, match=r"\(part 'Facts'\) returned None; it must return Sequence"):
        decide("prepare", [part("Facts", prepare=lambda run: None)], None)


# -- permissions -------------------------------------------------------------------------------------------------------

PERMISSIONS = st.one_of(
    st.just(Allow()),
    st.builds(Deny, st.text(max_size=3)),
    st.builds(
        Ask,
        who=st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(tuple),
        seconds=st.none() | st.integers(1, 100),
    ),
)


@given(st.lists(PERMISSIONS, min_size=1, max_size=3))
def test_the_strictest_permission_wins_in_any_order(permissions: list[Allow | Deny | Ask]) -> None:
    merged = merge_permissions(permissions)
    asks = [each for each in permissions if isinstance(each, Ask)]
    if any(isinstance(each, Deny) for each in permissions):
        assert isinstance(merged, Deny)
    elif not asks:
        assert merged == Allow()
    elif isinstance(merged, Ask):
        for ask in asks:
            assert ask.seconds is None or (merged.seconds is not None and merged.seconds <= ask.seconds)
            assert not ask.who or set(merged.who) <= set(ask.who)
            assert not ask.who or merged.who, "nobody must not become everybody"
    for other in permutations(permissions):
        again = merge_permissions(other)
        assert type(again) is type(merged)
        if isinstance(again, Ask) and isinstance(merged, Ask):
            assert (set(again.who), again.seconds) == (set(merged.who), merged.seconds)


def test_asks_become_one_question() -> None:
    first, second = Ask(who=("ann", "bob"), seconds=60, note="money"), Ask(who=("bob", "eve"), note="abroad")
    asks: list[Allow | Deny | Ask] = [first, Allow(), second, Ask()]
    assert merge_permissions(asks) == Ask(who=("bob",), seconds=60, note="money; abroad")
    assert isinstance(merge_permissions([Ask(who=("ann",)), Ask(who=("bob",))]), Deny)


def test_all_parts_and_the_agent_are_asked() -> None:
    asked: list[str] = []

    def say(name: str, decision: Any) -> Any:
        def authorize(run: Any, call: Any, arguments: Any) -> Any:
            asked.append(name)
            return decision

        return authorize

    parts = [
        part("Hours", authorize_tool_call=say("hours", Allow())),
        part("Money", authorize_tool_call=say("money", Deny("too much"))),
        part("Manager", authorize_tool_call=say("manager", Ask())),
    ]
    got = decide("authorize_tool_call", parts, None, None, {}, agent=say("agent", Deny("closed")))
    assert got == Deny("too much; closed")
    assert asked == ["hours", "money", "manager", "agent"]


# -- merged and chained ------------------------------------------------------------------------------------------------


def test_messages_stay_in_order() -> None:
    async def later(run: Any) -> Any:
        return [SystemMessage("b"), SystemMessage("c")]

    parts = [part("A", prepare=lambda run: [SystemMessage("a")]), part("B", prepare=later)]
    run = SimpleNamespace(limits=Limits())  # an asynchronous hook has a time limit
    messages = decide("prepare", parts, run, agent=lambda run: (SystemMessage("d"),))
    assert [message.text for message in messages] == ["a", "b", "c", "d"]


def test_tools_are_sent_if_all_agree() -> None:
    yes, no = part("Yes", should_send_tools=lambda run: True), part("No", should_send_tools=lambda run: False)
    assert decide("should_send_tools", [yes, yes], None) is True
    assert decide("should_send_tools", [yes, no], None) is False


@pytest.mark.parametrize("hook", ["conclude", "review_input"])
def test_texts_are_chained_in_order(hook: str) -> None:
    parts = [part(name, **{hook: lambda run, text, name=name: text + name}) for name in "AB"]
    assert decide(hook, parts, None, "x", agent=lambda run, text: text + "!") == "xAB!"


@pytest.mark.parametrize(
    ("hook", "value", "decision"),
    [
        ("review_input", "text", Finish("no")),
        ("review_answer", AssistantMessage((Text("x"),)), Continue((SystemMessage("again"),))),
        ("process_tool_calls", (ToolCall("1", "pay", "{}"),), Fail("no")),
    ],
)
def test_a_decision_ends_the_chain(hook: str, value: Any, decision: Any) -> None:
    def unreachable(run: Any, value: Any) -> Any:
        raise AssertionError

    parts = [
        part("Same", **{hook: lambda run, value: value}),
        part("Stop", **{hook: lambda run, value: decision}),
        part("Later", **{hook: unreachable}),
    ]
    assert decide(hook, parts, None, value) == decision


def test_each_part_sees_what_the_previous_one_decided_after_a_step() -> None:
    parts = [
        part("Verifier", after_step=lambda run, outcome: Continue() if isinstance(outcome, Finish) else outcome),
        part("Counter", after_step=lambda run, outcome: Fail("again") if isinstance(outcome, Continue) else outcome),
    ]
    assert decide("after_step", parts, None, Finish()) == Fail("again")


def test_special_results_are_chained_and_the_rest_is_set_once() -> None:
    outcome = Outcome(ToolCall("1", "look", "{}"), "secret")
    parts = [
        part("Mask", handle_special_tools=lambda run, call, outcome: Special(outcome.content.upper(), withhold=True)),
        part("None", handle_special_tools=lambda run, call, outcome: None),
        part("Mark", handle_special_tools=lambda run, call, outcome: Special(outcome.content + "!", ForcedTool("a"))),
    ]
    merged = decide("handle_special_tools", parts, None, outcome.call, outcome)
    assert merged == Special("SECRET!", ForcedTool("a"), withhold=True)
    assert outcome.content == "secret"
    again = part("Again", handle_special_tools=lambda run, call, outcome: Special(tool_choice="none"))
    with pytest.raises(HookError, match=r"\(part 'Again'\) sets tool_choice, which an earlier part has set"):
        decide("handle_special_tools", [*parts, again], None, outcome.call, outcome)


# -- data policies -----------------------------------------------------------------------------------------------------

TREATMENTS: Any = st.sampled_from(["keep", "hash", "redact"]) | st.integers(1, 9).map(lambda s: KeepFor(seconds=s))
TOOL_DATA = st.builds(ToolData, arguments=TREATMENTS, results=TREATMENTS) | st.just(
    ToolData(arguments="drop", results="drop")
)
POLICIES = st.builds(
    DataPolicy,
    text=TREATMENTS | st.just("drop"),
    reasoning=TREATMENTS | st.just("drop"),
    tools=st.dictionaries(st.sampled_from(["a", "b"]), TOOL_DATA),
    other_tools=TOOL_DATA,
    keep_whole_results=st.booleans(),
    hash_key=st.just(b"k" * 16),
)


def strictness(how: Any) -> tuple[int, float]:
    return (1, -how.seconds) if isinstance(how, KeepFor) else (["keep", "", "hash", "redact", "drop"].index(how), 0)


@given(POLICIES, POLICIES)
def test_the_strictest_policy_wins_for_each_field(one: DataPolicy, two: DataPolicy) -> None:
    merged = strictest(one, two)
    assert merged == strictest(two, one)
    assert strictest(merged, one) == merged
    pairs = [(policy.text, policy.reasoning) for policy in (merged, one, two)]
    for name in ("a", "b", "c"):
        tools = [policy.tool(name) for policy in (merged, one, two)]
        pairs = [(*pair, data.arguments, data.results) for pair, data in zip(pairs, tools, strict=True)]  # type: ignore[misc]
    for got, first, second in zip(*pairs, strict=True):
        assert strictness(got) == max(strictness(first), strictness(second))
    assert merged.keep_whole_results == (one.keep_whole_results and two.keep_whole_results)


def test_parts_and_agent_share_the_strictest_policy() -> None:
    parts = [part("A", get_data_policy=lambda: DataPolicy(text="redact"))]
    merged = decide("get_data_policy", parts, agent=lambda: DataPolicy(reasoning="drop", keep_whole_results=True))
    assert merged == DataPolicy(text="redact", reasoning="drop")


# -- observers ---------------------------------------------------------------------------------------------------------


def test_every_observer_sees_and_none_can_keep_others_from_it(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    def fails(run: Any, calls: Any) -> None:
        raise ValueError("secret")

    parts = (
        part("Bad", on_tools_selected=fails),
        part("Good", on_tools_selected=lambda run, calls: seen.append(calls)),
    )
    config: AgentConfig[Any] = type("Desk", (AgentConfig,), {"parts": parts})()
    hooks = Hooks(config)
    assert hooks.watches_selection
    assert not hooks.watches_tools
    hooks.observe_selection(None, ())  # type: ignore[arg-type]
    assert seen == [()]
    assert "on_tools_selected of part 'Bad' failed: ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_an_agent_without_parts_has_its_plain_hooks() -> None:
    class Desk(AgentConfig[None]):
        def conclude(self, run: Any, text: str) -> str:
            return text

    hooks = Hooks(Desk())
    assert [name for name in HOOKS if name not in OBSERVERS and getattr(hooks, name).own] == ["conclude"]
