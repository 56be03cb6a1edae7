"""A record behaves like the standard dataclass of the same definition."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, field
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from concertino.records import record

T = TypeVar("T")


class _Cached:
    """A base without fields that adds a slot, as messages have one."""

    __slots__ = ("_cache",)

    def remember(self, value: object) -> None:
        object.__setattr__(self, "_cache", value)


@record
class Point(_Cached):
    """A record of two fields."""

    x: int
    y: Any = 0
    kind: ClassVar[str] = "point"


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint(_Cached):
    """The same definition with the standard decorator."""

    x: int
    y: Any = 0
    kind: ClassVar[str] = "point"


@record(kw_only=True)
class Named:
    """A record with every kind of field."""

    name: str
    tags: list[str] = field(default_factory=list)
    hidden: int = field(default=1, repr=False)
    ignored: int = field(default=2, compare=False)
    unhashed: Any = field(default=3, hash=False)
    derived: str = field(init=False, default="d")
    made: list[int] = field(init=False, default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StandardNamed:
    """The same definition with the standard decorator."""

    name: str
    tags: list[str] = field(default_factory=list)
    hidden: int = field(default=1, repr=False)
    ignored: int = field(default=2, compare=False)
    unhashed: Any = field(default=3, hash=False)
    derived: str = field(init=False, default="d")
    made: list[int] = field(init=False, default_factory=list)


@record(frozen=False)
class Counter:
    """A record that may change."""

    count: int = 0


@record
class Empty:
    """A record without fields."""


@record
class Box(Generic[T]):
    """A generic record."""

    content: T


@record
class Positive:
    """A record that checks itself."""

    value: int
    self: int = 0

    def __post_init__(self) -> None:
        if self.value < 1:
            raise ValueError(f"value {self.value}")


@record
class Base:
    """A record that others extend."""

    a: int


@record
class Extended(Base):
    """A frozen record below another one."""

    b: int = 2


@record(frozen=False)
class Event:
    """A mutable base."""

    run: str


@record(frozen=False)
class TextEvent(Event):
    """A mutable record below another one."""

    text: str
    parts: list[str] = field(default_factory=list)


class Plain(Base):
    """A plain subclass with an attribute of its own."""

    extra = 0


values = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.floats(), st.tuples(st.integers()))


@given(x=values, y=values, other_x=values, other_y=values)
def test_equality_hash_and_repr_match_the_standard_dataclass(x: Any, y: Any, other_x: Any, other_y: Any) -> None:
    ours, theirs = (Point(x, y), Point(other_x, other_y)), (StandardPoint(x, y), StandardPoint(other_x, other_y))
    assert (ours[0] == ours[1]) == (theirs[0] == theirs[1])
    assert (ours[0] != ours[1]) == (theirs[0] != theirs[1])
    assert ours[0] == Point(x, y)
    assert hash(ours[0]) == hash(theirs[0])
    assert repr(ours[0]) == repr(theirs[0]).replace("Standard", "")
    standard: object = theirs[0]
    assert ours[0] != standard


@given(
    changed=st.dictionaries(
        st.sampled_from(["name", "tags", "hidden", "ignored", "unhashed"]), st.lists(st.text(max_size=2), max_size=2)
    )
)
def test_special_fields_match_the_standard_dataclass(changed: dict[str, Any]) -> None:
    arguments = {"name": "n", **changed}
    ours, theirs = Named(**arguments), StandardNamed(**arguments)
    assert repr(ours) == repr(theirs).replace("Standard", "")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.astuple(ours) == dataclasses.astuple(theirs)
    assert (ours == Named(name="n")) == (theirs == StandardNamed(name="n"))
    assert dataclasses.replace(ours, name="m").name == "m"
    assert dataclasses.replace(ours, name="m").tags is ours.tags


@given(x=values, y=values)
def test_copies_and_pickles_are_equal_to_the_original(x: Any, y: Any) -> None:
    point = Point(x, (y,))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert repr(pickle.loads(pickle.dumps(point, protocol))) == repr(point)
    assert copy.copy(point) == point
    assert repr(copy.deepcopy(point)) == repr(point)
    assert dataclasses.replace(point) == point


@given(
    positional=st.lists(st.integers(), max_size=4),
    named=st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(), max_size=3),
)
def test_wrong_arguments_raise_the_standard_error(positional: list[int], named: dict[str, int]) -> None:
    def outcome(make: Callable[..., Any]) -> str:
        try:
            return repr(make(*positional, **named)).replace("Standard", "")
        except TypeError as error:
            return str(error).replace("Standard", "")

    assert outcome(Point) == outcome(StandardPoint)


def test_metadata_matches_the_standard_dataclass() -> None:
    assert [f.name for f in dataclasses.fields(Point)] == ["x", "y"]
    assert Point.__match_args__ == ("x", "y")
    assert Named.__match_args__ == ()
    assert str(inspect.signature(Point)) == str(inspect.signature(StandardPoint))
    assert str(inspect.signature(Named)) == str(inspect.signature(StandardNamed))
    assert get_type_hints(Point.__init__) == get_type_hints(StandardPoint.__init__)
    assert repr(Point.__dataclass_params__) == repr(StandardPoint.__dataclass_params__)  # type: ignore[attr-defined]
    assert Point.__doc__ == "A record of two fields."
    assert not hasattr(Point(1), "__dict__")


def test_patterns_match_by_position_and_name() -> None:
    match Point(1, 2):
        case Point(x, y=2):
            assert x == 1
        case _:
            pytest.fail("the pattern did not match")


def test_a_frozen_record_rejects_assignment_and_deletion() -> None:
    point = Point(1)
    for name in ("x", "unknown"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(point, name, 2)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(point, name)
    assert point == Point(1)


def test_a_base_slot_can_be_set_past_the_freeze() -> None:
    point = Point(1)
    point.remember("kept")
    assert point._cache == "kept"  # type: ignore[attr-defined]
    assert point == Point(1)


def test_a_mutable_record_changes_and_has_no_hash() -> None:
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    assert Counter.__hash__ is None
    assert pickle.loads(pickle.dumps(counter)) == counter
    del counter.count
    with pytest.raises(AttributeError):
        counter.count  # noqa: B018


def test_post_init_runs_after_the_fields_are_set() -> None:
    assert Positive(1, 5).self == 5
    with pytest.raises(ValueError, match="value 0"):
        Positive(0)


def test_a_record_without_fields_equals_its_like() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(())
    assert repr(Empty()) == "Empty()"


def test_a_generic_record_can_be_parametrised() -> None:
    assert Box[int](1) == Box(1)
    assert Box(1) != Box(2)


@pytest.mark.parametrize("base_first", [True, False])
def test_records_can_extend_records(base_first: bool) -> None:
    if base_first:
        assert Base(1).a == 1
    assert Extended(1) == Extended(1, 2)
    assert Extended(1) != Base(1)
    assert TextEvent("r", "t", ["p"]) == TextEvent(run="r", text="t", parts=["p"])
    assert TextEvent("r", "t") != TextEvent("r", "u")
    with pytest.raises(FrozenInstanceError):
        Extended(1).a = 3  # type: ignore[misc]


def test_a_standard_dataclass_can_extend_a_record() -> None:
    @dataclasses.dataclass(frozen=True)
    class Below(Base):
        b: int

    assert Below(1, 2).b == 2
    with pytest.raises(FrozenInstanceError):
        Below(1, 2).a = 3  # type: ignore[misc]


def test_a_plain_subclass_keeps_the_fields_frozen_and_may_have_attributes() -> None:
    plain = Plain(1)
    plain.extra = 3
    assert (plain.a, plain.extra) == (1, 3)
    assert plain == Plain(1)
    assert plain != Base(1)
    with pytest.raises(FrozenInstanceError):
        plain.a = 2  # type: ignore[misc]
    del plain.extra
    assert plain.extra == 0


def test_methods_of_the_class_are_kept() -> None:
    @record
    class Own:  # noqa: PLW1641 - the decorator adds the hash
        a: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "a", len(text))

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    @record
    class Hashed:
        a: int

        def __hash__(self) -> int:
            return 7

    assert (Own("abc").a, repr(Own(""))) == (3, "own")
    assert Own("a") == 1
    assert hash(Own("abc")) == hash((3,))  # as in the standard decorator, frozen and eq make a hash
    assert hash(Hashed(1)) == 7


def test_eq_can_be_left_to_identity() -> None:
    @record(eq=False)
    class Handle:
        a: int

    assert Handle(1) != Handle(1)
    assert len({Handle(1), Handle(1)}) == 2


def test_a_recursive_record_has_a_finite_repr() -> None:
    box: Box[list[Any]] = Box([])
    box.content.append(box)
    assert repr(box) == "Box(content=[...])"


def test_factories_run_once_per_object() -> None:
    assert Named(name="a").tags is not Named(name="a").tags
    assert Named(name="a").made is not Named(name="a").made


def test_pydantic_validates_a_record() -> None:
    adapter = TypeAdapter(Point)
    assert adapter.validate_python({"x": "1"}) == Point(1)
    assert adapter.dump_python(Point(1, 2)) == {"x": 1, "y": 2}
    assert TypeAdapter(Named).validate_python({"name": "n"}) == Named(name="n")


def test_wrong_definitions_raise_when_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match="non-default argument 'b' follows default argument"):

        @record
        class _Order:
            a: int = 1
            b: int  # type: ignore[misc]

    with pytest.raises(ValueError, match="mutable default"):

        @record
        class _Mutable:
            a: list[int] = []

    with pytest.raises(TypeError, match="InitVar"):

        @record
        class _Variable:
            a: InitVar[int]

    with pytest.raises(TypeError, match="__setattr__"):

        @record
        class _Settable:
            a: int

            def __setattr__(self, name: str, value: object) -> None: ...

    with pytest.raises(TypeError, match="cannot inherit"):

        @record(frozen=False)
        class _Thawed(Base):  # type: ignore[misc]
            b: int


def test_defining_a_record_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = builtins.exec

    def counted(code: Any, *arguments: Any) -> None:
        if (
            not isinstance(code, str) or code.count("def ") > 1
        ):  # since 3.13, dataclasses compiles a frame without methods
            compiled.append(getattr(code, "co_filename", "text"))
        original(code, *arguments)

    monkeypatch.setattr(builtins, "exec", counted)

    @record
    class Lazy:
        a: int

    defined = list(compiled)
    assert Lazy(1) != Lazy(2)
    assert defined == []
    assert compiled == [f"<record {Lazy.__module__}.{Lazy.__qualname__}>"]
