"""Budgets: what the next attempt at a model may cost at worst, reserved before it begins and settled after it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..messages import Message
from ..providers.port import Model, ModelRequest
from ..storage.values import Reservation, Settlement
from ..token_engine.sizes import message_text
from ..usage import Tokens, UsageRecord

if TYPE_CHECKING:
    from .run import Run

FRAME = 8
"""Tokens that a provider's framing of a message costs at most."""
MARGIN = 1.15
"""An estimating counter may be too low by so much; an exact one is taken at its word."""
ENDING = 512
"""Tokens of the answer that are kept in reserve for an ending, whatever else a step takes."""
LEAST = 64
"""Tokens of an answer for which it is still worth asking."""


class Reserve:
    """Counts what requests will take. Each message is counted once, so that a step costs the same at any length."""

    __slots__ = ("_fixed", "_fixed_of", "_run", "_seen", "_tokens")

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._fixed = 0
        self._fixed_of = (0, 0)
        self._seen = 0
        self._tokens = 0

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
        messages = request.messages
        if len(messages) != len(self._run.messages):  # trimmed, or an agent's own
            tokens = sum(map(self._count, messages))
        else:
            for place in range(self._seen, len(messages)):
                self._tokens += self._count(messages[place])
            self._seen = len(messages)
            tokens = self._tokens
        if self._fixed_of != (id(request.system), id(request.tools)):
            self._fixed_of = (id(request.system), id(request.tools))
            count = self._run.chat.counter.count
            self._fixed = count(request.system) + sum(count(tool.text) for tool in request.tools)
        tokens += self._fixed
        return tokens if self._run.chat.counter.exact else int(tokens * MARGIN)

    def recount(self) -> None:
        """The conversation is another one."""
        self._seen = self._tokens = 0

    def _count(self, message: Message) -> int:
        return self._run.chat.counter.count(message_text(message)) + FRAME

    def _price(self, model: Model, tokens: Tokens) -> Decimal | None:
        cost, _ = self._run.chat.price(model.provider, model.name, tokens)
        return cost
