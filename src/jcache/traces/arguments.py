"""The arguments of a call, as the program gives them to JAX and as JAX gives them to the function that it traces.

JAX flattens the first into arrays, traces with one tracer for each of these, and makes the second of the tracers. What
an executable takes is counted over the tracers. The two differ where a class is not made again just as it was
flattened: then flattening the second gives other leaves, or the same ones in another order.
"""

# ruff: noqa: ANN401 - functions take anything

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from jcache.traces.keys import Statics

F = TypeVar("F", bound=Callable[..., Any])
_callers: Final[list[CodeType]] = []


class Given(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def gives_arguments(function: F) -> F:
    """Marks a function that calls what JAX has jitted, with its own variables ``args`` and ``kwargs``."""
    _callers.append(cast("Any", function).__code__)
    return function


def given() -> Given:
    """Return the arguments that the program has given to the call that JAX traces in this thread.

    They are looked up in the frame of the call: keeping them for each call would slow down all that trace nothing.
    Where none of the functions that `gives_arguments` has marked is running, LookupError is raised.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and all(frame.f_code is not code for code in _callers):
        frame = frame.f_back
    if frame is None:
        raise LookupError("the function is traced by none of jcache's calls")
    return Given(frame.f_locals["args"], frame.f_locals["kwargs"])


def flatten_again(statics: Statics, given: Given, leaves: list[Any]) -> None:
    """Do with the arguments of a call what JAX did before it traced: so a recording hears what that reads."""
    from jax.tree_util import tree_flatten, tree_unflatten

    rest = iter(leaves)

    def again(_: str, value: Any) -> Any:
        flat, treedef = tree_flatten(value)
        return tree_unflatten(treedef, list(islice(rest, len(flat))))

    statics.replaced(given.args, dict(sorted(given.kwargs.items())), again)
