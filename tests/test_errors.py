"""The exception tree and its exit codes."""

import inspect
import re

import pytest

from jcache import errors
from jcache.errors import JcacheError, LedgerUnavailable, UnknownKey

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, JcacheError)]


@pytest.mark.parametrize("error", CLASSES)
def test_the_tree_in_the_docstring_is_the_tree(error: type[JcacheError]) -> None:
    """The module's docstring names every error and its exit code."""
    assert re.search(rf"^.*{error.__name__} +{error.exit_code} ", errors.__doc__ or "", re.MULTILINE)


def test_exit_codes_are_the_designed_ones() -> None:
    """Exit codes are 2 for usage, 3 for partly done, 10 for no cache, 11 for locked, 12 for untrusted, and 1
    otherwise.
    """
    special = {"InvalidValue": 2, "OutOfReach": 3, "NoCacheHere": 10, "Locked": 11, "Untrusted": 12}
    assert {c.__name__: c.exit_code for c in CLASSES} == {c.__name__: special.get(c.__name__, 1) for c in CLASSES}


@pytest.mark.parametrize("error", CLASSES)
def test_messages_are_printed_as_they_are(error: type[JcacheError]) -> None:
    """The text of an error is its message, without quotes."""
    assert str(error("One sentence.")) == "One sentence."


def test_errors_are_what_python_programs_expect() -> None:
    """Callers may catch `KeyError` and `ValueError`."""
    assert issubclass(UnknownKey, KeyError)
    assert issubclass(errors.InvalidValue, ValueError)
    assert not LedgerUnavailable("busy").lost
