"""langchain's `create_agent` with langgraph's SQLite saver: a checkpoint after the model, another after the tool."""

from __future__ import annotations

from langchain.agents import create_agent

from benchmarks.common import Outcome
from benchmarks.peers.langgraph import ScriptedChatModel, booked
from benchmarks.peers.langgraph_node import Durable

DISTRIBUTIONS = ("langgraph", "langchain", "langgraph-checkpoint-sqlite")


class Agent(Durable):
    def compile(self, saver):
        return create_agent(ScriptedChatModel(), [self.tool], checkpointer=saver)

    def outcome(self, messages):
        return Outcome(messages[-1].content, lambda: booked(messages))


build = Agent
