"""`Work.ask`: a question of a hook or a tool to a model, outside the conversation."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any, get_args

from ...errors import ConfigurationError, InvalidOutputError, ProviderTimeoutError
from ...events import Audience, QuestionAnswered
from ...ids import digest
from ...messages import AssistantMessage, Effort, Message, SystemMessage, ToolMessage, UserMessage
from ...providers.base import Model, ModelRequest
from ...records import record
from ...tools.ask_settings import AskSettings
from ...tools.base import ToolContext
from ..hooks import Hooks
from ..journal.entries import message_texts
from ..output import CORRECTIONS, Output, asked_again, output_of
from ..recorder import record_side_answer
from ..run import Prompt, RunSession
from ..validation import added_problem
from .call import SideCall

_MESSAGES = (UserMessage, AssistantMessage, ToolMessage, SystemMessage)


@record(kw_only=True)
class Question:
    """A question with its settings; see `AskSettings`."""

    messages: tuple[Message, ...]
    output: Output | None = None
    system: str | None = None
    model: str | None = None
    max_output_tokens: int | None = None
    seconds: float | None = None
    audience: Audience = "internal"
    effort: Effort | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        for name, valid, remedy in (
            ("max_output_tokens", _is_positive(self.max_output_tokens, int), "an integer above 0"),
            ("seconds", _is_positive(self.seconds, int, float), "seconds above 0"),
            ("audience", self.audience in get_args(Audience), "'internal', 'draft' or 'answer'"),
            ("model", self.model is None or isinstance(self.model, str), "the id of a model, 'provider:name'"),
            ("system", self.system is None or isinstance(self.system, str), "text"),
        ):
            if not valid:
                raise ConfigurationError(f"ask({name}={getattr(self, name)!r:.80}): use {remedy}")


def question_of(prompt: Prompt, output_type: Any, settings: AskSettings) -> Question:
    """Return the question with these arguments of `Work.ask`. Raises `ConfigurationError` if one is invalid."""
    messages = (UserMessage(prompt),) if isinstance(prompt, str) else tuple(prompt)
    if not messages or not all(isinstance(message, _MESSAGES) for message in messages):
        raise ConfigurationError(f"ask({prompt!r:.80}): use text, or messages such as UserMessage('...')")
    if unknown := settings.keys() - AskSettings.__annotations__.keys():
        known = ", ".join(AskSettings.__annotations__)
        raise ConfigurationError(f"ask({min(unknown)}=...): unknown setting; choose from {known}")
    return Question(messages=messages, output=output_of(output_type), **settings)


async def ask(run: RunSession, hooks: Hooks, by: ToolContext | None, question: Question) -> Any:
    """Return the answer to *question*; see `Work.ask`. *by* is the tool call that asks, None for a hook.

    A recorded answer belongs to the call that asked and to the whole question, so that parallel calls never mix their
    answers, and a changed question is asked anew.
    """
    if problem := added_problem(run.context, question.messages):
        raise ConfigurationError(f"ask: invalid message {problem}")
    model = run.model if question.model is None else run.find_model(question.model)
    request = _request(run, question, model)
    caller, asked = "" if by is None else by.key, question_digest(request)
    audience: Audience | None = None if question.audience == "internal" else question.audience
    if audience == "answer" and run.parent is not None:
        audience = "draft"
    if known := run.side_answers.get((caller, asked)):
        text = known.pop(0)
        if audience is not None:
            run.emit(QuestionAnswered, text, audience)
        return text if question.output is None else await question.output.validate(text)
    side = SideCall(run, hooks, audience=audience, last=True, call_id=None if by is None else by.call_id)
    try:
        async with asyncio.timeout(question.seconds) as limit:
            text, value = await _answer(side, model, request, question.output)
    except TimeoutError as error:
        if not limit.expired():
            raise
        expired = ProviderTimeoutError(
            f"the question was not answered within {question.seconds:g} s", provider=model.provider
        )
        expired.limit = "total"
        raise expired from error
    await record_side_answer(run, caller, asked, text)
    return value


async def _answer(side: SideCall, model: Model, request: ModelRequest, output: Output | None) -> tuple[str, Any]:
    """Return the text of the answer and its value. Raises `InvalidOutputError` if the corrections are invalid, too."""
    left = CORRECTIONS
    while True:
        message = (await side.answer(model, request)).message
        if output is None:
            return message.text, message.text
        try:
            return message.text, await output.validate(message.text)
        except InvalidOutputError as problem:
            if not left:
                raise
            left -= 1
            given = (message,) if message.parts else ()  # no provider accepts an empty message
            request = dataclasses.replace(request, messages=(*request.messages, *given, asked_again(problem)))


def _request(run: RunSession, question: Question, model: Model) -> ModelRequest:
    limit = run.limits_of(model).output
    messages = question.messages
    request = ModelRequest(
        model=model.name,
        system=run.system if question.system is None else run.clean(question.system),
        messages=messages if run.redactor is None else tuple(map(run.redactor.message, messages)),
        max_output_tokens=limit if question.max_output_tokens is None else min(question.max_output_tokens, limit),
        effort=question.effort,
        temperature=question.temperature,
    )
    if question.output is not None:
        question.output.apply(request, model)
    return request


def question_digest(request: ModelRequest) -> str:
    """Return the digest by which the journal knows a question."""
    schema = None if request.output_schema is None else request.output_schema.schema
    settings = [request.model, request.max_output_tokens, request.effort, request.temperature, schema]
    return digest(json.dumps([request.system, *message_texts(request.messages, {}), settings]))


def _is_positive(value: object, *kinds: type) -> bool:
    return value is None or (isinstance(value, kinds) and not isinstance(value, bool) and value > 0)  # type: ignore[operator]  # a number
