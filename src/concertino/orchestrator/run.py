"""`Run`: what a hook may see of the run that it decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..events import Notice, NoticeCode
from ..ids import call_key, usage_id
from ..messages import Message, Messages, ToolCall
from ..providers.base import Model, ModelRequest, model_id
from ..token_engine.engine import TokenEngine
from ..token_engine.planner import SummaryJob
from ..token_engine.recall import handle_for
from ..tools.registry import ToolRegistry
from ..usage import Tokens, UsageRecord, UsageSource
from .chat import Chat
from .event_stream import Mailbox
from .journal.lease import Ledger, Tree
from .journal.replay import OpenRequest, OpenTurn
from .journal.writer import Journal
from .limits import Limits
from .model_call.budget import Reserve
from .outcome import GoOn
from .state import ContentIndex, RunState
from .tool_calls.timeouts import Deadlines

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    S = DefaultTypeVar("S", default=None)
else:
    S = TypeVar("S")


class Ask(Protocol):
    """Asks the chat's model one question beside the conversation; see `Run.ask`."""

    async def __call__(self, prompt: str, *, system: str | None = None) -> str: ...


class Summaries(Protocol):
    """Makes summaries of what is older beside the conversation; see `summarising`."""

    def start(self, job: SummaryJob, model: Model, request: ModelRequest) -> None: ...

    async def now(self, job: SummaryJob, model: Model, request: ModelRequest) -> None: ...

    async def settle(self, seconds: float = ...) -> None: ...

    async def stop(self) -> None: ...


class Run(Generic[S]):
    """One run of one agent. Hooks read from it; what they decide, they return."""

    def __init__(
        self,
        *,
        id: str,
        path: str,
        chat: Chat,
        registry: ToolRegistry,
        limits: Limits,
        ledger: Ledger,
        tree: Tree,
    ) -> None:
        self.id = id
        self.path = path
        """The agent path: `supervisor/researcher-2`."""
        self.chat = chat
        self.registry = registry
        """This run's own copy: a hook may take tools out."""
        self.limits = limits
        self.ledger = ledger
        self.tree = tree
        self.index: ContentIndex = tree.index
        self.journal = Journal(tree, id, chat.session.user_id, chat.counter)
        self.reserve = Reserve(self)
        self.state = RunState()
        self.agent_state: S
        self.ask: Ask
        """Ask the chat's model one question beside the conversation, without tools: `await run.ask("...")` returns
        its text. For `prepare` and `conclude`; the text streams, and the attempt is booked like any other."""
        self.data: dict[str, Any] = {}
        """By tool name, the structured result of its last call."""
        self.summaries: Summaries
        self.window = TokenEngine(chat.counter, limits.context, chat.retention)
        """What is kept of the conversation, and what of it is sent."""
        self.mailbox = Mailbox()
        self.deadlines = Deadlines()
        self.system = ""
        self.call_ids: set[str] = set()
        """The ids of all calls in the conversation."""
        self.opened: OpenTurn | OpenRequest | None = None
        """What a run that was taken up goes on with."""
        self.steers: list[str] = []
        """Messages for the run that nobody keeps: it has no store."""
        self.added: list[Message] = []
        self.attempts = 0
        self.calls_at_once = 1
        """How many results the turn in hand will have, which share the room; 0: nobody knows yet."""
        self.cut_off: ToolCall | None = None
        """The call of the turn in hand whose arguments the answer's limit cut off."""
        self.skipped: tuple[int, ...] | None = ()
        """The places of messages that the next run of the conversation will not have: examples, an older summary. None:
        a hook has replaced the conversation."""
        self.hook_value: Any = None
        self._cache_key = ""
        self._fixed_of: object = None
        self._fixed: dict[str, str] = {}

    @property
    def root_id(self) -> str:
        """The run at the top of the tree."""
        return self.tree.root_id

    @property
    def model(self) -> Model:
        """The chat's model."""
        return self.chat.model

    @property
    def model_id(self) -> str:
        """The id of the chat's model."""
        return model_id(self.chat.model)

    @property
    def cache_key(self) -> str:
        """What the requests of this agent in this conversation have in common, for a provider's cache."""
        if not self._cache_key:
            name = self.path.rpartition("/")[2][:40]
            self._cache_key = f"{name}:{handle_for(self.chat.conversation_id or self.chat.message)}"
        return self._cache_key

    @property
    def messages(self) -> Messages:
        """The conversation so far, all of it."""
        return self.window.record()

    def fixed(self) -> dict[str, str]:
        """What goes along with every request, for counting: the same object until the registry changes."""
        specs = self.registry.specs()
        if self._fixed_of is not specs:
            self._fixed_of = specs
            tools = "\n".join([spec.text for spec in specs])
            self._fixed = {"system prompt": self.system, "tools": tools}
        return self._fixed

    def notify(self, code: NoticeCode, text: str) -> None:
        """Tell the consumer something that the user should know."""
        self.mailbox.put(Notice(self.id, self.path, self.index.value, code, text))

    def add(self, message: Message) -> None:
        """Put *message* at the end of the conversation, to be stored with the next append."""
        self.window.append(message)
        self.added.append(message)
        if self.journal.on:
            self.journal.add(message)

    def replace(self, messages: tuple[Message, ...]) -> None:
        """Begin the conversation again with *messages*; its last one, the turn in hand, stays."""
        self.window.replace([*messages, self.messages[-1]])
        self.skipped = None
        if self.journal.on:
            self.journal.replace(messages)

    def prepare_next(self, wish: GoOn) -> None:
        """Put in place what *wish* wants before the next step."""
        for message in wish.messages:
            self.add(message)
        if wish.tool_choice is not None:
            self.state.tool_choice = wish.tool_choice

    def count_calls(self, calls: dict[str, int]) -> None:
        """Enter how many tools agents, by path, have called by now."""
        self.state.tool_calls.update(calls)
        if self.journal.on:
            for path, count in calls.items():
                self.journal.count(path, count)

    def keep_data(self, tool: str, value: Any) -> None:
        """Keep the structured result of a tool's last call."""
        self.data[tool] = value
        if self.journal.on:
            self.journal.data(tool, value)

    # -- usage ---------------------------------------------------------------------------------------------------

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
    ) -> UsageRecord:
        """What was used under the id *usage*, with its price; nobody knows that of one whose source is unknown."""
        cost, version = (None, "") if source == "unknown" else self.chat.price(provider, model, tokens)
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
        )

    def book(self, record: UsageRecord) -> None:
        """Enter *record* in the ledger, to be stored with the next append."""
        if self.ledger.book(record) and self.journal.on:
            self.journal.book(record, self.reserve.settlement(record) if self.tree.budgeted else None)

    def call_key(self, place: int) -> str:
        """The engine's id of a call of this step."""
        return call_key(self.id, self.state.step, place)

    def next_attempt(self) -> str:
        """The usage id of the next attempt at a model, which begins in this step; the same in every life of the run."""
        self.attempts += 1
        return usage_id(self.id, self.state.step, str(self.attempts))
