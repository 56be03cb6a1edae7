"""Settings that make no sense are refused where they are made, and named with what to do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from concertino import Ask, Budget, Continue, Fail, Finish, Special
from concertino.errors import ConfigurationError
from concertino.token_engine.retention import Retention

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (Budget, {}, "Budget() limits nothing: give it tokens or money"),
    (Budget, {"tokens": "x"}, "Budget(tokens='x'): use a whole number of at least 0"),
    (Budget, {"tokens": -1}, "Budget(tokens=-1): "),
    (Budget, {"tokens": 1.5}, "Budget(tokens=1.5): "),
    (Budget, {"tokens": True}, "Budget(tokens=True): "),
    (Budget, {"money": -1}, "Budget(money=-1): use a Decimal of at least 0, such as Decimal('2.50')"),
    (Budget, {"money": 2.5}, "Budget(money=2.5): "),
    (Budget, {"money": Decimal(-1)}, "Budget(money=Decimal('-1')): "),
    (Budget, {"money": Decimal("NaN")}, "Budget(money=Decimal('NaN')): "),
    (Retention, {"price": "x"}, "Retention(price='x'): use a finite share of the bill"),
    (Retention, {"price": None}, "Retention(price=None): "),
    (Retention, {"price": float("nan")}, "Retention(price=nan): "),
    (Retention, {"floor": -1}, "Retention(floor=-1): use a share of the window below 1, or a whole number of tokens"),
    (Continue, {"messages": ("x",)}, "Continue(messages=('x',)): use a tuple of messages, such as UserMessage('...')"),
    (Special, {"messages": "x"}, "Special(messages='x'): use a tuple of messages"),
    (Special, {"result": 5}, "Special(result=5): use text, or None"),
    (Special, {"withhold": True}, "Special(withhold=True): give the result that the model reads instead"),
    (Finish, {"text": 5}, "Finish(text=5): use text, or None"),
    (Fail, {"error": None}, "Fail(error=None): use text"),
    (Ask, {"who": "boss"}, "Ask(who='boss'): use a tuple of names"),
    (Ask, {"who": 5}, "Ask(who=5): "),
    (Ask, {"seconds": 0}, "Ask(seconds=0): use seconds above 0, or None"),
    (Ask, {"seconds": "1h"}, "Ask(seconds='1h'): "),
]


@pytest.mark.parametrize(("kind", "values", "says"), WRONG)
def test_what_makes_no_sense_is_named_with_what_to_do(kind: Any, values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kind(**values)
    assert str(refused.value).startswith(says)


def test_what_makes_sense() -> None:
    assert Budget(tokens=0) == Budget(tokens=0, money=None)
    assert Budget(money=Decimal(0)).tokens is None
    assert Retention(price=1).price == 1
    assert Ask(who=["a"], seconds=0.5).seconds == 0.5  # type: ignore[arg-type]
