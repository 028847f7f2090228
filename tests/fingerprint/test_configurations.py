"""Which objects are configurations, and what their fields are."""

import dataclasses
import functools
import operator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pydantic
import pytest
from omegaconf import OmegaConf

from jcache.fingerprint.configurations import (
    REFERENCE,
    compares_fields,
    fields_of,
    is_by_name,
    is_model,
    is_simple,
    names_of_bases,
    own_classes,
)


@dataclasses.dataclass(frozen=True)
class Frozen:
    lr: float = 1.0
    method = lambda self: self.lr  # noqa: E731
    half = property(method)
    shown = property(str)
    third = functools.cached_property(method)
    kept = functools.lru_cache(method)
    as_dict = dataclasses.asdict
    made = staticmethod(method)
    limit = 3


@dataclasses.dataclass
class Mutable:
    lr: float = 1.0


class Rate(NamedTuple):
    lr: float = 1.0


class Tuple(Rate):
    first = property(operator.itemgetter(0))


class Model(pydantic.BaseModel):
    lr: float = 1.0


class Gives:
    def __getattr__(self, name: str) -> object: ...


@dataclasses.dataclass(frozen=True)
class Giving(Gives):
    lr: float = 1.0


class Plain: ...


CONFIGURATIONS: list[Any] = [Frozen(), Tuple(), Rate(1.0), Model(), {"lr": 1.0}]
OTHERS: list[Any] = [Mutable(), Plain(), Giving(), SimpleNamespace(lr=1), (1, 2), [1], 1.0, None, len, Plain]


@pytest.mark.parametrize("value", CONFIGURATIONS, ids=lambda value: type(value).__name__)
def test_the_fields_of_a_configuration(value: Any) -> None:
    """Frozen dataclasses, named tuples, pydantic models and dicts are configurations."""
    fields = fields_of(value)
    assert fields is not None and fields["lr"] == 1.0


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_other_objects(value: Any) -> None:
    """They have no fields that only names reach, or other fields than their class tells."""
    assert fields_of(value) is None


def test_a_configuration_of_omegaconf() -> None:
    """Plain values are fields, references are told, and other parts are as they are."""
    made = OmegaConf.create({"lr": 1.0, "to": "${lr}", "inner": {"n": 1}})
    assert fields_of(made) == {"lr": 1.0, "to": REFERENCE, "inner": made.inner}
    assert fields_of(OmegaConf.create({1: "a"})) is None


def test_a_configuration_of_ml_collections() -> None:
    """Its fields are those that it holds."""
    made = pytest.importorskip("ml_collections").ConfigDict({"lr": 1.0, "inner": {"n": 1}})
    assert fields_of(made) == {"lr": 1.0, "inner": made.inner}


def test_the_members_of_a_configurations_class() -> None:
    """Data and functions of the user's are simple; what Python's functions are given as a whole is not."""
    simple = {name for name, value in vars(Frozen).items() if is_simple(Frozen, name, value)}
    assert {"method", "half", "third", "made", "limit", "lr"} <= simple
    assert not {"shown", "kept", "as_dict"} & simple
    members = {**vars(Rate), **vars(Tuple)}
    of_tuple = {name for name, value in members.items() if is_simple(Tuple, name, value)}
    assert "lr" in of_tuple and not {"first", "_asdict", "_replace", "_make"} & of_tuple


def test_the_classes_of_a_configuration() -> None:
    """Its own and those of libraries, and what it has from the latter."""
    assert own_classes(Model) == [Model] and own_classes(Giving) == [Giving, Gives]
    assert "model_dump" in names_of_bases(Model) and "lr" not in names_of_bases(Model)
    assert is_model(Model) and not is_model(Frozen)


def test_which_are_reached_by_attributes_alone() -> None:
    """An index or an iteration reaches the fields of the others, too."""
    assert [is_by_name(type(each)) for each in CONFIGURATIONS] == [True, False, False, True, False]


def test_which_compare_their_fields() -> None:
    """Dataclasses that are not frozen, and namespaces."""
    assert compares_fields(Mutable) and compares_fields(SimpleNamespace)
    assert not compares_fields(Frozen) and not compares_fields(Plain)
