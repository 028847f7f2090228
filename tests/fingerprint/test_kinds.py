"""How a value is encoded whose exact type is in no table."""

import collections
import enum
import io
import logging
import string
import types
import zlib
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint.kinds import STABLE, handler_of
from tests.fingerprint.test_opaque import of
from tests.helpers.fingerprints import key_of


class Own:
    """An object of the program's own."""


class Colour(enum.Enum):
    RED = 1


class Names(collections.OrderedDict[str, int]):
    pass


def test_a_handler_is_chosen_by_what_a_value_is() -> None:
    """By its exact type, or as a class, module, enumeration, array, logger or file; else by what it is derived from."""
    values: list[Any] = [1, Own, types, Colour.RED, np.ones(2), logging.getLogger(), io.StringIO(), Own()]
    handlers = [handler_of(each) for each in values]
    assert len({*handlers}) == len(values) and handler_of(Names()) is handlers[-1]
    assert [each for each in values if handler_of(each) in STABLE] == [Own, types, Colour.RED]


class Wrapping(string.Formatter):
    """As a library's table around one of C: a copy is made from what its own method returns."""

    def __init__(self, content: str) -> None:
        self.inner, self.content = zlib.compressobj(), content

    def __getstate__(self) -> object:
        return self.content


def test_an_object_around_a_value_of_c_counts_by_what_it_is_copied_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is a library's, and the value within shows nothing."""
    monkeypatch.setattr(Wrapping, "__module__", "string")
    made = [Wrapping(content) for content in "112"]
    assert key_of(made[0]) == key_of(made[1]) != key_of(made[2])
    assert of(made[0]).key == of(made[1]).key != of(made[2]).key
