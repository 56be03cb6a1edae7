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
from ...usage import Tokens, UsageRecord

if TYPE_CHECKING:
    from ..resources import Limits, Resources

MARGIN = 1.15
"""The factor by which an estimating counter may be too low."""
ENDING = 512
"""Tokens reserved in addition to every step but the last, so that the run can still end with an answer."""
LEAST = 64
"""The shortest answer, in tokens, that is worth a request."""


def tokens_of(request: ModelRequest, counter: TokenCounter) -> int:
    """Return the tokens of all texts of *request*, without the provider's framing of its messages."""
    return _fixed(request, counter) + sum([counter.count(message_text(message)) for message in request.messages])


def _fixed(request: ModelRequest, counter: TokenCounter) -> int:
    return counter.count(request.system) + sum([counter.count(tool.text) for tool in request.tools])


class Reserve:
    """Computes reservations. Each message is counted once, so that a step costs the same at any length."""

    __slots__ = ("_counted", "_fixed", "_fixed_of", "_resources", "_sums", "limits")

    def __init__(self, resources: Resources, limits: Limits) -> None:
        self._resources = resources
        self.limits = limits
        self._fixed_of: tuple[object, object] = (None, None)
        self._fixed = 0
        self._counted: Sequence[Message] = ()
        self._sums = [0]
        """The tokens of all messages before each index."""

    def reservation(self, usage_id: str, model: Model, request: ModelRequest, *, last: bool) -> Reservation:
        """Return the worst case of *request*: an uncached prompt and the longest answer.

        Unless the request is the *last*, a final answer must be affordable after it.
        """
        prompt, output = self.prompt(request), request.max_output_tokens or self.limits.output
        worst = self._price(model, Tokens(prompt=prompt, completion=output))
        spare, spare_money = 0, Decimal(0)
        if not last:
            ending = Tokens(prompt=prompt + output, completion=min(output, ENDING))
            spare, spare_money = ending.total, self._price(model, ending) or Decimal(0)
        return Reservation(
            id=usage_id,
            tokens=prompt + output,
            money=worst,
            spare_tokens=spare,
            spare_money=spare_money,
        )

    def settlement(self, record: UsageRecord) -> Settlement:
        """Return what an attempt takes from the accounts."""
        return Settlement(id=record.id, tokens=record.tokens.total, money=record.cost)

    def affordable(self, model: Model, request: ModelRequest, tokens: int | None, money: Decimal | None) -> int:
        """Return the longest answer to *request*, in tokens, that *tokens* and *money* cover; 0 if too short."""
        prompt, output = self.prompt(request), request.max_output_tokens or self.limits.output
        if tokens is not None:
            output = min(output, tokens - prompt)
        while money is not None and output >= LEAST:
            worst = self._price(model, Tokens(prompt=prompt, completion=output))
            if worst is None or worst <= money:
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

    def _price(self, model: Model, tokens: Tokens) -> Decimal | None:
        cost, _ = self._resources.price(model.provider, model.name, tokens)
        return cost
