"""openai-agents over HTTP, with its own model for Chat Completions."""

from __future__ import annotations

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from benchmarks.common import QUESTION, URL, Outcome

DISTRIBUTIONS = ("openai-agents", "openai")
set_tracing_disabled(True)


class OpenAIAgents:
    def __init__(self, tool):
        self.tool = function_tool(tool)
        self.client = None

    def agent(self):
        if self.client is None:
            self.client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1")
        self.client.base_url = f"{URL.get()}/v1/"
        return Agent(name="bench", model=OpenAIChatCompletionsModel("gpt-5", self.client), tools=[self.tool])

    async def run(self):
        result = Runner.run_streamed(self.agent(), QUESTION, max_turns=1_000_000)
        async for _ in result.stream_events():
            pass
        used = result.context_wrapper.usage
        return Outcome(result.final_output, lambda: (used.input_tokens, used.output_tokens))

    async def stream(self):
        result = Runner.run_streamed(self.agent(), QUESTION)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta

    async def close(self):
        await self.client.close()


build = OpenAIAgents
