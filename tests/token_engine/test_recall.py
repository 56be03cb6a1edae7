"""`recall` finds a fact of any kind within two calls: one search, and if needed the handle that it knows."""

from __future__ import annotations

import json
import re

import pytest

from concertino import AgentConfig, Chat, Limits, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from concertino.testing import ScriptedModel, asks_for_summary, call

FILLER = "The order was checked, and nothing else was found in it.\n"
ROWS = "".join(f"| {number:03} | store {number} | {number * 37 % 1_000}.{number % 10}0 |\n" for number in range(80))
LONG = "".join(f"{number}: GET /health 200 in {number % 7} ms\n" for number in range(800))
FACTS = {
    "an id": ("id of the refund", "The id of the refund is re_3NxQ8LkdIwHu7ix0.\n", "re_3NxQ8LkdIwHu7ix0"),
    "a path": ("config/deploy path", "Written to /srv/app/config/deploy.staging.yaml.\n", "deploy.staging.yaml"),
    "an error": ("KeyError", "  File 'x.py', line 41\nKeyError: 'tenant_quota_eu'\n", "tenant_quota_eu"),
    "a number in a table": ("store 52", ROWS, "| 052 | store 52 | 924.20 |"),
    "a value in JSON": (
        "warehouse capacity",
        json.dumps({"sites": [{"warehouse": f"w{n}", "capacity": 7_000 + 13 * n} for n in range(9)]}),
        '"warehouse": "w7", "capacity": 7091',
    ),
    "Chinese": ("仓库的密码", "关于发货的说明。仓库的密码是蓝鲸四十二。请勿外传。\n", "蓝鲸四十二"),
    "a question in Chinese": ("仓库密码是什么", "关于发货的说明。仓库的密码是蓝鲸四十二。请勿外传。\n", "蓝鲸四十二"),
    "Japanese": ("倉庫の暗証番号", "配送について、倉庫の暗証番号はガ四二です。\n", "ガ四二"),
    "decomposed accents": ("CAFE\u0301", "La table est au Café du Port, référence T-88.\n", "référence T-88"),
    "Greek in capitals": ("ΚΩΔΙΚΟΣ ΑΠΟΘΗΚΗΣ", "κωδικός της αποθήκης είναι γαλάζιο-42.\n", "γαλάζιο-42"),
    "Hindi": ("बिल का पानी", "पानी का बिल नीला-42 है।\n", "नीला-42"),
    "the middle of a long result": ("POST refund 503", f"{LONG}POST /refund 503: shard-17 down\n{LONG}", "shard-17"),
}
SMALL = Limits(context=16_000, output=1_000, tool_calls=500)


async def recalled(fact: str, query: str, *, steps: int = 60, history: tuple[Message, ...] = ()) -> list[str]:
    """Return what two calls of `recall` show: a search, and the newest handle in view with the same search."""

    @tool(effect="read")
    async def look(n: int) -> str:
        """Look."""
        return f"{FILLER * 20}{fact if n == 3 and not history else ''}{FILLER * 20}"

    def handle(request: object) -> object:
        return call("recall", query=query, handle=re.findall(r'recall\("(\w+)"\)', str(request))[-1])

    looks = [call("look", n=n) for n in range(steps)]
    model = ScriptedModel(*looks, call("recall", query=query), handle, "done", summaries=["Orders were checked."] * 99)
    chat = Chat(model=model, message="Go on.", history=history)
    resources = Resources(limits=lambda *_: SMALL)
    await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look]), resources=resources).run()
    assert sum(map(asks_for_summary, model.requests)) > 1, "summarized more than once"
    first, second = [request for request in model.requests if not asks_for_summary(request)][-2:]
    return [results(first.messages)[-1], results(second.messages)[-1]]


def results(messages: object) -> list[str]:
    return [message.content for message in messages if isinstance(message, ToolMessage)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", FACTS)
async def test_recall_finds_a_fact_of_a_result_that_was_summarized_twice(kind: str) -> None:
    query, fact, wanted = FACTS[kind]
    first, second = await recalled(fact, query)
    assert wanted in first
    assert wanted in second


@pytest.mark.parametrize("kind", FACTS)
async def test_recall_finds_a_fact_of_a_users_message(kind: str) -> None:
    query, fact, wanted = FACTS[kind]
    said: list[Message] = [UserMessage("Hello."), AssistantMessage((Text("Hi."),))]
    said += [UserMessage(f"{FILLER * 20}{fact}"), AssistantMessage((Text("I see."),))]
    for number in range(30):
        said += [UserMessage(f"{FILLER * 12}{number}"), AssistantMessage((Text("Yes."),))]
    found = await recalled(fact, query, history=tuple(said))
    assert any(wanted in each for each in found)


async def test_a_search_looks_for_a_hundred_words_at_most() -> None:
    """A model may copy a hostile text into its query, and each word is looked for in the whole conversation."""
    fact, unknown = "The code is blue-42.\n", [f"unknown{number}" for number in range(100)]
    first, _ = await recalled(fact, " ".join([*unknown[:99], "blue-42"]))
    assert fact in first
    first, _ = await recalled(fact, " ".join([*unknown, "blue-42"]))
    assert first.startswith("Nothing that was left out")
