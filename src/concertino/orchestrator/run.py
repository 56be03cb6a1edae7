"""A run as hooks see it, `RunContext`, and as the engine drives it, `RunSession`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from ..errors import RunStateError
from ..events import Audience, CustomEvent, Notice, NoticeCode, RunProgress
from ..ids import handle_for, usage_id
from ..messages import AssistantMessage, Message, Messages, Text, ToolSpec
from ..operations import Operation, OperationState
from ..providers.base import Logprob, Model
from ..providers.pricing import price as listed_price
from ..scope import Scope
from ..token_engine.token_engine import TokenEngine
from ..tools.base import ToolContext, ToolResult, Work
from ..tools.progress import Progress
from ..tools.registry import ToolRegistry
from ..usage import Receipt, Tokens, UsageRecord, UsageSource
from .chat import Chat
from .event_stream import Emit, EventRecorder, EventStream, RedactedStream, emitter, ignore
from .journal.lease import Tree
from .journal.patterns import UNKNOWN_TOOL, Redactor
from .journal.replay import OpenRequest, OpenTurn
from .journal.writer import Journal
from .lifecycle.repair import NOTHING_CHECKED
from .meter import Meter
from .model_call.budget import Reserve
from .outcome import Continue
from .plain import custom_data
from .resources import HasLimits, Limits, Resources
from .run_state import RunState
from .tool_calls.timeouts import Deadlines

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from ..tools.ask_settings import AskSettings
    from .lifecycle.unread import Unread
    from .output import Output
    from .tool_calls.background import BackgroundCalls
    from .tool_calls.tool_call import Call

    S = DefaultTypeVar("S", default=None)
else:
    S = TypeVar("S")


NEGATIVE = "reported with negative counts"
"""Why usage is not booked as it was reported."""
NOT_REPORTED = "not reported by the provider"
"""Why the usage of a tool's own model call is unknown."""
Prompt: TypeAlias = str | Sequence[Message]
"""A question, or the messages of a conversation that ends with it."""


