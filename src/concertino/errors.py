"""All errors of concertino. One root; each says what went wrong, in which part, and what to do.

ConcertinoError
├── ConfigurationError            something is missing or set wrong; the message names the setting
│   ├── UnknownProviderError
│   ├── UnknownModelError
│   ├── MissingKeyError           names the environment variable
│   └── MissingExtraError         names the extra to install
├── HookError                     a hook of an agent raised, or returned what it may not
├── ToolError                     a tool's own failure; its text is what the model reads
│   └── ToolArgumentsError        the arguments do not fit the tool's schema
├── LibraryError                  search or fetch failed
│   └── CorpusError               a corpus is missing, empty or unreadable
├── ContextFloorError             the smallest possible request is over the model's window
├── ProviderError                 a model provider failed; carries the delay that it asks for
│   ├── AuthenticationError       the key is missing or wrong
│   ├── PermissionDeniedError     the key is known, and may not do this, or has nothing left to spend
│   ├── ModelNotFoundError
│   ├── BadRequestError           the provider refuses the request as it stands
│   │   ├── ContextTooLongError
│   │   └── UnsupportedError      the model cannot do what is asked; found before anything is sent
│   ├── ContentFilteredError
│   ├── RateLimitError            too many requests or tokens
│   ├── OverloadedError           the provider's own failure (5xx, 529)
│   ├── ProviderTimeoutError
│   ├── ProviderConnectionError
│   └── BrokenStreamError         the answer broke off
├── StorageError                  the store failed; nothing half-written stays
│   ├── DatabaseVersionError      written by a newer concertino, or no database of ours
│   ├── ErasedError               what is asked for was erased, as the data policy wants it
│   └── StaleClaimError           somebody else has taken the run over: stop, without a side effect
├── RunStateError                 the run is not in a state for what is asked of it
│   ├── UnknownRunError
│   ├── RunExistsError
│   ├── RunEndedError
│   ├── RunClaimedError           another process is at work on it
│   ├── UnknownWaitError
│   └── NotAllowedError           this person may not answer this wait
├── BudgetError                   an account has no room; the engine makes an ending of it
└── RunError                      what `run()` raises when a run fails; carries the result so far
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .messages import AssistantMessage
    from .usage import Tokens


class ConcertinoError(Exception):
    """The root of all errors of this library."""


class ConfigurationError(ConcertinoError):
    """Something is missing or set wrong; the message names the setting and the remedy."""


class UnknownProviderError(ConfigurationError):
    """No provider has this name."""


class UnknownModelError(ConfigurationError):
    """The provider has no model of this name."""


class MissingKeyError(ConfigurationError):
    """A key is needed; the message names the environment variable."""


class MissingExtraError(ConfigurationError):
    """An optional dependency is not installed; the message names the extra."""


class HookError(ConcertinoError):
    """A hook of an agent raised, or returned something of the wrong type. The run fails: hooks decide."""

    def __init__(self, agent: str, hook: str, problem: str) -> None:
        super().__init__(f"hook {hook} of agent {agent!r} {problem}")
        self.agent = agent
        self.hook = hook


class ToolError(ConcertinoError):
    """A tool's own failure. Raise it in a tool to choose the words that the model reads."""


class ToolArgumentsError(ToolError):
    """The arguments of a call do not fit the tool's schema."""


class LibraryError(ConcertinoError):
    """A search or a fetch failed."""


class CorpusError(LibraryError):
    """A corpus is missing, empty or unreadable."""


class ContextFloorError(ConcertinoError):
    """What must be sent is larger than the model's window; the message names what fills it."""


class ProviderError(ConcertinoError):
    """A model provider failed. `provider` and `status` say who and, over HTTP, how."""

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        """The delay in seconds that the provider asks for; None: it asks for none."""
        self.partial: AssistantMessage | None = None
        """What had come of the answer before it broke off; None if it had not begun."""
        self.tokens: Tokens | None = None
        """What the provider had counted of the answer by then; None: nothing."""
        self.sent: bool | None = None
        """Whether the provider received the request. False: it cannot have read it, and bills nothing. True: it
        responded. None: unknown, as after a connection that was lost before a response."""
        self.final = False
        """Whether the answer had come to its end, so that `tokens` are all of it."""


class AuthenticationError(ProviderError):
    """The key is missing or wrong."""


class PermissionDeniedError(ProviderError):
    """The key is known, and may not do this: no right to it, a bill that is open, a quota that is used up."""


class ModelNotFoundError(ProviderError):
    """The provider does not know the model, or this key may not use it."""


class BadRequestError(ProviderError):
    """The provider refuses the request as it stands; sending it again will not help."""

    part: str = ""
    """The part of the request that offends, in the provider's words; "" where it does not say."""


class ContextTooLongError(BadRequestError):
    """The request is over the model's context window."""


class UnsupportedError(BadRequestError):
    """The model, or the API it is asked over, cannot do what is asked. The message names model, field and remedy."""


class ContentFilteredError(ProviderError):
    """A filter of the provider refused the request or the answer."""


class RateLimitError(ProviderError):
    """Too many requests or tokens."""


class OverloadedError(ProviderError):
    """The provider's own failure: it is overloaded or broken (5xx, 529)."""


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in time."""

    limit: str = ""
    """Which limit it was: `connect`, `delta` or `total`; "" where the SDK's own was the first."""


class ProviderConnectionError(ProviderError):
    """The provider could not be reached."""


class BrokenStreamError(ProviderError):
    """The answer began and broke off."""


class StorageError(ConcertinoError):
    """The store failed. What was written before stays; nothing half-written does."""


class DatabaseVersionError(StorageError):
    """The file was written by a newer concertino, or it is no database of concertino."""


class ErasedError(StorageError):
    """What is asked for was erased, because the data policy or a user wanted it so."""


class StaleClaimError(StorageError):
    """Somebody else has taken the run over. Nothing was written, and nothing more may be done for it here."""


class RunStateError(ConcertinoError):
    """A run is not in a state for what is asked of it."""


class UnknownRunError(RunStateError):
    """The store has no such run."""


class RunExistsError(RunStateError):
    """The store has this run already: resume it, or take another id."""


class RunEndedError(RunStateError):
    """The run has ended."""


class RunClaimedError(RunStateError):
    """Another process is at work on the run; `owner` names it."""

    def __init__(self, message: str, owner: str = "") -> None:
        super().__init__(message)
        self.owner = owner


class UnknownWaitError(RunStateError):
    """No call waits under this key."""


class NotAllowedError(RunStateError):
    """This person may not answer this wait."""


class BudgetError(ConcertinoError):
    """An account has no room for what would be reserved; `account` names it, and the rest says what is left."""

    def __init__(self, message: str, account: str, tokens: int | None = None, money: Any = None) -> None:
        super().__init__(message)
        self.account = account
        self.tokens = tokens
        """Tokens that are left; None: not limited."""
        self.money = money
        """US dollars that are left; None: not limited."""


class RunError(ConcertinoError):
    """A run failed. `result` holds what was gathered, usage included; the cause is chained."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result
