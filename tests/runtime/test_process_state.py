"""A function that changes the state of its process is told, since a served call would not change it."""

import builtins
import decimal
import importlib
import io
import logging
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jcache.runtime import process_state

LIMIT, INTERVAL = sys.getrecursionlimit(), sys.getswitchinterval()
LOGGER = logging.getLogger("jcache.test_process_state")
HANDLER = signal.getsignal(signal.SIGUSR1)
FILTER = ("ignore", None, KeyError, None, 0)
CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "what numpy does about errors": (lambda: np.seterr(over="ignore"), lambda: np.seterr(over="warn")),
    "the recursion limit": (lambda: sys.setrecursionlimit(LIMIT + 1), lambda: sys.setrecursionlimit(LIMIT)),
    "how numpy prints arrays": (lambda: np.set_printoptions(edgeitems=2), lambda: np.set_printoptions(edgeitems=3)),
    "how often threads are switched": (lambda: sys.setswitchinterval(0.5), lambda: sys.setswitchinterval(INTERVAL)),
    "the filters of warnings": (
        lambda: warnings.filters.append(FILTER),  # type: ignore[attr-defined]
        lambda: warnings.filters.remove(FILTER),  # type: ignore[attr-defined]
    ),
    "which levels of logs are disabled": (lambda: logging.disable(10), lambda: logging.disable(0)),
    "the context of decimal numbers": (
        lambda: setattr(decimal.getcontext(), "prec", 7),
        lambda: setattr(decimal.getcontext(), "prec", 28),
    ),
    f"the handler of signal {int(signal.SIGUSR1)}": (
        lambda: signal.signal(signal.SIGUSR1, print),
        lambda: signal.signal(signal.SIGUSR1, HANDLER),
    ),
    "`sys`": (lambda: setattr(sys, "of_jcache", 1), lambda: delattr(sys, "of_jcache")),
    "`builtins`": (lambda: setattr(builtins, "of_jcache", 1), lambda: delattr(builtins, "of_jcache")),
    "the level of the logger jcache.test_process_state": (lambda: LOGGER.setLevel(33), lambda: LOGGER.setLevel(0)),
}


def test_what_a_program_adds_is_told() -> None:
    """A new name of `sys` is a change, though nothing was there before; what is the same as before is none."""
    before = process_state.taken()
    stdout, sys.stdout = sys.stdout, io.StringIO()
    try:
        assert process_state.changes_since(before) == ["`sys`"]
    finally:
        sys.stdout = stdout
    assert process_state.changes_since(before) == []


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


def test_what_a_package_brings_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is imported meanwhile may make a logger, and filter warnings."""
    source = 'import logging, warnings\nlogging.getLogger(__name__).setLevel(30)\nwarnings.simplefilter("ignore")\n'
    (tmp_path / "of_process_state.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    before = process_state.taken()
    with warnings.catch_warnings():
        importlib.import_module("of_process_state")
        assert process_state.changes_since(before) == []


@pytest.mark.jax
def test_an_option_of_jax_is_told() -> None:
    """Unless it is changed for a block only."""
    import jax

    before = process_state.taken()
    with jax.default_matmul_precision("float32"):
        assert process_state.changes_since(before) == ["JAX's options"]
    assert process_state.changes_since(before) == []