class RunWork(Protocol):
    """The questions and calls of one run outside its turns. *by* is the tool call that makes them; None for a hook."""

    async def ask(self, by: ToolContext | None, prompt: Prompt, output_type: Any, settings: AskSettings) -> Any:
        """See `Work.ask`."""

    async def call(self, by: ToolContext | None, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """See `Work.call`."""

    def start_in_background(self, call: Call, arguments: dict[str, Any], *, again: bool) -> str:
        """Start a background call of a turn and return the text that the model reads now."""

    def restore_background(self, rows: Iterable[Sequence[Any]]) -> None:
        """Start the background calls that an earlier process left."""


class RunContext(Work, Generic[S]):
    """A run of an agent, as its hooks see it. Hooks read from it, and return their decisions."""

    __slots__ = (
        "_emit",
        "_ledger",
        "_window",
        "_work",
        "agent",
        "agent_state",
        "chat",
        "data",
        "deps",
        "id",
        "limits",
        "logprobs",
        "model_id",
        "own_progress",
        "parent",
        "path",
        "registry",
        "state",
    )

    def __init__(self, run: RunSession) -> None:
        self._emit = run.emit
        self._ledger = run.tree.ledger
        self._work = run.work
        self.own_progress: Progress | None = None
        """The `progress`, once a hook has used it."""
        self._window = run.window
        self.id: str = run.id
        self.path: str = run.path
        """The agent path: `supervisor/researcher-2`."""
        self.agent: str = run.agent.name
        """The agent's name."""
        self.chat: Chat = run.chat
        self.deps: Any = run.resources.deps
        """The product's own object."""
        self.registry: ToolRegistry = run.registry
        """This run's own copy: a hook may remove tools from it."""
        self.limits: Limits = run.limits
        self.model_id: str = run.model_id
        """The id of the chat's model."""
        self.state: RunState = run.state
        self.agent_state: S = None  # type: ignore[assignment]  # until the agent has made its state
        self.data: dict[str, Any] = run.data
        """The structured result of each tool's last call, by tool name."""
        self.logprobs: tuple[Logprob, ...] = ()
        """The probabilities of the last answer's tokens, if `build_request` asked for them. They are not stored: after
        a crash, a recorded answer has none."""

    @property
    def messages(self) -> Messages:
        """The whole conversation so far."""
        return self._window.record()

    @property
    def progress(self) -> Progress:
        """Progress steps of the agent, which the user sees; see `ToolContext.progress`."""
        if self.own_progress is None:
            emit = self._emit
            self.own_progress = Progress(lambda step: emit(RunProgress, step))
        return self.own_progress

    @property
    def usage(self) -> tuple[UsageRecord, ...]:
        """Usage records of all attempts of the run and its sub-agents so far, in all processes."""
        return self._ledger.records(self.path)

    def emit(self, name: str, data: Any = None) -> None:
        """Send the consumer a `CustomEvent` with *data* that JSON can represent.

        Raises `ConfigurationError` if it cannot, or if the data are larger than 64 KiB.
        """
        self._emit(CustomEvent, name, custom_data(name, data))

    def notify(self, code: NoticeCode, text: str) -> None:
        """Send the consumer a `Notice`."""
        self._emit(Notice, code, text)

    async def _ask(self, prompt: Prompt, output_type: Any, settings: AskSettings) -> Any:
        return await self._work().ask(None, prompt, output_type, settings)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """See `Work.call`."""
        return await self._work().call(None, tool, arguments or {})


class RunSession:
    """The engine's side of one run: its parts, and the few values that all of them share."""

    __slots__ = (
        "_fixed",
        "_fixed_of",
        "_reserve",
        "added",
        "admitted",
        "agent",
        "attempts",
        "audience",
        "background",
        "cache_key",
        "call_ids",
        "chat",
        "checked",
        "context",
        "data",
        "deadlines",
        "earlier_calls",
        "emit",
        "ended",
        "first_record",
        "has_state",
        "id",
        "journal",
        "limits",
        "meter",
        "model",
        "model_id",
        "opened",
        "output",
        "outside",
        "parent",
        "path",
        "phase",
        "recallable",
        "recorder",
        "redactor",
        "registry",
        "repairs",
        "resources",
        "scope",
        "side_answers",
        "skipped",
        "state",
        "steers",
        "stream",
        "system",
        "tree",
        "turn_output",
        "unread",
        "window",
        "work",
    )

    def __init__(  # noqa: PLR0913, PLR0915 - every part is required
        self,
        *,
        id: str,
        path: str,
        agent: HasLimits,
        chat: Chat,
        resources: Resources,
        model: Model,
        model_id: str,
        registry: ToolRegistry,
        limits: Limits,
        tree: Tree,
        meter: Meter,
    ) -> None:
        self.id = id
        self.path = path
        self.agent = agent
        self.set_chat(chat)
        self.resources = resources
        self.model = model
        self.model_id = model_id
        self.registry = registry
        self.limits = limits
        self.tree = tree
        self.audience: Audience = "answer"
        """Intended readers of the text of the run's turns."""
        self.meter = meter
        """What the run has used of the limits of its tree."""
        self.window = TokenEngine(resources.counter, limits.context, resources.retention, model=model_id)
        """The conversation, and the part of it that is sent."""
        self.journal = Journal(tree, id, self.scope, self.window.tokens_of, chat.conversation_id)
        self.state = RunState()
        self.data: dict[str, Any] = {}
        self.redactor: Redactor | None = None
        """Redacts what enters the run; None if the data policy has no patterns."""
        self.stream: EventStream | RedactedStream | None = None
        """The sink of events; None if there is no consumer."""
        self.recorder: EventRecorder | None = None
        """The log of the tree's events; the root run has it."""
        self.emit: Emit = ignore
        """Creates an event of this run and puts it into the stream, if anyone sees it."""
        self.system = ""
        self.checked = NOTHING_CHECKED
        """The examples and the history, in which no provider finds a fault."""
        self.call_ids: set[str] = set()
        """The ids of the calls that this run added to the conversation."""
        self.earlier_calls: Container[str] = ()
        """The ids of the calls before them."""
        self.opened: OpenTurn | OpenRequest | None = None
        """Where a resumed run continues."""
        self.steers: list[str] = []
        """Messages sent to a run without a store."""
        self.added: list[Message] = []
        """Messages that this run added to the conversation."""
        self.admitted = ""
        """The last text outside a turn that the agent has judged and admitted."""
        self.attempts = 0
        self.skipped: tuple[int, ...] | None = ()
        """Indexes of messages that the next run of the conversation does not have: examples, an older summary. None
        if a hook has replaced the conversation."""
        self.first_record: int | None = 0
        """The number of the tree's usage records when the run started; None for a run that is resumed."""
        self.unread: Unread | None = None
        """The part of a resumed run that was not read; None if all of it was."""
        self.repairs = ""
        """How the history was repaired; empty if it was not."""
        self.ended = False
        self.parent: RunSession | None = None
        """The run of the agent above."""
        self.context: RunContext[Any]
        self.deadlines: Deadlines | None = None
        self.recallable = False
        """Whether the model can call `recall` once something has left its view."""
        self.output: Output | None = None
        """The agent's output type."""
        self.turn_output: Output | None = None
        """The type of each answer of the model: the output type, or the agent's `turn_type`."""
        self.work: Callable[[], RunWork] = no_work
        """Returns the work outside turns, created when it is first needed."""
        self.side_answers: dict[tuple[str, str], list[str]] = {}
        """Recorded answers that a repeated hook or tool gets again, by the call that asked and the question."""
        self.phase = 0
        """The number of requests and answers of turns that are recorded. A hook repeats what followed the last one."""
        self.outside: dict[str, Operation | None] = {}
        """Calls outside turns since the last request, by key; with their operations if an earlier process made them."""
        self.has_state = False
        """Whether the agent has made a state of its own."""
        self.background: BackgroundCalls | None = None
        """The calls that no turn waits for; None if there were none."""
        self._reserve: Reserve | None = None
        self._fixed_of: object = None
        self._fixed: dict[str, str] = {}

    def set_chat(self, chat: Chat) -> None:
        """Set what the run is given; a resumed run has it from its journal."""
        self.chat = chat
        self.scope: Scope = chat.scope
        conversation = handle_for(f"{chat.scope.key}{chat.conversation_id or chat.message}")
        self.cache_key = f"{self.path.rpartition('/')[2][:40]}:{conversation}"
        """The part that all requests of this agent in this conversation share, for a provider's cache."""

    @property
    def reserve(self) -> Reserve:
        """Computes what the budgets of the run reserve."""
        if self._reserve is None:
            self._reserve = Reserve(self.resources, self.limits, self.meter, self.id)
        return self._reserve

    def fixed(self, specs: tuple[ToolSpec, ...]) -> dict[str, str]:
        """Return the texts sent with every request, for counting: the same object for the same *specs* of the tools."""
        if self._fixed_of is not specs:
            self._fixed_of = specs
            self._fixed = {"system prompt": self.system, "tools": "\n".join([spec.text for spec in specs])}
            self.recallable = bool(specs)
        return self._fixed

    @property
    def orphaned(self) -> bool:
        """True if a run above has ended without waiting for this one."""
        above = self.parent
        while above is not None:
            if above.ended:
                return True
            above = above.parent
        return False

    def find_model(self, wanted: str) -> Model:
        """Return the model with the id *wanted*. Raises as `Resources.find_model`."""
        return self.model if wanted == self.model_id else self.resources.find_model(wanted)

    def limits_of(self, model: Model) -> Limits:
        """Return this run's limits with *model*."""
        if model is self.model:
            return self.limits
        return self.resources.limits_of(self.scope, model, self.agent)

    def clean(self, text: str) -> str:
        """Return *text* as it may enter the run."""
        return text if self.redactor is None else self.redactor.text(text)

    def show(self, stream: EventStream | RedactedStream | None, recorder: EventRecorder | None = None) -> None:
        """Show the run's events in *stream*, which leads to *recorder*."""
        self.stream, self.recorder = stream, recorder
        if stream is not None:
            self.emit = emitter(stream, self.id, self.path, self.tree)

    def notify(self, code: NoticeCode, text: str) -> None:
        """Send the consumer a `Notice`."""
        self.emit(Notice, code, text)

    # -- the conversation ----------------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """Append *message* to the conversation; the next entry of the journal contains it."""
        if self.redactor is not None:
            message = self.redactor.message(message)
        self.window.append(message)
        self.added.append(message)
        if self.journal.on:
            self.journal.add(message)

    def replace(self, messages: tuple[Message, ...]) -> None:
        """Replace the conversation by *messages* except its last message, the current turn."""
        if self.redactor is not None:
            messages = tuple(map(self.redactor.message, messages))
        self.window.replace([*messages, self.window.record()[-1]])
        self.skipped = None
        if self.journal.on:
            self.journal.replace(messages)

    def apply(self, step: Continue) -> None:
        """Append the messages of *step*, and set the tool choice and the prompt of the next request."""
        for message in step.messages:
            self.add(message)
        if step.prompt:
            before = self.state.prompt
            self.state.prompt = f"{before}\n\n{step.prompt}" if before else step.prompt
        if step.tool_choice is not None:
            self.state.tool_choice = step.tool_choice

    def answer(self, text: str) -> None:
        """Set the answer, and end the conversation with it if the model did not write it."""
        if text != self.state.text:
            self.state.text = self.clean(text)
            self.add(AssistantMessage((Text(self.state.text),)))

    def count_calls(self, calls: dict[str, int]) -> None:
        """Set the number of tool calls so far, by agent path."""
        self.state.tool_calls.update(calls)
        if self.journal.on:
            for path, count in calls.items():
                self.journal.count(path, count)

    def keep_data(self, tool: str, value: Any) -> None:
        """Keep the structured result of a tool's last call."""
        if self.redactor is not None:
            value = self.redactor.value(value)
        self.data[tool] = value
        if self.journal.on:
            self.journal.data(tool, value)

    # -- usage ---------------------------------------------------------------------------------------------------

    def tool_name(self, name: str) -> str:
        """Return *name* if a tool has it, else the mark for names that the model invented, which are text."""
        return name if name in self.registry.by_name else UNKNOWN_TOOL

    def record(
        self,
        usage: str,
        provider: str,
        model: str,
        tokens: Tokens,
        tools: tuple[str, ...],
        *,
        source: UsageSource = "measured",
        how: str = "",
        receipt: Receipt | None = None,
    ) -> UsageRecord:
        """Return the usage record with the id *usage* and its price; the price of unknown usage is unknown.

        The caller replaces negative counts, which would lower a bill.
        """
        cost, version = None, ""
        # The default needs no guard against a product's function, and this saves each attempt a call.
        if source != "unknown" and self.resources.price is listed_price:
            cost, version = listed_price(provider, model, tokens, receipt)
        elif source != "unknown":
            cost, version, problem = self.resources.cost_of(provider, model, tokens, receipt)
            if problem:
                self.notify("price_failed", problem)
        return UsageRecord(
            id=usage,
            run_id=self.id,
            agent_path=self.path,
            provider=provider,
            model=model,
            tokens=tokens,
            source=source,
            how=how,
            cost=cost,
            price_version=version,
            tools=tools,
            receipt=receipt,
        )

    def book(self, record: UsageRecord, ended: OperationState | None = None) -> None:
        """Add *record* to the ledger; the next entry of the journal contains it.

        *ended* is the state in which a model attempt has ended.
        """
        if not self.tree.ledger.book(record):
            return
        if self.meter.sums:
            self.meter.add(record)
        if self.journal.on:
            self.journal.book(record, self.reserve.settlement(record) if self.tree.budgeted else None, ended)

    def next_attempt(self) -> str:
        """Return the usage id of the next attempt of this step; the same in every process."""
        self.attempts += 1
        self.meter.model_calls += 1
        return usage_id(self.id, self.state.step, str(self.attempts))


def no_work() -> RunWork:
    """Refuse work outside turns before a run starts and after it has ended."""
    raise RunStateError("the run has ended: its hooks and tools can ask and call nothing more")
