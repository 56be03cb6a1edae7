"""The data policy removes the content that it forbids and leaves the rest unchanged."""

from __future__ import annotations

import dataclasses
import json
import types
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from concertino.agents import DeepResearchSupervisor, ResearcherAgent
from concertino.context_state import ContextReport, ContextState
from concertino.errors import ConfigurationError
from concertino.events import (
    CacheMiss,
    ContextEdited,
    CustomEvent,
    Event,
    Notice,
    PartialOutput,
    ReasoningDelta,
    RunEnded,
    RunEvent,
    RunResult,
    StepStarted,
    StoppedWork,
    TextDelta,
    ToolCallDelta,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolsSelected,
    ToolStreamed,
    TurnCompleted,
    UsageRecorded,
    Voided,
)
from concertino.messages import (
    AssistantMessage,
    Message,
    MessagePart,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.orchestrator.journal.data_policy import (
    DataPolicy,
    KeepFor,
    ToolData,
    Treatment,
    stored_message,
    stored_text,
)
from concertino.orchestrator.journal.event_policy import observed_event
from concertino.providers.http.encoding import arguments_object
from concertino.usage import Receipt
from concertino.waits import Wait

CANARY = "c4n4ry"
KEY = b"0123456789abcdef"
KEEP = DataPolicy()

# -- all messages and events, with a canary in every field that is not known to be structure ---------------------------

TOOLS = ("search", "secret")
STRUCTURE = {
    "conversation_id",
    "traceparent",
    "agent", "agent_path", "attempt", "call_id", "code", "effect", "handle", "how", "id", "key", "model", "name",
    "next_model", "parent_call", "price_version", "provider", "reason", "root_id", "run_id", "target", "tool", "tools",
    "what", "who",
}  # fmt: skip
BARE = {StepStarted, UsageRecorded, Notice, ContextEdited, CacheMiss, Voided}
OWN_WORDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (Notice, "text"): st.just("the engine's own words"),
    (CustomEvent, "name"): st.just("weather"),
    (Reasoning, "id"): st.none() | st.just(CANARY),  # it is the provider's word for what it holds
    (Wait, "resolution"): st.none(),  # the waits of a result are open
    (RunResult, "tool_calls"): st.just({"supervisor": 2}),
    (RunResult, "context"): st.none() | st.just(ContextState([["reduce", [1], [CANARY]]])),
    (RunResult, "report"): st.none(),
    (ToolMessage, "stored"): st.just(True),  # the policy decides; the results that decide themselves have a test
    (UserMessage, "stored"): st.just(True),
    (ToolDone, "stored"): st.just(True),
}
canaries = st.builds(lambda before, after: before + CANARY + after, st.text(max_size=5), st.text(max_size=5))
steps = st.builds(
    lambda part, ended: {"id": 1, "name": "Reading", "icon": "", "parts": [part], "ended": ended, "more": part},
    canaries,
    st.booleans(),
)
plain: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(0, 9),
    float: st.just(1.0),
    bool: st.booleans(),
    type(None): st.none(),
    Decimal: st.just(Decimal(1)),
    ContextReport: st.just(ContextReport()),
    Receipt: st.just(Receipt(response_id="structure", usage='{"prompt_tokens": 1}')),
    list[int]: st.just([3, 2, 1]),
    list[list[Any]]: st.builds(lambda text: [["reduce", [1], [text]]], canaries),
    Any: canaries | st.builds(lambda text: {"rows": [text]}, canaries),
}


