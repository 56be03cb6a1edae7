"""The names of all spans, attributes, events and metrics.

Names that begin with `gen_ai.` are those of OpenTelemetry's semantic conventions for generative AI, `http.`, `url.`,
`error.` those of its general conventions. Both are in development and change; `concertino.` is for what they lack.
"""

from __future__ import annotations

from ..messages import StopReason

SCOPE = "concertino"
GEN_AI_VERSION = "0.1.0"
"""Version of open-telemetry/semantic-conventions-genai."""
SCHEMA_URL = "https://opentelemetry.io/schemas/1.45.0"
"""The general conventions, on which that version depends."""

# Operations, which are also the first word of a span's name.
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"
INVOKE_WORKFLOW = "invoke_workflow"

# Attributes of spans and metrics.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
REQUEST_MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
MODALITY = "gen_ai.token.modality"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
ERROR = "error.type"

# Attributes with content, which are recorded only if the product asks for it.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

# concertino's own attributes.
RUN = "concertino.run.id"
AGENT_PATH = "concertino.agent.path"
RESUMED = "concertino.run.resumed"
STATUS = "concertino.run.status"
STEPS = "concertino.run.steps"
STEP = "concertino.step"
COST = "concertino.usage.cost"
USAGE_SOURCE = "concertino.usage.source"
CACHE_SHARE = "concertino.usage.cache_share"
WAIT = "concertino.wait.kind"
NEXT_MODEL = "concertino.attempt.next_model"
DELAY = "concertino.attempt.delay"
REASON = "concertino.reason"
BEFORE = "concertino.context.tokens_before"
AFTER = "concertino.context.tokens_after"
EXPECTED = "concertino.cache.expected_tokens"

# Events of spans.
ATTEMPT_FAILED = "concertino.attempt.failed"
CONTEXT_EDITED = "concertino.context.edited"
CACHE_MISSED = "concertino.cache.missed"
NOTICE = "concertino.notice"

# Metrics.
INFERENCE_SECONDS = "gen_ai.client.inference.duration"
FIRST_CHUNK_SECONDS = "gen_ai.client.inference.time_to_first_chunk"
AGENT_SECONDS = "gen_ai.invoke_agent.duration"
TOOL_SECONDS = "gen_ai.execute_tool.duration"
USED_INPUT = "gen_ai.client.inference.usage.input_tokens"
USED_OUTPUT = "gen_ai.client.inference.usage.output_tokens"
USED_CACHE_READ = "gen_ai.client.inference.usage.cache_read.input_tokens"
USED_CACHE_WRITE = "gen_ai.client.inference.usage.cache_write.input_tokens"
USED_REASONING = "gen_ai.client.inference.usage.reasoning.output_tokens"
USED_MONEY = "concertino.usage.cost"
UNPRICED = "concertino.usage.unpriced"
FAILED_ATTEMPTS = "concertino.attempts.failed"
CACHE_MISSES = "concertino.cache.misses"
DROPPED = "concertino.telemetry.dropped"
LIVE_RUNS = "concertino.runtime.live_runs"
PARKED_RUNS = "concertino.runtime.parked_runs"
VOIDED_EVENTS = "concertino.runtime.voided_events"
LOST_EVENTS = "concertino.runtime.lost_events"
LATE_ANSWERS = "concertino.runtime.late_answers"
LOST_MESSAGES = "concertino.runtime.lost_messages"
ACTIVE_STREAMS = "concertino.server.active_streams"
REQUEST_SECONDS = "http.server.request.duration"
ACTIVE_REQUESTS = "http.server.active_requests"

# Attributes of requests.
METHOD = "http.request.method"
ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
PATH = "url.path"
SCHEME = "url.scheme"

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY"))
OTHER_METHOD = "_OTHER"
"""The method of a request with any other, of which a client can make up as many as it likes."""

INFERENCE_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
"""Bounds of seconds, as the conventions advise for inference."""
REQUEST_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
"""The same for HTTP requests."""

PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure-foundry": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-openai": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers that concertino calls differently."""
FINISHED: dict[StopReason, str] = {
    "end": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "filter": "content_filter",
    "broken": "error",
}
"""The conventions' finish reasons; others are reported as they are."""
