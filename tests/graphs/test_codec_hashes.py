"""The hashes of a codec's functions are those of their fingerprints, whatever changes between two calls."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint import fingerprint
from jcache.graphs import codec_hashes
from jcache.graphs.codec_hashes import CodecHashes

SOURCE = """
import os
import numpy as np
LEVEL = 1
TABLE = {"a": 1}

def helper(value):
    return value * LEVEL

def save(value, path, more=2):
    with open(path, "wb") as file:
        np.save(file, helper(value))

def reading(value, path):
    return TABLE

def asking(value, path):
    return os.environ["HOME"]
"""


@pytest.fixture(name="module")
def module_fixture(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_codec")
    module.__file__ = "/a_codec.py"
    exec(compile(SOURCE, "/a_codec.py", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "a_codec", module)
    return module


def right(hashes: CodecHashes, *functions: Any) -> bool:
    return hashes() == [fingerprint(each).hash for each in functions] == hashes()


CHANGES: dict[str, Callable[[Any], object]] = {
    "global": lambda module: setattr(module, "LEVEL", 2),
    "helper": lambda module: setattr(module, "helper", lambda value: value),
    "its code": lambda module: setattr(module.helper, "__code__", (lambda value: value + 1).__code__),
    "own code": lambda module: setattr(module.save, "__code__", (lambda value, path, more=2: None).__code__),
    "default": lambda module: setattr(module.save, "__defaults__", (3,)),
    "keyword default": lambda module: setattr(module.save, "__kwdefaults__", {"more": 4}),
    "attribute": lambda module: setattr(module.save, "format", 2),
    "library": lambda module: setattr(module, "np", sys),
    "builtin": lambda module: setattr(module, "open", module.helper),
    "container": lambda module: module.TABLE.update(a=2),
    "option": lambda module: None,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["save", "reading", "asking"])
def test_each_change_counts(module: Any, change: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After anything that the functions reach has changed, the hashes are those of the functions as they are then."""
    function = getattr(module, name)
    hashes = CodecHashes((function, module.helper))
    assert right(hashes, function, module.helper)
    CHANGES[change](module)
    if change == "option":
        monkeypatch.setenv("JAX_ENABLE_X64", "1")
    assert right(hashes, function, hashes._functions[1])


def test_functions_that_have_not_changed_are_not_fingerprinted_again(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions that reach only functions, libraries and constants are looked at without a fingerprint."""
    hashes = CodecHashes((module.save, module.helper))
    known = hashes()
    monkeypatch.setattr(codec_hashes, "fingerprint", None)
    assert hashes() == known


def test_other_callables_are_fingerprinted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of a library, a closure or an object is fingerprinted for each call."""
    count: list[object] = []
    taken = fingerprint

    def counted(function: Any) -> Any:
        count.append(function)
        return taken(function)

    monkeypatch.setattr(codec_hashes, "fingerprint", counted)
    kept = [1]
    for function in (np.save, lambda value: kept, str.upper):
        hashes = CodecHashes((function,))
        assert hashes() == hashes()
    assert len(count) == 6
