"""All errors of concertino, in one tree.

ConcertinoError
├── ConfigurationError            a setting is missing or invalid
│   ├── UnknownProviderError
│   ├── UnknownModelError
│   ├── MissingKeyError           an API key is missing
│   ├── MissingExtraError         an optional dependency is missing
│   └── ResourcesError            a run has no resources: the product's function failed
├── HookError                     a hook of an agent raised, or returned an invalid value
├── ToolError                     a tool failed; the model reads the message
│   └── ToolArgumentsError        the arguments do not match the tool's schema
├── LibraryError                  a search or a fetch failed
│   └── CorpusError               a document collection is missing, empty or unreadable
├── InvalidOutputError            a model's answer does not match its output type
├── ContextFloorError             the smallest possible request exceeds the context window
├── ProviderError                 a model provider failed
│   ├── AuthenticationError
│   ├── PermissionDeniedError
│   ├── ModelNotFoundError
│   ├── BadRequestError
│   │   ├── ContextTooLongError
│   │   └── UnsupportedError      raised before anything is sent
│   ├── ContentFilteredError
│   ├── RateLimitError
│   ├── OverloadedError
│   ├── ProviderTimeoutError
│   ├── ProviderConnectionError
│   └── BrokenStreamError
├── StorageError                  the store failed
│   ├── DatabaseVersionError
│   ├── DamagedDataError          a stored journal or value cannot be read
│   ├── ErasedError
│   └── StaleClaimError           another process has taken over the run
├── RunStateError                 the run's state does not allow the operation
│   ├── UnknownRunError
│   ├── RunExistsError
│   ├── RunEndedError
│   ├── UnreadMessagesError       the run may not end: it has not read a message
│   ├── RunClaimedError           another process is working on the run
│   ├── UnknownWaitError
│   ├── NotAllowedError
│   └── ConversationError         the conversation's state does not allow the operation
│       ├── UnknownConversationError
│       ├── UnknownTurnError
│       ├── ConversationBusyError     a turn is in progress
│       ├── LeafMovedError            another turn was appended meanwhile
│       └── TurnExistsError           the message was sent before
├── WorkerError                   work on untrusted data failed in its process, or exceeded a limit
├── LimitError                    a limit of the run allows no further work
│   └── BudgetError               an account has too little left for a reservation
├── EngineError                   a defect of the engine; the run fails
└── RunError                      a run failed; carries the partial result

Every message states what is wrong, which value caused it, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .messages import AssistantMessage
    from .usage import Receipt, Tokens


class ConcertinoError(Exception):
    """Base class of all errors of this library."""


class ConfigurationError(ConcertinoError):
    """A setting is missing or invalid; the message names it and the remedy."""


class UnknownProviderError(ConfigurationError):
    """The provider is unknown."""


class UnknownModelError(ConfigurationError):
    """The provider does not list the model."""


class MissingKeyError(ConfigurationError):
    """An API key is missing; the message names the environment variable."""


class MissingExtraError(ConfigurationError):
    """An optional dependency is missing; the message names the extra to install."""


class ResourcesError(ConfigurationError):
    """The function of `Runtime(resources=...)` raised an error, which is chained, or returned an invalid value."""


class HookError(ConcertinoError):
    """A hook of an agent raised an exception or returned an invalid value. The run fails."""

    tool: str = ""
    """The tool about whose call the hook decided, or that was running; "" outside a call."""
    call_id: str = ""

    def __init__(self, agent: str, hook: str, problem: str, part: str = "") -> None:
        super().__init__(f"hook {hook} of agent {agent!r}{part} {problem}")
        self.agent = agent
        self.hook = hook

    def during(self, tool: str, call_id: str) -> HookError:
        """Return this error after naming the innermost call in which the hook failed."""
        if not self.tool:
            self.tool, self.call_id = tool, call_id
        return self

    def __str__(self) -> str:
        return f"{super().__str__()} (in a call of the tool {self.tool!r})" if self.tool else super().__str__()


class ToolError(ConcertinoError):
    """A tool failed. Raise it in a tool to choose the error message that the model reads."""


class ToolArgumentsError(ToolError):
    """The arguments of a tool call do not match the tool's schema."""


