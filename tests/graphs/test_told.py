"""What a cache reports of its calls: warnings once for each reason, and lines for whoever records the process."""

import functools
import warnings
from collections.abc import Iterator

import pytest

from jcache.graphs.told import Told, name_of_function
from jcache.layout import Root
from jcache.runs import observers
from jcache.runs.observers import Line
from tests.helpers.graph_functions import half, keyed, ramp


@pytest.fixture
def heard() -> Iterator[list[Line]]:
    """Record this process; return the lines."""
    lines: list[Line] = []
    observers.add(lines.append)
    yield lines
    observers.remove(lines.append)


def test_a_warning_is_shown_once_for_each_function_and_reason() -> None:
    """Another function or another reason warns anew, and the function is named."""
    told = Told()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for function, reason in ((half, "full"), (half, "full"), (ramp, "full"), (half, "damaged")):
            told.warn(function, reason, f"is not stored: {reason}.")
    texts = [str(each.message).partition(" (")[0] for each in shown]
    assert texts == [
        f"The graph of `{name}` is not stored.".replace("stored.", f"stored: {why}.")
        for name, why in (("half", "full"), ("ramp", "full"), ("half", "damaged"))
    ]


def test_each_outcome_is_a_line(native: Root, heard: list[Line]) -> None:
    """A line has the function's name, the key if there is one, the outcome, the reason and the seconds."""
    told, call = Told(), keyed(native, half, 3)
    told.tell(call, "hit", None, 0.5, 2.0)
    told.tell_not_loaded(half, call, "it was damaged")
    told.tell_not_loaded(half, "there is no root", "there is no root")
    told.tell_built_without(half, "it has no key", 3.0)
    rows = [
        [line[name] for name in ("e", "name", "key", "outcome", "reason", "seconds", "spared_seconds")]
        for line in heard
    ]
    assert rows == [
        ["graph", "half", call.key, "hit", None, 0.5, 2.0],
        ["graph", "half", call.key, "not_stored", "it is not built here: it was damaged", 0.0, 0.0],
        ["graph", "half", None, "bypassed", "there is no root", 0.0, 0.0],
        ["graph", "half", None, "bypassed", "it has no key", 3.0, 0.0],
    ]
    stats = told.tally.snapshot()
    assert (stats.builds, stats.build_seconds) == (1, 3.0)


def test_why_a_graph_was_missed_is_found_out_for_a_recording_only(native: Root, heard: list[Line]) -> None:
    """While nobody records the process the reason is a general one, which costs no look at other graphs."""
    told, call = Told(), keyed(native, half, 3)
    assert told.why_missed(call) == "nothing of this name was there"
    observers.remove(heard.append)
    assert told.why_missed(call) == "none of its key was there"


@pytest.mark.parametrize(
    ("function", "name"), [(half, "half"), (Told().warn, "Told.warn"), (functools.partial(half, 3), "partial")]
)
def test_functions_are_called_by_their_qualified_names(function: functools.partial[float], name: str) -> None:
    """What has no name is called by the name of its class."""
    assert name_of_function(function) == name
