"""The nodes of JAX's treedefs, and the names of values in them."""

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jcache.errors import Unresolved
from jcache.jax_internals.treedefs import (
    findable_name,
    is_error_of_checkify,
    is_sentinel,
    name_in_module,
    object_named,
    parts_of,
)
from tests.helpers.jax_programs import run


class Plain:
    """A class whose instances may have a state."""


class Slotted:
    """A class without a ``__dict__``."""

    __slots__ = ("x",)


def function() -> None:
    """A function of this module."""


def test_names_are_those_of_classes_and_functions() -> None:
    """A class, a function, and an object with a function's name have one; any other value has none."""
    assert name_in_module(Plain) == f"{__name__}:Plain" and name_in_module(function) == f"{__name__}:function"
    assert name_in_module(len) == "builtins:len"
    like: Any = SimpleNamespace()
    functools.update_wrapper(like, function)
    assert name_in_module(like) == f"{__name__}:function"
    assert name_in_module(Plain()) is None and name_in_module(3) is None


def test_a_property_of_the_program_is_not_run_for_a_name() -> None:
    """Only what an instance itself holds is looked at."""

    class Trap:
        @property
        def __module__(self) -> str:  # type: ignore[override]
            raise AssertionError

    assert name_in_module(Trap()) is None


def test_a_sentinel_has_no_state() -> None:
    """An instance of a plain class is one, until it has an attribute; an object and one of slots are none."""
    mark = Plain()
    assert is_sentinel(mark) and not is_sentinel(object()) and not is_sentinel(Slotted())
    mark.x = 1  # type: ignore[attr-defined]
    assert not is_sentinel(mark)


def test_errors_of_checkify_are_known() -> None:
    """They are JAX's, and a class of the program with the same name is not."""
    assert is_error_of_checkify(type("Error", (), {"__module__": "jax._src.checkify"}))
    assert not is_error_of_checkify(type("Error", (), {}))


def test_the_parts_of_a_dict_have_one_order() -> None:
    """Dicts of strings are sorted, lists and tuples stay; everything else has no parts."""
    assert parts_of({"b": 1, "a": 2}) == parts_of({"a": 2, "b": 1}) == [2, 1]
    assert parts_of((3, 1)) == parts_of([3, 1]) == [3, 1]
    assert parts_of({1: 2}) is parts_of({1, 2}) is parts_of("ab") is None


def test_what_has_a_name_in_its_module_is_found_by_it() -> None:
    """Classes and functions are; a nested function and a name that is gone are not."""
    for value in (Path, parts_of, len):
        name = findable_name(value)
        assert name is not None and object_named(name) is value
    assert findable_name(lambda: None) is None and findable_name([]) is None
    with pytest.raises(Unresolved, match="no function or class"):
        object_named("pathlib:gone")


REGISTERED = """
import json, operator, sys
import jax
from jcache.errors import NotStorable
from jcache.jax_internals.treedefs import registered_by

def digest(flatten, unflatten=operator.methodcaller("made")):
    cls = type("Node", (), {"__module__": "program"})
    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    try:
        return registered_by(cls)
    except NotStorable as error:
        return str(error)

class Callable:
    def __init__(self): self.rest = iter([1])
    def __call__(self, node): return (node.x,), None

print(json.dumps([digest(operator.methodcaller("apart")), digest(lambda node: ((node.x,), None)),
                  digest(lambda node: ((node.x,), None)), digest(lambda node: ((node.y,), None)),
                  registered_by(dict), digest(Callable())]))
"""


@pytest.mark.jax
def test_a_class_is_told_by_the_functions_that_it_is_registered_with(tmp_path: Path) -> None:
    """Functions have a digest of their code; methods change with the class; what has no key is refused."""
    (tmp_path / "program.py").write_text(REGISTERED)
    methods, first, again, other, of_jax, refused = run("import program", cwd=tmp_path).value
    assert methods == of_jax == [] and first == again != other and len(first) == len(other) == 1
    assert refused == "Node is flattened by functions that have no key"


@pytest.mark.jax
def test_nodes_come_before_their_children() -> None:
    """Every node and leaf of several treedefs is there once, in the order in which they are written down."""
    program = """
import json, jax
from jcache.jax_internals.treedefs import nodes_of
trees = [jax.tree_util.tree_structure(each) for each in ((1, {"a": 2, "b": [3]}), None)]
print(json.dumps([None if each is None else [each.cls.__name__, each.children] for each in nodes_of(*trees)]))
"""
    assert run(program).value == [["tuple", 2], None, ["dict", 2], None, ["list", 1], None, ["NoneType", 0]]
