"""langgraph with its SQLite saver: one node that asks the model and runs the tool, one checkpoint a step.

The least that a durable agent on langgraph can be: the messages are plain dicts in a list that is appended to. A crash
between the answer and the result asks the model again. The saver's file is in WAL mode with synchronous=FULL.
"""

from __future__ import annotations

import json
import operator
import os
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypedDict
from uuid import uuid4

os.environ["LANGSMITH_TRACING"] = "false"

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome

DISTRIBUTIONS = ("langgraph", "langgraph-checkpoint-sqlite")
NO_LIMIT = 1_000_000


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


class Durable:
    """A graph with a saver; each graph defines `compile` and `outcome`."""

    def __init__(self, tool):
        self.tool = tool
        self.opened = AsyncExitStack()
        self.graph = None

    async def open(self, path):
        saver = await self.opened.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
        self.graph = self.compile(saver)

    async def run(self):
        config = {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": NO_LIMIT}
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        state = await self.graph.ainvoke(asked, config, durability="sync")
        return self.outcome(state["messages"])

    async def close(self):
        await self.opened.aclose()


class Node(Durable):
    def compile(self, saver):
        graph = StateGraph(State)
        graph.add_node("step", self.step)
        graph.add_edge(START, "step")
        graph.add_conditional_edges("step", lambda state: "step" if state["messages"][-1]["role"] == "tool" else END)
        return graph.compile(checkpointer=saver)

    async def step(self, state: State):
        turn = await SCRIPT.get().next(len(state["messages"]))
        answer = {"role": "assistant", "content": turn.text}
        if not turn.calls:
            return {"messages": [answer]}
        (call,) = turn.calls
        answer["calls"] = [[call.id, call.name, call.arguments]]
        result = {"role": "tool", "call_id": call.id, "content": await self.tool(**json.loads(call.arguments))}
        return {"messages": [answer, result]}

    def outcome(self, messages):
        turns = sum(message["role"] == "assistant" for message in messages)
        return Outcome(messages[-1]["content"], lambda: (turns * PROMPT_TOKENS, turns * COMPLETION_TOKENS))


build = Node
