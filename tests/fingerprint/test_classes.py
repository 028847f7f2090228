"""What of a class decides how it works, apart from what is made of that."""

import collections
import dataclasses
import enum
import typing
from typing import Any

import pytest

from jcache.fingerprint.classes import members


class Documented:
    """With a docstring, annotations, slots and a parameter."""

    __slots__ = ("slot",)
    slot: int

    def f(self) -> int:
        return 1


class Shape(typing.Protocol):
    def area(self) -> float: ...


@dataclasses.dataclass(order=True)
class Mesh:
    n: int
    points: list[int] = dataclasses.field(default_factory=list, compare=False)

    def __repr__(self) -> str:
        return "a mesh"


class Pair(typing.NamedTuple):
    a: int
    b: int = 2

    def f(self) -> int:
        return self.a


class Color(enum.Enum):
    RED = 1
    BLUE = 2
    CRIMSON = RED

    @classmethod
    def _missing_(cls, value: object) -> "Color":
        return cls.RED


WRITTEN: list[tuple[type, set[str]]] = [
    (Documented, {"f"}),
    (Shape, {"area"}),
    (
        Mesh,
        {
            "(fields)",
            "(field points)",
            "(factory of points)",
            "(field n)",
            "(dataclass)",
            "(defaults of __init__)",
            "__repr__",
        },
    ),
    (Pair, {"(defaults of __new__)", "f"}),
    (collections.namedtuple("Point", "x y"), set()),
    (Color, {"(members)", "(member RED)", "(member BLUE)", "(member CRIMSON)", "_missing_"}),
]


def written(cls: type) -> set[str]:
    """The names of the members of a class but for tables of plain values."""
    return {name for name, value in members(cls) if name[0] == "(" or not isinstance(value, tuple | dict | None)}


@pytest.mark.parametrize(("cls", "names"), WRITTEN)
def test_what_is_made_of_the_rest_is_no_member(cls: type, names: set[str]) -> None:
    """Generated methods, descriptions and tables are none; what somebody has written is."""
    assert written(cls) == names


def test_attributes_of_attrs_are_described() -> None:
    """The methods that attrs generates from them are no members."""
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Grid:
        n: int = 1

        def f(self) -> int:
            return self.n

    assert {"(fields)", "f"} <= written(Grid) and not {"__init__", "__eq__", "__repr__"} & written(Grid)


def test_descriptions_tell_what_generated_code_does() -> None:
    """The fields of a dataclass with their options and order, and the members of an enum with their values."""

    def described(cls: type) -> dict[str, Any]:
        return {name: value for name, value in members(cls) if name[0] == "("}

    def mesh(**options: Any) -> type:
        return dataclasses.make_dataclass("Mesh", [("n", int, dataclasses.field(**options)), ("m", int, 2)])

    made = [
        described(each)
        for each in (mesh(default=1), mesh(default=2), mesh(default=1, compare=False), mesh(default=1, init=False),
                     mesh(default_factory=list), mesh(default_factory=dict),
                     dataclasses.make_dataclass("Mesh", [("m", int, 2), ("n", int, 1)]),
                     dataclasses.make_dataclass("Mesh", [("n", int, 1), ("m", int, 2)], frozen=True))
    ]  # fmt: skip
    assert all(one != other for number, one in enumerate(made) for other in made[:number])
    assert made[0] == described(mesh(default=1))
    assert described(Color) == {
        "(members)": ("RED", "BLUE", "CRIMSON"), "(member RED)": (0, "RED", 1, {}),
        "(member BLUE)": (1, "BLUE", 2, {}), "(member CRIMSON)": (None, "RED", 1, {}),
    }  # fmt: skip


def test_a_method_that_replaces_a_generated_one_is_a_member() -> None:
    """Whoever sets it after the class was made changes how the class works."""

    def replaced(self: Any, *args: Any) -> None: ...

    point = dataclasses.make_dataclass("Point", [("n", int)])
    pair = collections.namedtuple("pair", "a b")
    for cls, name in ((point, "__init__"), (pair, "_replace"), (pair, "__new__")):
        assert name not in dict(members(cls))
        setattr(cls, name, replaced)
        assert dict(members(cls))[name] is replaced


def test_a_member_under_another_name_is_a_member() -> None:
    """Two names for one slot or field, and a generated or inherited method that stands for another one."""

    class Slots:
        __slots__ = ("a", "b")
        first: Any

    class Other(enum.Enum):
        RED = 1

    @dataclasses.dataclass
    class Twin:
        n: int = 1

    fields: Any = collections.namedtuple("fields", "x y")
    Slots.first = Slots.a  # type: ignore[attr-defined]
    fields.first = fields.y  # type: ignore[attr-defined]
    Other.__str__ = enum.Enum.__repr__  # type: ignore[method-assign]
    Twin.__init__ = Mesh.__init__  # type: ignore[assignment]
    found = [written(each) for each in (Slots, fields, Other, Twin)]
    assert found == [
        {"first"},
        {"first"},
        {"(members)", "(member RED)", "__str__"},
        {"(fields)", "(field n)", "(dataclass)", "__init__", "n"},
    ]


def test_a_member_of_an_enum_is_told_with_all_that_it_holds() -> None:
    """The value of its base class, which its own value need not be, and its slots."""

    class Held:
        __slots__ = ("held",)

    class Level(float, enum.Enum):
        LOW = "low"

        def __new__(cls, value: str) -> "Level":
            made = float.__new__(cls, 2.5)
            made._value_ = value
            return made

    class Slotted(Held, enum.Enum):
        A = 1

    Slotted.A.held = 7  # type: ignore[attr-defined]
    assert dict(members(Level))["(member LOW)"] == (0, "LOW", "low", {}, 2.5)
    assert dict(members(Slotted))["(member A)"] == (0, "A", 1, {"held": 7})