class LibraryError(ConcertinoError):
    """A search or a fetch failed."""


class CorpusError(LibraryError):
    """A document collection is missing, empty or unreadable."""


class InvalidOutputError(ConcertinoError):
    """A model's answer does not match its output type; the message names the problems."""


class ContextFloorError(ConcertinoError):
    """The smallest possible request exceeds the context window; the message names its largest parts."""


class ProviderError(ConcertinoError):
    """A model provider failed."""

    _refusal = False
    """Whether the provider has refused the request; no provider bills refused requests. A content filter's refusal does
    not count: Azure bills the prompt that it has read (Microsoft Learn, Azure OpenAI, "Content filtering")."""

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        """HTTP status of the response; None if there was no response."""
        self.retry_after = retry_after
        """Delay in seconds that the provider requests; None if it requests none."""
        self.partial: AssistantMessage | None = None
        """The part of the answer that arrived before the failure; None if the answer had not begun."""
        self.tokens: Tokens | None = None
        """Usage that the provider had reported before the failure; None if it had reported none."""
        self.receipt: Receipt | None = None
        """What else the provider had reported."""
        self.sent: bool | None = None
        """True if the provider responded, False if it cannot have read the request and so bills nothing, None if it is
        unknown, as after a connection that was lost before a response."""
        self.final = False
        """True if `tokens` are the final counts."""

    @property
    def billable(self) -> bool:
        """True if the provider may bill the request, given that no answer began.

        It bills nothing if it cannot have read the request, or refused it. If the connection was lost before a
        response, it may bill the request.
        """
        return self.sent is not False and not self._refusal


class AuthenticationError(ProviderError):
    """The API key is missing or invalid."""

    _refusal = True


class PermissionDeniedError(ProviderError):
    """The API key is valid, but a missing permission, an unpaid bill or an exhausted quota forbids the request."""

    _refusal = True


class ModelNotFoundError(ProviderError):
    """The model does not exist, or the API key has no access to it."""

    _refusal = True


class BadRequestError(ProviderError):
    """The provider rejected the request; sending it again will not help."""

    _refusal = True
    part: str = ""
    """Part of the request that the provider names as invalid; "" if it names none."""


class ContextTooLongError(BadRequestError):
    """The request exceeds the model's context window."""


class UnsupportedError(BadRequestError):
    """The model or its API does not support the request; the message names the model, the field and the remedy."""


class ContentFilteredError(ProviderError):
    """A content filter of the provider blocked the request or the answer."""


class RateLimitError(ProviderError):
    """The rate limit for requests or tokens is exceeded."""

    _refusal = True


class OverloadedError(ProviderError):
    """The provider is overloaded or failed internally (HTTP 5xx, 529)."""

    @property
    def billable(self) -> bool:
        """See `ProviderError.billable`."""
        # By these statuses it declines a request. After any other 5xx it may have done the work: a proxy's 502, 504 or
        # 524 means only that the answer did not arrive.
        return super().billable and self.status not in (409, 503, 529)


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in time."""

    limit: str = ""
    """The limit that expired: `connect`, `delta` or `total`; "" for a limit of the SDK."""


class ProviderConnectionError(ProviderError):
    """The connection to the provider failed."""


class BrokenStreamError(ProviderError):
    """The answer began, but its stream ended before the final message."""


class StorageError(ConcertinoError):
    """The store failed. A failed write leaves nothing behind."""


class DatabaseVersionError(StorageError):
    """The file is not a concertino database, or a newer version of concertino wrote it."""


class DamagedDataError(StorageError):
    """Stored data cannot be read: a bug or a fault of the disk changed it. Stop or erase the run."""


class ErasedError(StorageError):
    """The requested data was erased, by the data policy or at a user's request."""