def made(hint: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Values of the type *hint* for a field called *name*."""
    if hint is str:
        named = st.sampled_from(TOOLS) if name in {"name", "tool"} else st.just("structure")
        return named if name in STRUCTURE else canaries
    if hint in plain or dataclasses.is_dataclass(hint):
        return plain[hint] if hint in plain else every(hint)
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(inner)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([made(one, name) for one in inner])
    if get_origin(hint) is tuple:
        return st.lists(made(inner[0], name), max_size=3).map(tuple)
    assert get_origin(hint) is dict, f"{hint} is new: say here how one is made"
    return steps if name == "step" else st.dictionaries(st.sampled_from(TOOLS), made(inner[1]), max_size=2)


def every(cls: Any) -> st.SearchStrategy[Any]:
    """Objects of a dataclass, each field filled by its type."""
    hints = get_type_hints(cls)
    names = [
        field.name for field in dataclasses.fields(cls) if cls not in get_args(MessagePart) or field.name != "kind"
    ]
    own = {name: OWN_WORDS[cls, name] for name in names if (cls, name) in OWN_WORDS}
    return st.builds(cls, **{name: made(hints[name], name) for name in names} | own)


messages = st.deferred(lambda: made(Message))
all_events = st.deferred(lambda: made(RunEvent))
EVENTS = [pytest.param(every(cls), id=cls.__name__) for cls in get_args(RunEvent)]
words: st.SearchStrategy[Treatment] = st.sampled_from(("redact", "hash", "drop"))
timed: st.SearchStrategy[Treatment] = st.sampled_from((KeepFor(5), KeepFor(9)))


def policies(treatment: st.SearchStrategy[Treatment]) -> st.SearchStrategy[DataPolicy]:
    """Policies made of *treatment* alone."""
    sides = st.tuples(treatment, treatment).filter(lambda pair: (pair[0] == "drop") == (pair[1] == "drop"))
    tool = sides.map(lambda pair: ToolData(arguments=pair[0], results=pair[1]))
    return st.builds(
        DataPolicy,
        text=treatment,
        reasoning=treatment,
        tools=st.dictionaries(st.sampled_from(TOOLS), tool, max_size=2),
        other_tools=tool,
        keep_whole_results=st.booleans(),
        hash_key=st.just(KEY),
    )


def everything(value: object) -> str:
    """All that can be read of *value*, the fields that its repr leaves out included."""
    form = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    return repr(value) + repr(form) + json.dumps(form, default=repr, ensure_ascii=False)


# -- forbidden content is removed --------------------------------------------------------------------------------


@given(policies(words), messages, st.lists(steps, max_size=2))
def test_no_forbidden_content_of_a_message_is_kept(policy: DataPolicy, message: Message, progress: list[Any]) -> None:
    result = stored_message(policy, message, 7, progress)
    assert CANARY not in everything(result.keep)
    assert not result.keep_progress or getattr(message, "parts", None) == (), "only where there is nothing to forbid"
    assert result.message is message, "the run itself needs all of it"
    assert (result.tokens, result.progress, result.keep_seconds) == (7, progress, None)


@pytest.mark.parametrize("events", EVENTS)
@given(policy=policies(words | timed), data=st.data())
def test_nothing_forbidden_is_shown(events: st.SearchStrategy[Any], policy: DataPolicy, data: st.DataObject) -> None:
    event = data.draw(events)
    assert CANARY not in everything(observed_event(policy, event))


@pytest.mark.parametrize("cls", [cls for cls in get_args(RunEvent) if cls not in BARE], ids=lambda cls: cls.__name__)
def test_every_event_with_content_is_tried_with_a_canary(cls: type[Event]) -> None:
    find(every(cls), lambda event: CANARY in everything(event), settings=settings(phases=[Phase.generate]))


@given(policies(words | timed | st.just("keep")), every(ToolMessage) | every(UserMessage), every(ToolDone))
def test_a_result_that_refuses_to_be_stored(policy: DataPolicy, message: Any, event: ToolDone) -> None:
    unstored = dataclasses.replace(
        message, stored=False, **({} if isinstance(message, ToolMessage) else {"tool": "search"})
    )
    kept = stored_message(policy, unstored, None, ())
    assert kept.message is unstored
    assert CANARY not in everything((kept.keep, kept.later))
    assert kept.keep is None or kept.keep_seconds == 0.0
    assert CANARY not in everything(observed_event(policy, dataclasses.replace(event, stored=False)))


def invented(value: Any) -> Any:
    """Replace the tool name `secret` by a name that the model invented."""
    if isinstance(value, StoppedWork) and value.what != "tool":
        return value  # the name of a model or a hook
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: invented(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(map(invented, value))
    return f"{CANARY}_tool" if value == "secret" else value


@given(policies(words), messages)
def test_no_invented_name_of_a_message_is_kept(policy: DataPolicy, message: Message) -> None:
    assert CANARY not in everything(stored_message(policy.for_tools(["search"]), invented(message), None, ()).keep)


@pytest.mark.parametrize("events", EVENTS)
@given(policy=policies(words | timed), data=st.data())
def test_no_invented_name_is_shown(events: st.SearchStrategy[Any], policy: DataPolicy, data: st.DataObject) -> None:
    event = invented(data.draw(events))
    assert CANARY not in everything(observed_event(policy.for_tools(["search"]), event))


@given(policies(timed), messages)
def test_an_invented_name_is_masked_after_its_time(policy: DataPolicy, message: Message) -> None:
    kept = stored_message(policy.for_tools(["search"]), invented(message), None, ())
    assert CANARY not in everything(kept.later)


@given(policies(words), canaries)
def test_no_forbidden_text_of_a_run_is_kept(policy: DataPolicy, text: str) -> None:
    assert CANARY not in stored_text(policy, text)


@given(policies(words | timed), all_events)
def test_the_structure_of_an_event_is_kept(policy: DataPolicy, event: RunEvent) -> None:
    seen = observed_event(policy, event)
    if seen is None:
        assert isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta | ToolStreamed | PartialOutput)
        return
    assert type(seen) is type(event)
    for name in {field.name for field in dataclasses.fields(event)} & (STRUCTURE | {"index", "record", "who", "kind"}):
        assert getattr(seen, name) == getattr(event, name)
    if isinstance(event, RunEnded) and isinstance(seen, RunEnded):
        assert seen.result.usage is event.result.usage
        assert [wait.key for wait in seen.result.waiting] == [wait.key for wait in event.result.waiting]
        assert (seen.result.error is None) == (event.result.error is None)


# -- allowed content is unchanged -------------------------------------------------------------------------------------


@given(messages, all_events, st.lists(steps, max_size=2))
def test_a_policy_that_keeps_everything_returns_the_same_objects(
    message: Message, event: RunEvent, progress: list[Any]
) -> None:
    whole = stored_message(DataPolicy(keep_whole_results=True), message, None, progress)
    assert whole.keep is message
    assert whole.keep_progress
    assert whole.keep_seconds is None
    assert observed_event(KEEP, event) is event
    assert stored_text(KEEP, "x") == "x"


@given(policies(timed), messages)
def test_content_kept_for_a_time_is_complete_until_then(policy: DataPolicy, message: Message) -> None:
    result = stored_message(dataclasses.replace(policy, keep_whole_results=True), message, None, ())
    assert result.keep is message
    assert result.keep_progress
    assert result.keep_seconds in ((5, 9) if getattr(message, "parts", True) else (None,))


@given(policies(words | timed | st.just("keep")), messages)
def test_every_provider_accepts_the_kept_calls_and_results(policy: DataPolicy, message: Message) -> None:
    kept = stored_message(policy, message, None, ()).keep
    if isinstance(message, AssistantMessage) and isinstance(kept, AssistantMessage):
        assert kept.parts or kept is message
        before = {(call.id, call.name) for call in message.tool_calls}
        for call in kept.tool_calls:
            assert (call.id, call.name) in before
            if policy.tool(call.name).arguments in ("redact", "hash"):
                assert isinstance(json.loads(call.arguments), dict)
                assert set(arguments_object(call.arguments)) < {"redacted", "hash"}
    elif isinstance(message, ToolMessage) and isinstance(kept, ToolMessage):
        assert (kept.call_id, kept.name, kept.is_error) == (message.call_id, message.name, message.is_error)


@given(policies(words | timed | st.just("keep")), messages)
def test_a_changed_message_has_no_signature(policy: DataPolicy, message: Message) -> None:
    kept = stored_message(policy, message, None, ()).keep
    if isinstance(kept, AssistantMessage) and kept is not message:
        assert all(part.kind == "text" or part.signature is None for part in kept.parts)
        assert all(part.text and not part.id and not part.provider for part in kept.parts if part.kind == "reasoning")


# -- each treatment by itself ------------------------------------------------------------------------------------------

TURN = AssistantMessage(
    (
        Reasoning("hm", id="r1", signature="s1", provider="anthropic"),
        Text("let me see"),
        ToolCall("1", "search", '{"q": 1}', signature="s2"),
        ToolCall("2", "secret", '{"q": 2}'),
    ),
    "tool_calls",
    "claude",
)
SECRET = ToolData(arguments="redact", results="redact")
NEVER = ToolData(arguments="drop", results="drop")


def left(policy: DataPolicy, message: Message = TURN) -> Any:
    return stored_message(policy, message, None, ()).keep


def parts(policy: DataPolicy) -> tuple[MessagePart, ...]:
    return left(policy).parts  # type: ignore[no-any-return]


def test_redacting_one_tool_keeps_the_rest() -> None:
    assert left(DataPolicy(tools={"secret": SECRET})) == AssistantMessage(
        (
            Reasoning("hm"),
            Text("let me see"),
            ToolCall("1", "search", '{"q": 1}'),
            ToolCall("2", "secret", '{"redacted": true}'),
        ),
        "tool_calls",
        "claude",
    )


def test_dropped_parts_are_removed() -> None:
    assert [part.kind for part in parts(DataPolicy(text="drop"))] == ["reasoning", "tool_call", "tool_call"]
    assert [part.kind for part in parts(DataPolicy(reasoning="drop"))] == ["text", "tool_call", "tool_call"]
    assert [part.kind for part in parts(DataPolicy(other_tools=NEVER))] == ["reasoning", "text"]
    assert left(DataPolicy(text="drop", reasoning="drop", other_tools=NEVER)) is None


def test_a_signature_on_a_call_is_treated_as_reasoning() -> None:
    turn = AssistantMessage((ToolCall("1", "search", "{}", signature="s"),))
    assert left(DataPolicy(reasoning="drop"), turn) == AssistantMessage((ToolCall("1", "search", "{}"),))
    assert left(DataPolicy(text="drop"), turn) is turn
    assert stored_message(DataPolicy(reasoning=KeepFor(3)), turn, None, ()).keep_seconds == 3


def test_reasoning_without_text_is_removed() -> None:
    turn = AssistantMessage((Reasoning("", "redacted", "data", "anthropic"), Text("hi")))
    assert left(DataPolicy(reasoning="redact"), turn) == AssistantMessage((Text("hi"),))


def test_text_includes_the_product_s_messages() -> None:
    assert left(DataPolicy(text="redact"), SystemMessage("x")) == SystemMessage("[redacted]")
    assert left(DataPolicy(text="redact"), UserMessage("x")) == UserMessage("[redacted]")
    assert left(DataPolicy(text="drop"), SystemMessage("x")) is None


def test_an_empty_text_stays_empty() -> None:
    assert stored_text(DataPolicy(text="redact"), "") == ""
    assert stored_text(DataPolicy(text="hash", hash_key=KEY), "") == ""


def test_a_result_is_treated_with_its_summary_and_progress() -> None:
    result = ToolMessage("1", "secret", "cut", True, whole="whole", summary="sum")
    redacted = stored_message(DataPolicy(tools={"secret": SECRET}), result, None, [{"id": 1}])
    assert redacted.keep == ToolMessage("1", "secret", "[redacted]", True)
    assert not redacted.keep_progress
    assert left(DataPolicy(other_tools=NEVER), result) is None


def test_a_once_result_is_replaced_by_its_summary() -> None:
    result = ToolMessage("1", "search", "all of it", whole="all", summary="3 hits", retain="once")
    assert left(KEEP, result) == ToolMessage("1", "search", "3 hits")
    assert left(DataPolicy(keep_whole_results=True), result) is result
    nameless = dataclasses.replace(result, summary="")
    assert left(KEEP, nameless).content == "[the result of search was not kept]"
    timed_only = stored_message(DataPolicy(other_tools=ToolData(results=KeepFor(4))), result, None, ())
    assert timed_only.keep == ToolMessage("1", "search", "3 hits")
    assert (timed_only.keep_progress, timed_only.keep_seconds) == (True, 4)


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (DataPolicy(text=KeepFor(9), reasoning=KeepFor(5)), 5),
        (DataPolicy(text=KeepFor(9), reasoning="redact"), 9),
        (DataPolicy(text="keep", reasoning="redact"), None),
        (DataPolicy(text=KeepFor(9), tools={"search": ToolData(arguments=KeepFor(2))}), 2),
        (DataPolicy(text=KeepFor(9), tools={"absent": ToolData(arguments=KeepFor(2))}), 9),
        (DataPolicy(text="drop", reasoning="keep"), None),
    ],
)
def test_a_message_is_kept_as_long_as_its_shortest_part(policy: DataPolicy, seconds: float | None) -> None:
    assert stored_message(policy, TURN, None, ()).keep_seconds == seconds


def test_equal_text_under_the_same_key_has_the_same_hash() -> None:
    def marked(text: str, key: bytes = KEY) -> str:
        return stored_text(DataPolicy(text="hash", hash_key=key), text)

    assert marked("tea") == marked("tea")
    assert len({marked("tea"), marked("coffee"), marked("tea", KEY[::-1]), marked("\ud800")}) == 4
    assert marked("tea").startswith("[hash:")
    assert len(marked("tea")) == len("[hash:]") + 32
    hashing = DataPolicy(other_tools=ToolData(arguments="hash", results="hash"), hash_key=KEY)
    assert len(json.loads(parts(hashing)[-1].arguments)["hash"]) == 32
    stored = left(hashing, ToolMessage("1", "search", "te[...]", whole="tea")).content
    told = observed_event(hashing, ToolDone("r", "a", 0, "1", "search", "tea"))
    assert stored == told.content == marked("tea"), "the result before it was cut"


def test_deltas_for_observers() -> None:
    text, piece = TextDelta("r", "a", 0, "hel"), ToolStreamed("r", "a", 0, "1", "search", "row")
    assert observed_event(DataPolicy(reasoning="drop"), text) == text
    assert observed_event(DataPolicy(text=KeepFor(9)), text) == TextDelta("r", "a", 0, "[redacted]")
    for how in ("hash", "drop"):
        policy = DataPolicy(text=how, other_tools=ToolData(arguments=how, results=how), hash_key=KEY)
        assert observed_event(policy, text) is None
        assert observed_event(policy, piece) is None
        assert observed_event(policy, ReasoningDelta("r", "a", 0, "hm")) is not None


def test_calls_for_observers() -> None:
    policy = DataPolicy(text="drop", reasoning="drop", tools={"secret": NEVER})
    seen = observed_event(policy, ToolsSelected("r", "a", 0, TURN.tool_calls))
    assert seen.calls == (ToolCall("1", "search", '{"q": 1}'), ToolCall("2", "secret", "{}"))
    everything_dropped = observed_event(DataPolicy(text="drop", reasoning="drop", other_tools=NEVER), turn_completed())
    assert everything_dropped.message == AssistantMessage((), "tool_calls", "claude")
    step = {"id": 1, "name": "Reading", "icon": "book", "parts": ["a secret"], "ended": True}
    assert observed_event(policy, ToolProgress("r", "a", 0, "2", "secret", step)).step == {**step, "parts": []}
    assert observed_event(policy, ToolProgress("r", "a", 0, "1", "search", step)).step == step
    assert step["parts"] == ["a secret"], "the consumer's own stays as it is"
    assert observed_event(policy, ToolDone("r", "a", 0, "2", "secret", "x", data=1)) == ToolDone(
        "r", "a", 0, "2", "secret", ""
    )
    assert observed_event(policy, ToolDone("r", "a", 0, "1", "search", "x", data=1)).data == 1
    assert observed_event(policy, ToolFailed("r", "a", 0, "2", "secret", "no x")).error == ""


def turn_completed() -> TurnCompleted:
    return TurnCompleted("r", "a", 0, TURN)


# -- the policy itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (KEEP, None),
        (DataPolicy(tools={"a": ToolData()}, keep_whole_results=True), None),
        (DataPolicy(text=KeepFor(9), other_tools=ToolData(results=KeepFor(5))), 5.0),
        (DataPolicy(text=KeepFor(9), tools={"a": ToolData(arguments="redact")}), 0.0),
        (DataPolicy(reasoning="drop"), 0.0),
        (DataPolicy(other_tools=ToolData(results="hash"), hash_key=KEY), 0.0),
    ],
)
def test_the_time_until_a_run_is_erased(policy: DataPolicy, seconds: float | None) -> None:
    assert policy.erase_after == seconds
    assert policy.keeps_everything == (seconds is None)


def test_a_policy_is_a_value() -> None:
    tools = {"secret": NEVER}
    policy = DataPolicy(tools=tools, hash_key=KEY)
    tools.clear()
    assert policy.tool("secret") is NEVER
    assert policy.tool("another") == ToolData()
    assert policy == DataPolicy(tools={"secret": NEVER}, hash_key=KEY)
    assert hash(policy) == hash(dataclasses.replace(policy))
    assert KEY.decode() not in repr(policy)


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (DataPolicy, {"text": "kep"}, r"DataPolicy\(text='kep'\): use 'keep', 'redact', 'hash', 'd"),
    (DataPolicy, {"reasoning": 3600}, r"DataPolicy\(reasoning=3600\): .* or KeepFor\(seconds\)"),
    (DataPolicy, {"reasoning": []}, r"reasoning=\[\]"),
    (ToolData, {"results": KeepFor}, r"ToolData\(results=<class"),
    (ToolData, {"arguments": "never"}, r"ToolData\(arguments='never'\)"),
    (DataPolicy, {"tools": ["a"]}, r"DataPolicy\(tools=...\): invalid list: .*by tool name"),
    (DataPolicy, {"tools": {"a": "drop"}}, r"invalid 'drop' for 'a': use ToolData"),
    (DataPolicy, {"tools": {1: NEVER}}, r"for 1: use ToolData"),
    (DataPolicy, {"other_tools": "drop"}, r"other_tools=...\): invalid str: use ToolData"),
    (DataPolicy, {"keep_whole_results": 1}, r"keep_whole_results=...\): invalid int"),
    (DataPolicy, {"hash_key": "a secret"}, r"^DataPolicy\(hash_key=...\): invalid str: use bytes$"),
    (DataPolicy, {"text": "hash"}, r"16 to 64 secret bytes, such as secrets.token_bytes\(32\)"),
    (DataPolicy, {"hash_key": b"short"}, r"^DataPolicy\(hash_key=...\): 'hash' needs 16 to 64"),
    (DataPolicy, {"hash_key": bytes(65)}, r"16 to 64"),
    (KeepFor, {"seconds": 0}, r"^KeepFor\(seconds=0\): use seconds above 0, 'drop' to keep nothing, or 'keep'$"),
    (KeepFor, {"seconds": -1}, r"seconds=-1"),
    (KeepFor, {"seconds": float("nan")}, r"seconds=nan"),
    (KeepFor, {"seconds": float("inf")}, r"seconds=inf"),
    (KeepFor, {"seconds": True}, r"seconds=True"),
    (KeepFor, {"seconds": "1h"}, r"seconds='1h'"),
]


@pytest.mark.parametrize(("cls", "values", "message"), WRONG)
def test_an_invalid_policy_raises_with_the_remedy(cls: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        cls(**values)


def test_the_policies_of_the_research_agents() -> None:
    researcher = ResearcherAgent().get_data_policy()
    assert researcher == DataPolicy(tools={"search_history": NEVER}, keep_whole_results=True)
    supervisor = DeepResearchSupervisor().get_data_policy()
    assert supervisor.tool("researcher") == supervisor.tool("report_generation") == ToolData()
    assert supervisor.tool("web_search") == NEVER
    assert supervisor.keep_whole_results
    assert supervisor.text == researcher.reasoning == "keep"
