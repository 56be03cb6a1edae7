"""Budgets: the worst case of a model attempt, reserved before it begins and settled after it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import is_
from typing import TYPE_CHECKING

from ...messages import Message, Messages
from ...providers.base import Model, ModelRequest
from ...storage.types import Reservation, Settlement
from ...token_engine.counting.base import TokenCounter
from ...token_engine.counting.sizes import FRAME, message_text
from ...usage import Receipt, Tokens, UsageRecord

if TYPE_CHECKING:
    from ..meter import Meter
    from ..resources import Limits, Resources

MARGIN = 1.15
"""The factor by which an estimating counter may be too low."""
ENDING = 512
"""Tokens reserved in addition to every step but the last, so that the run can still end with an answer."""
LEAST = 32
"""The shortest answer, in tokens, that is worth a request: a call with short arguments, or a sentence."""


def tokens_of(request: ModelRequest, counter: TokenCounter) -> int:
    """Return the tokens of all texts of *request*, without the provider's framing of its messages."""
    return _fixed(request, counter) + sum([counter.count(message_text(message)) for message in request.messages])


def _ending(prompt: int, output: int) -> Tokens:
    """Return the worst case of a final answer after a request of *prompt* and its answer of *output* tokens."""
    return Tokens(prompt=prompt + output, completion=min(output, ENDING))


def _fixed(request: ModelRequest, counter: TokenCounter) -> int:
    return counter.count(request.system) + sum([counter.count(tool.text) for tool in request.tools])


class Reserve:
    """Computes reservations. Each message is counted once, so that a step costs the same at any length."""

    __slots__ = ("_counted", "_endings", "_fixed", "_fixed_of", "_held", "_resources", "_run_id", "_sums", "limits")

    def __init__(self, resources: Resources, limits: Limits, meter: Meter, run_id: str) -> None:
        self._resources = resources
        self._endings = meter.endings
        self._run_id = run_id
        self.limits = limits
        self._fixed_of: tuple[object, object] = (None, None)
        self._fixed = 0
        self._counted: Sequence[Message] = ()
        self._held: dict[str, Reservation] = {}
        self._sums = [0]
        """The tokens of all messages before each index."""

    def reservation(self, usage_id: str, model: Model, request: ModelRequest, *, last: bool) -> Reservation:
        """Return the worst case of *request*: an uncached prompt and the longest answer.

        Unless the request is the *last*, a final answer must be affordable after it. So must the final answers of the
        tree's other open runs: a sub-agent does not use up what its parent needs to end.
        """
        prompt, output = self.prompt(request), request.max_output_tokens or self.limits.output
        worst = self._price(model, Tokens(prompt=prompt, completion=output), request)
        spare, spare_money = self._others()
        if not last:
            ending = _ending(prompt, output)
            money = self._price(model, ending, request) or Decimal(0)
            self._endings[self._run_id] = ending.total, money
            spare, spare_money = spare + ending.total, spare_money + money
        held = self._held[usage_id] = Reservation(
            id=usage_id,
            tokens=prompt + output,
            money=worst,
            spare_tokens=spare,
            spare_money=spare_money,
        )
        return held

    def _others(self) -> tuple[int, Decimal]:
        """Return what the other open runs need for their last steps."""
        others = [ending for run_id, ending in self._endings.items() if run_id != self._run_id]
        return sum([tokens for tokens, _ in others]), sum([money for _, money in others], Decimal(0))

    def settlement(self, record: UsageRecord) -> Settlement:
        """Return what an attempt takes from the accounts.

        A budget must never be exceeded, so an attempt takes what was reserved for it where its usage or its cost is
        unknown. `Store.settle_usage` corrects it.
        """
        tokens, money = record.tokens.total, record.cost
        if (held := self._held.pop(record.id, None)) is not None:
            tokens = max(tokens, held.tokens) if record.source == "unknown" else tokens
            money = held.money if money is None else money
        return Settlement(id=record.id, tokens=tokens, money=money)

    def affordable(
        self, model: Model, request: ModelRequest, tokens: int | None, money: Decimal | None, *, last: bool
    ) -> int:
        """Return the longest answer to *request*, in tokens, that *tokens* and *money* cover; 0 if too short.

        Unless the request is the *last*, they must cover a final answer after it, as in `reservation`.
        """
        prompt, output = self.prompt(request), request.max_output_tokens or self.limits.output
        kept, kept_money = self._others()
        if tokens is not None:
            tokens -= kept
            rest = tokens - prompt if last else max((tokens - 2 * prompt) // 3, (tokens - 2 * prompt - ENDING) // 2)
            output = min(output, rest)
        while money is not None and output >= LEAST:
            worst = self._price(model, Tokens(prompt=prompt, completion=output), request)
            if worst is None:
                break
            if not last:
                worst += self._price(model, _ending(prompt, output), request) or 0
            if worst + kept_money <= money:
                break
            output = output * 3 // 4
        return output if output >= LEAST else 0

    def fixed(self, request: ModelRequest) -> int:
        """Return the tokens of the system prompt and the tools of *request*."""
        system, tools = self._fixed_of
        if request.system is not system or request.tools is not tools:
            self._fixed_of = (request.system, request.tools)
            self._fixed = _fixed(request, self._resources.counter)
        return self._fixed

    def prompt(self, request: ModelRequest) -> int:
        """Return the tokens of *request*, rather too many than too few."""
        counter, messages = self._resources.counter, request.messages
        fixed = self.fixed(request)
        same, sums = len(self._counted), self._sums
        if same > len(messages) or not all(map(is_, self._counted, messages)):  # edited, or a hook's own messages
            pairs = zip(self._counted, messages, strict=False)
            same = next((at for at, (old, new) in enumerate(pairs) if old is not new), min(same, len(messages)))
            del sums[same + 1 :]
        for message in messages[same:]:
            sums.append(sums[-1] + counter.count(message_text(message)))
        self._counted = messages if isinstance(messages, Messages) else tuple(messages)  # a list may change in place
        tokens = fixed + sums[-1] + FRAME * len(messages)
        return tokens if counter.exact else int(tokens * MARGIN)

    def _price(self, model: Model, tokens: Tokens, request: ModelRequest) -> Decimal | None:
        tier = Receipt(service_tier=request.service_tier) if request.service_tier else None
        return self._resources.cost_of(model.provider, model.name, tokens, tier)[0]
