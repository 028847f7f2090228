"""Classes of which graphs are made, defined as users do, in a module where they can be found by name."""

import enum
import typing
from collections import namedtuple
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn

T = typing.TypeVar("T")


class Color(enum.Enum):
    RED = 1
    CRIMSON = RED
    PAIR = (1, 2)
    NAN = float("nan")
    THING = object()


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Guessing(enum.Flag):
    A = 1
    B = 2

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return super()._missing_(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted:
    size: int
    doubled: InitVar[int] = 3
    more: list[Any] = field(default_factory=list)


@dataclass
class Derived:
    """Fields of every kind; its code must not run again."""

    first: Any
    _: KW_ONLY
    second: Any = None
    shared: ClassVar[int] = 3
    fixed: int = field(init=False, default=4)
    sum: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.sum = (self.first, self.second)

    @cached_property
    def remembered(self) -> int:
        return 5


@dataclass
class Unmakeable:
    value: Any

    def __new__(cls, *arguments: Any) -> Any:
        raise RuntimeError("made again")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise RuntimeError("set")


@dataclass
class Box(Generic[T]):
    value: T


@dataclass
class Failing(Exception):
    reason: str = ""


@dataclass
class Mapped(dict):  # type: ignore[type-arg]
    reason: str = ""


@dataclass
class Finalized:
    value: int = 1

    def __del__(self) -> None:
        pass


class Descriptor:
    def __get__(self, instance: object, owner: type | None = None) -> int:
        return 1

    def __set__(self, instance: object, value: object) -> None:
        pass


@dataclass
class Described:
    value: Descriptor = Descriptor()


@dataclass
class Unset:
    value: int = field(init=False)


class HidingSlot:
    __slots__ = ("hidden",)


@dataclass
class Hiding(HidingSlot):
    value: int = 1


Point = namedtuple("Point", "x y")


class Pair(NamedTuple):
    left: Any
    right: Any = 3


class Strict(Pair):
    __slots__ = ()

    def __new__(cls, *arguments: Any) -> Any:
        raise RuntimeError("made again")


class Loose(Pair):
    """A namedtuple with room for more."""


class Text(str):
    __slots__ = ()


class Plain:
    """A class that is stored by its own functions once it is registered."""

    def __init__(self, points: Any) -> None:
        self.points = points

    def to_dict(self) -> dict[str, Any]:
        return {"points": self.points}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Plain":
        return cls(state["points"])


def local() -> Any:
    """Return an instance of a class that cannot be found by name."""

    @dataclass
    class Local:
        value: int = 1

    return Local()
