"""openai-agents with a subclass of its `Model`; a conversation is the result's input list."""

from __future__ import annotations

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome

DISTRIBUTIONS = ("openai-agents", "openai")


def output(turn):
    if turn.calls:
        return [
            ResponseFunctionToolCall(
                id=call.id, call_id=call.id, type="function_call", name=call.name, arguments=call.arguments
            )
            for call in turn.calls
        ]
    text = ResponseOutputText(text=turn.text, type="output_text", annotations=[], logprobs=[])
    return [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]


def completed(turn):
    usage = ResponseUsage(
        input_tokens=PROMPT_TOKENS,
        output_tokens=COMPLETION_TOKENS,
        total_tokens=PROMPT_TOKENS + COMPLETION_TOKENS,
        input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
    )
    return Response(
        id="r",
        created_at=0,
        model="scripted",
        object="response",
        output=output(turn),
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
        usage=usage,
    )


async def next_turn(asked):
    return await SCRIPT.get().next(1 if isinstance(asked, str) else len(asked))


class ScriptedModel(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        turn = await next_turn(input)
        usage = Usage(
            requests=1,
            input_tokens=PROMPT_TOKENS,
            output_tokens=COMPLETION_TOKENS,
            total_tokens=PROMPT_TOKENS + COMPLETION_TOKENS,
        )
        return ModelResponse(output=output(turn), usage=usage, response_id=None)

    async def stream_response(self, system_instructions, input, *args, **kwargs):
        turn = await next_turn(input)
        for number, delta in enumerate(turn.deltas):
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta=delta,
                item_id="m",
                content_index=0,
                output_index=0,
                sequence_number=number,
                logprobs=[],
            )
        yield ResponseCompletedEvent(
            type="response.completed", response=completed(turn), sequence_number=len(turn.deltas)
        )


class OpenAIAgents:
    def __init__(self, tool):
        set_tracing_disabled(True)
        self.agent = Agent(name="bench", model=ScriptedModel(), tools=[function_tool(tool)])

    async def run(self, conversation=None, *, keep=False):
        asked = [*conversation, {"role": "user", "content": QUESTION}] if conversation else QUESTION
        result = await Runner.run(self.agent, asked, max_turns=None)
        usage = result.context_wrapper.usage
        return Outcome(
            result.final_output,
            lambda: (usage.input_tokens, usage.output_tokens),
            result.to_input_list() if keep else None,
        )

    async def stream(self):
        result = Runner.run_streamed(self.agent, QUESTION, max_turns=None)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta


build = OpenAIAgents
