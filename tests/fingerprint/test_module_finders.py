"""Functions that find modules by texts are known, and which modules they may find."""

import functools
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterable

import pytest

from jcache.fingerprint.bytecode import NOTHING
from jcache.fingerprint.module_finders import found_by, name_of_finder


@pytest.mark.parametrize(
    ("finder", "given", "expected"),
    [
        (importlib.import_module, ["a.b"], {"a", "a.b"}),
        (__import__, ["a", "c.d"], {"a", "c", "c.d"}),
        (pkgutil.resolve_name, ["a.b:c"], {"a", "a.b", "a.b.c"}),
        (importlib.import_module, ["a", None], None),
        (importlib.import_module, [".b"], None),
        (importlib.import_module, [NOTHING], None),
        (importlib.import_module, [], None),
        (pickle.loads, ["a"], None),
        (eval, ["a"], None),
        (inspect.getmodule, ["a"], None),
    ],
)
def test_what_may_be_found(finder: object, given: Iterable[object], expected: set[str] | None) -> None:
    """Modules of constant names, with the packages above them, for a function that imports; else any module."""
    name = name_of_finder(finder)
    assert name is not None and found_by(name, given) == expected


@functools.wraps(importlib.import_module)
def wrapped(name: str) -> object:
    return importlib.import_module(f"{name}.more")


@pytest.mark.parametrize("value", [wrapped, importlib.reload, "importlib.import_module", print, type, None, pickle])
def test_other_values_find_no_modules(value: object) -> None:
    """Among them a text that is the name of such a function, and a function of the user's that has taken it."""
    assert name_of_finder(value) is None