class StaleClaimError(StorageError):
    """Another process has taken over the run. Nothing was written; stop working on it."""


class RunStateError(ConcertinoError):
    """The run's state does not allow the operation."""


class UnknownRunError(RunStateError):
    """The store has no run with this id."""


class RunExistsError(RunStateError):
    """The store already has a run with this id: resume it, or choose another id; `run_id` is the id in the store."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class RunEndedError(RunStateError):
    """The run has ended."""


class UnreadMessagesError(RunStateError):
    """The run may not end: it has accepted a message that it has not read; `number` is that of the last one."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class RunClaimedError(RunStateError):
    """Another process is working on the run; `owner` identifies it."""

    def __init__(self, message: str, owner: str = "") -> None:
        super().__init__(message)
        self.owner = owner


class UnknownWaitError(RunStateError):
    """No call waits under this key."""


class NotAllowedError(RunStateError):
    """This person may not answer the wait."""


class ConversationError(RunStateError):
    """The conversation's state does not allow the operation."""


class UnknownConversationError(ConversationError):
    """The scope has no conversation with this id."""


class UnknownTurnError(ConversationError):
    """The conversation has no turn with this id."""


class ConversationBusyError(ConversationError):
    """A turn of the conversation is in progress or queued; `run_id` names it."""

    def __init__(self, message: str, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class LeafMovedError(ConversationError):
    """Another turn has become the active leaf since the conversation was read: read it again."""


class TurnExistsError(ConversationError):
    """A message with this idempotency key was sent before; `run_id` names its turn."""

    def __init__(self, message: str, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class WorkerError(ConcertinoError):
    """Work on untrusted data exceeded a limit of CPU time or memory, ended its process, or raised an exception."""

    def __init__(self, message: str, *, raised: str = "") -> None:
        super().__init__(message)
        self.raised = raised
        """Type of the exception that the work raised; "" for a limit or a process that has ended."""
        self.detail = message.removeprefix(f"{raised}: ")


LimitReason = Literal[
    "tool_calls",
    "steps",
    "hook_seconds",
    "answer",
    "budget",
    "model_calls",
    "all_tool_calls",
    "seconds",
    "received",
    "tokens",
    "cost",
]
"""The limit that is reached. `budget`: an account does not cover another step. `answer`: an answer went far beyond its
token limit. The others are fields of `Limits`."""


class LimitError(ConcertinoError):
    """A limit of the run, or of its tree, allows no further work; `reason` names it as `AgentConfig.on_limit` does."""

    def __init__(self, message: str, reason: LimitReason) -> None:
        super().__init__(message)
        self.reason = reason


class BudgetError(LimitError):
    """An account has too little left for a reservation; `account` is its kind: `run`, `user` or `tenant`."""

    def __init__(self, message: str, account: str, tokens: int | None = None, money: Any = None) -> None:
        super().__init__(message, "budget")
        self.account = account
        self.tokens = tokens
        """Remaining tokens; None: unlimited."""
        self.money = money
        """Remaining US dollars; None: unlimited."""


class EngineError(ConcertinoError):
    """A defect of the engine: an impossible state. The run fails instead of looping."""


class RunError(ConcertinoError):
    """A run failed. `result` carries the partial result with its usage; the cause is chained."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result

    @property
    def tool(self) -> str:
        """The tool whose call failed the run; "" if no call did."""
        return self.__cause__.tool if isinstance(self.__cause__, HookError) else ""

    @property
    def call_id(self) -> str:
        """The model's id of that call."""
        return self.__cause__.call_id if isinstance(self.__cause__, HookError) else ""


def error_text(error: BaseException) -> str:
    """Return the type and the message of *error*, whatever its `__str__` does."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - code of a tool may raise anything, such as SystemExit
        return type(error).__name__
