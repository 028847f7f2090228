"""What a traced function reaches by names."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from jcache.errors import Unresolved
from jcache.fingerprint.arguments import Call
from jcache.traces.callbacks.reach import Reach, follow


class Log:
    """Something that changes, and holds more of it."""

    shared: list[int] = []  # noqa: RUF012 - which is what is tested

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.parts: dict[str, Any] = {"inner": [{}]}

    def tell(self, value: int) -> None:
        """Add a row."""
        self.rows.append(value)


LOG = Log()
UNUSED = Log()


def helper() -> Log:
    """Return what another function reaches through this one."""
    return LOG


def make(closed: Log) -> Callable[..., Any]:
    """Return a function that reaches things in all ways."""
    count = 0

    def function(given: Any, named: Any = None, *, default: Any = Log.shared) -> Any:
        nonlocal count
        count += 1
        return closed, helper(), count, given, named, default

    return function


def test_a_path_leads_to_the_object_itself() -> None:
    """Through closures and their variables, defaults, static arguments, globals of helpers, attributes and items."""
    closed, static = Log(), Log()
    function: Any = make(closed)
    origin = Call(function, (None, static), {"named": [static.parts]})
    reach = Reach(origin)
    sought = [
        closed, closed.rows, closed.parts["inner"], closed.parts["inner"][0], LOG, LOG.rows, Log.shared, static.rows,
        static.parts, *function.__closure__,
    ]  # fmt: skip
    for each in sought:
        path = reach.path_to(each)
        assert path is not None and follow(path, origin) is each


def test_what_is_reached_by_no_name_has_no_path() -> None:
    """Globals that no code names, and what was made meanwhile."""
    reach = Reach(Call(make(Log()), (), {}))
    assert reach.path_to(UNUSED) is None and reach.path_to([]) is None


def test_methods_and_partial_functions_lead_on() -> None:
    """To what they are bound to."""
    log, given = Log(), [1]
    for function, sought in (
        (log.tell, log.rows),
        (functools.partial(print, given), given),
        (log.rows.append, log.rows),
    ):
        origin = Call(function, (), {})
        path = Reach(origin).path_to(sought)
        assert path is not None and follow(path, origin) is sought


def test_globals_of_the_functions_own_module_have_no_module() -> None:
    """The same function may stand in another one, where its own globals are meant."""
    path = Reach(Call(make(Log()), (), {})).path_to(LOG)
    assert path == [["global", "", "LOG"]]


@pytest.mark.parametrize(
    "path",
    [[], [[]], [["global", "", "NONE"]], [["argument", 7]], [["function"], ["item", 0]], [["function"], ["other", 0]],
     [["function"], ["cell", "x"]]],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_told(path: Any) -> None:
    """Whatever it says."""
    with pytest.raises(Unresolved, match="there is nothing at"):
        follow(path, Call(make, (), {}))
