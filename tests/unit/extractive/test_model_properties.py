"""What holds for the extractive model in any conversation whatever."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

from .desk import PAGES, RESEARCH, SUPERVISE, page_text, reply, request, search, source_id, written

IDS = {source_id(location) for location in PAGES}
CITATION = re.compile(r"\[(s[0-9a-f]{10})\]")

ARGUMENTS = st.sampled_from(['{"query": "tea"}', '{"location": "lib/fees.md"}', "{", "", "[]", '{"query": 3}'])
TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        [page_text("lib/fees.md"), search("fees boats"), search("fees boats")[:-30], "**A** — B. [s0123456789]"]
    ),
)
NAMES = st.sampled_from(["web_search", "fetch_page", "researcher", "report_generation", "other"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(UserMessage, st.one_of(TEXTS, st.just("When must fees for boats be paid?"))),
        st.builds(SystemMessage, TEXTS),
        st.builds(ToolMessage, st.sampled_from("abc"), NAMES, TEXTS, st.booleans()),
        st.builds(
            lambda text, made: AssistantMessage((Text(text), *made)),
            TEXTS,
            st.lists(st.builds(ToolCall, st.sampled_from("abc"), NAMES, ARGUMENTS), max_size=3).map(tuple),
        ),
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(
    MESSAGES,
    st.sampled_from([(), RESEARCH, SUPERVISE, (*RESEARCH, *SUPERVISE)]),
    st.sampled_from(["auto", "none", "required", ForcedTool("report_generation"), ForcedTool("fetch_page")]),
)
def test_it_takes_any_conversation(messages: list[Message], tools: tuple[ToolSpec, ...], choice: Any) -> None:
    answer = asyncio.run(reply(request(messages, tools, choice)))
    assert answer.message.parts
    for call in answer.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
    if not {spec.name for spec in tools} & {"researcher"} and not answer.message.tool_calls:
        shown = "\n".join(written(message) for message in messages)
        assert set(CITATION.findall(answer.message.text)) <= set(CITATION.findall(shown)) | IDS


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=300), min_size=1, max_size=3), st.text(max_size=60))
def test_all_that_is_quoted_stands_in_a_page(texts: list[str], tail: str) -> None:
    question = f"When must tea be paid? {tail}"
    pages = [
        f"[s000000000{n}] Tea {n}\nlib/{n}\n\nTea must be paid within {n} days.\n\n{t}" for n, t in enumerate(texts)
    ]
    messages: list[Message] = [UserMessage(question), AssistantMessage((), "tool_calls")]
    for n, page in enumerate(pages):
        messages[1] = AssistantMessage(
            (*messages[1].parts, ToolCall(f"f{n}", "fetch_page", f'{{"location": "lib/{n}"}}'))
        )  # type: ignore[union-attr]
        messages.append(ToolMessage(f"f{n}", "fetch_page", page))
    text = asyncio.run(reply(request(messages, (), "none"))).message.text
    flat = " ".join("\n".join(pages).split())
    for line in text.splitlines():
        for piece in CITATION.split(line.rpartition("** — ")[2])[:-1:2]:
            assert " ".join(re.sub(r"^(?:-|\d+\.) ", "", piece.strip()).split()) in flat
