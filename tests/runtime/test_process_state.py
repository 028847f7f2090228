"""A function that changes the state of its process is told, since a served call would not change it."""

import logging
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from jcache.runtime import process_state

LIMIT = sys.getrecursionlimit()
LOGGER = logging.getLogger("jcache.test_process_state")
CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "what numpy does about errors": (lambda: np.seterr(over="ignore"), lambda: np.seterr(over="warn")),
    "the recursion limit": (lambda: sys.setrecursionlimit(LIMIT + 1), lambda: sys.setrecursionlimit(LIMIT)),
    "the level of the logger jcache.test_process_state": (lambda: LOGGER.setLevel(33), lambda: LOGGER.setLevel(0)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_told(what: str) -> None:
    """As long as it lasts."""
    change, undo = CHANGES[what]
    before = process_state.taken()
    try:
        change()
        assert process_state.changes_since(before) == [what]
    finally:
        undo()
    assert process_state.changes_since(before) == []


def test_what_a_library_brings_is_no_change() -> None:
    """A module that is imported meanwhile may make a logger, and filter warnings."""
    before = process_state.taken()
    logging.getLogger("jcache.test_process_state.new").setLevel(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert process_state.changes_since(before) == []


@pytest.mark.jax
def test_an_option_of_jax_is_told() -> None:
    """Unless it is changed for a block only."""
    import jax

    before = process_state.taken()
    with jax.default_matmul_precision("float32"):
        assert process_state.changes_since(before) == ["JAX's options"]
    assert process_state.changes_since(before) == []
