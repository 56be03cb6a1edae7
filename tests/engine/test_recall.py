"""What was left out can be read again, all of it, however small the window is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Limits, ModelRequest, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.messages import ToolMessage
from concertino.providers.openai import TiktokenCounter
from concertino.testing import ScriptedModel, call
from concertino.token_engine import EstimatingCounter, TokenCounter
from concertino.tools.builtin import Recall

PIECES = 4_000
BODY = "".join(f"<{number:05}>" for number in range(PIECES))


@tool(effect="read")
async def large() -> str:
    """Something large."""
    return BODY


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("counter", [EstimatingCounter(), TiktokenCounter()])
async def test_a_model_reads_all_of_a_large_thing_page_by_page(counter: TokenCounter, early: bool) -> None:
    pages: list[str] = []
    handle = ""

    def newest(request: ModelRequest) -> str:
        return [message.content for message in request.messages if isinstance(message, ToolMessage)][-1]

    def first(request: ModelRequest) -> Any:
        nonlocal handle
        found = re.search(r'recall\("(\w+)"\)', newest(request))
        assert found is not None
        handle = found[1]
        return call("recall", handle=handle)

    def page(request: ModelRequest) -> Any:
        shown, _, told = newest(request).partition("\n[... ")
        pages.append(shown)
        more = re.search(r"start=(\d+)\]", told)
        return "done" if more is None else call("recall", handle=handle, start=int(more[1]))

    class Agent(AgentConfig[None]):
        start_tools_early = early

    model = ScriptedModel(call("large"), first, *[page] * 60)
    limits = Limits(context=8_000, output=500, tool_calls=500)
    chat = Chat(model=model, message="go")
    result = await ToolOrchestrator(
        chat, Agent(), ToolRegistry([large, Recall()]), resources=Resources(limits=lambda *_: limits, counter=counter)
    ).run()
    assert result.status == "completed"
    assert "".join(pages) == BODY
    assert len(pages) > 3
