"""A small world to ask the extractive model about: an invented library and the loop that plays its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from concertino.messages import (
    AssistantMessage,
    Message,
    Messages,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers.base import ModelEvent, ModelRequest, Reply
from concertino.providers.extractive import ExtractiveModel


def _spec(name: str, *arguments: str) -> ToolSpec:
    properties = {argument: {"type": "string"} for argument in arguments}
    return ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": properties, "required": [*arguments]})


SEARCH = _spec("web_search", "query")
FETCH = _spec("fetch_page", "location")
RESEARCHER = _spec("researcher", "query")
REPORT = _spec("report_generation", "title", "markdown")
FEEDBACK = _spec("feedback_questions", "questions")
RESEARCH = (SEARCH, FETCH)
SUPERVISE = (RESEARCHER, FEEDBACK, REPORT)

PAGES: dict[str, tuple[str, str]] = {
    "lib/kettle.md": (
        "The Kettle Module",
        """The kettle module boils water for any number of cups. It was written by Ada Quill in 2019.

How to boil

To boil water, call kettle.boil with the number of cups. Pass quiet=True to silence the whistle:

    kettle.boil(cups=2, quiet=True)

Limits

A kettle holds at most 8 cups. Calling kettle.boil without water raises DryKettleError.""",
    ),
    "lib/teapot.md": (
        "The Teapot Module",
        """The teapot module brews tea from hot water. Unlike the kettle module, a teapot never heats anything.

Rationale

Brewing was split from boiling because tea masters wanted to reuse one kettle for several teapots.

Steps

1. Warm the pot.
2. Add one spoon of leaves for each cup.
3. Wait four minutes, e.g. with teapot.wait().""",
    ),
    "lib/fees.md": (
        "Harbour Fees",
        """Mooring fees

- Small boats: $12.00 a night
- Large boats: $30.00 a night

Fees must be paid within 14 days. A boat that is not paid for is moved to the outer harbour.""",
    ),
}


def source_id(location: str) -> str:
    """An id of the form that the tools give."""
    return "s" + blake2b(location.encode(), digest_size=5).hexdigest()


def count(text: str) -> int:
    """A token counter that is easy to recompute."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def page_text(location: str) -> str:
    """What `fetch_page` answers."""
    title, text = PAGES[location]
    return f"[{source_id(location)}] {title}\n{location}\n\n{text}"


def search(query: str) -> str:
    """What `web_search` answers: pages that share a word with the query."""
    wanted = set(re.findall(r"[a-z]{4,}", query.lower()))
    found = []
    for location, (title, text) in PAGES.items():
        shared = [part for part in text.split("\n\n") if wanted & set(re.findall(r"[a-z]{4,}", part.lower()))]
        if shared or wanted & set(title.lower().split()):
            snippet = shared[0] if shared else text.split("\n\n")[0]
            found.append({"id": source_id(location), "title": title, "location": location, "snippet": snippet})
    return json.dumps({"query": query, "results": found})


def written(message: Message) -> str:
    """The text of a message as usage is counted on it."""
    if isinstance(message, AssistantMessage):
        return "\n".join(
            f"{part.name}\n{part.arguments}" if isinstance(part, ToolCall) else part.text for part in message.parts
        )
    return message.content if isinstance(message, ToolMessage) else message.text


def request(
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    tool_choice: ToolChoice = "auto",
    **settings: Any,
) -> ModelRequest:
    """A request of the model."""
    return ModelRequest(
        model="rules-1",
        system="Be helpful.",
        messages=Messages(list(messages)),
        tools=tuple(tools),
        tool_choice=tool_choice,
        **settings,
    )


async def events(asked: ModelRequest) -> list[ModelEvent]:
    """All that the model streams for one request."""
    return [event async for event in ExtractiveModel(count).stream(asked)]


async def reply(asked: ModelRequest) -> Reply:
    """The reply to one request."""
    last = (await events(asked))[-1]
    assert isinstance(last, Reply)
    return last


class Desk:
    """Plays the tools until the model has no more calls; keeps what happened."""

    def __init__(self, tools: Sequence[ToolSpec], **settings: Any) -> None:
        self.tools = tools
        self.settings = settings
        self.messages: list[Message] = []
        self.turns: list[AssistantMessage] = []
        self.report: dict[str, str] = {}

    async def ask(self, question: str) -> str:
        """The answer to *question*, as the next turn of the conversation."""
        self.messages.append(UserMessage(question))
        for _ in range(12):
            answer = (await reply(request(self.messages, self.tools, **self.settings))).message
            self.messages.append(answer)
            self.turns.append(answer)
            if not answer.tool_calls:
                return answer.text
            for call in answer.tool_calls:
                content = await self._play(call.name, json.loads(call.arguments))
                self.messages.append(ToolMessage(call.id, call.name, content, content.startswith("error")))
        raise AssertionError("the model does not come to an end")

    async def _play(self, name: str, arguments: dict[str, str]) -> str:
        if name == "web_search":
            return search(arguments["query"])
        if name == "fetch_page":
            return page_text(arguments["location"]) if arguments["location"] in PAGES else "error: no such page"
        if name == "researcher":
            return await Desk(RESEARCH).ask(arguments["query"])
        self.report = arguments
        return "The report is kept."
