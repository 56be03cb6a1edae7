"""Budgets: what the next attempt at a model may cost at worst, reserved before it begins and settled after it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import is_
from typing import TYPE_CHECKING, Any

from ...messages import Message, Messages
from ...providers.base import Model, ModelRequest
from ...storage.types import Reservation, Settlement
from ...token_engine.counting.base import TokenCounter
from ...token_engine.counting.sizes import FRAME, message_text
from ...usage import Tokens, UsageRecord

if TYPE_CHECKING:
    from ..run import Run

MARGIN = 1.15
"""An estimating counter may be too low by so much; an exact one is taken at its word."""
ENDING = 512
"""Tokens of the answer that are kept in reserve for an ending, whatever else a step takes."""
LEAST = 64
"""Tokens of an answer for which it is still worth asking."""


def tokens_of(request: ModelRequest, counter: TokenCounter) -> int:
    """The tokens of all texts of *request*, without what a provider puts around its messages."""
    return _fixed(request, counter) + sum([counter.count(message_text(message)) for message in request.messages])


def _fixed(request: ModelRequest, counter: TokenCounter) -> int:
    return counter.count(request.system) + sum([counter.count(tool.text) for tool in request.tools])


class Reserve:
    """Counts what requests will take. Each message is counted once, so that a step costs the same at any length."""

    __slots__ = ("_counted", "_fixed", "_fixed_of", "_run", "_sums")

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._fixed_of: tuple[object, object] = (None, None)
        self._fixed = 0
        self._counted: Sequence[Message] = ()
        self._sums = [0]
        """The tokens of the messages in front of each, and of all of them."""

    def reservation(self, usage_id: str, model: Model, request: ModelRequest, *, last: bool) -> Reservation:
        """The worst case of *request*: all of it uncached, and the longest answer it may have.

        Unless it is the *last*, an ending must be affordable after it.
        """
        prompt, output = self.prompt(request), request.max_output_tokens or self._run.limits.output
        worst = self._price(model, Tokens(prompt=prompt, completion=output))
        spare, spare_money = 0, Decimal(0)
        if not last:
            ending = Tokens(prompt=prompt + output, completion=min(output, ENDING))
            spare, spare_money = ending.total, self._price(model, ending) or Decimal(0)
        return Reservation(
            id=usage_id,
            accounts=self._run.tree.accounts,
            tokens=prompt + output,
            money=worst,
            spare_tokens=spare,
            spare_money=spare_money,
        )

    def settlement(self, record: UsageRecord) -> Settlement:
        """What an attempt took."""
        accounts = self._run.tree.accounts
        return Settlement(id=record.id, accounts=accounts, tokens=record.tokens.total, money=record.cost)

    def affordable(self, model: Model, request: ModelRequest, tokens: int | None, money: Decimal | None) -> int:
        """How long an answer to *request* may be with what is left; 0 or less: there is no room to ask at all."""
        prompt, output = self.prompt(request), request.max_output_tokens or self._run.limits.output
        if tokens is not None:
            output = min(output, tokens - prompt)
        while money is not None and output >= LEAST:
            worst = self._price(model, Tokens(prompt=prompt, completion=output))
            if worst is None or worst <= money:
                break
            output = output * 3 // 4
        return output if output >= LEAST else 0

    def prompt(self, request: ModelRequest) -> int:
        """The tokens of *request*, rather too many than too few."""
        counter, messages = self._run.chat.counter, request.messages
        system, tools = self._fixed_of
        if request.system is not system or request.tools is not tools:
            self._fixed_of, self._fixed = (request.system, request.tools), _fixed(request, counter)
        same, sums = len(self._counted), self._sums
        if same > len(messages) or not all(map(is_, self._counted, messages)):  # edited, or an agent's own
            pairs = zip(self._counted, messages, strict=False)
            same = next((at for at, (old, new) in enumerate(pairs) if old is not new), min(same, len(messages)))
            del sums[same + 1 :]
        for message in messages[same:]:
            sums.append(sums[-1] + counter.count(message_text(message)))
        self._counted = messages if isinstance(messages, Messages) else tuple(messages)  # others may change in place
        tokens = self._fixed + sums[-1] + FRAME * len(messages)
        return tokens if counter.exact else int(tokens * MARGIN)

    def _price(self, model: Model, tokens: Tokens) -> Decimal | None:
        cost, _ = self._run.chat.price(model.provider, model.name, tokens)
        return cost
