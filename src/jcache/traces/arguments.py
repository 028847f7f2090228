"""The arguments of a call: as the program gives them to JAX, and as JAX gives them to the function that it traces.

JAX flattens the program's arguments into leaves, makes a tracer for each leaf, and unflattens the tracers into the
arguments of the traced function. The arguments of an executable are numbered in the order of these tracers. If a class
does not unflatten to what was flattened, flattening the traced function's arguments gives other leaves, or the same
leaves in another order.
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


class Arguments(NamedTuple):
    """The arguments of one call.

    Attributes:
        args, kwargs: the positional and the keyword arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def holds_arguments(function: F) -> F:
    """Mark a function that passes its local variables ``args`` and ``kwargs`` to a function that JAX has jitted."""
    _callers.append(cast("Any", function).__code__)
    return function


def program_arguments() -> Arguments:
    """Return the arguments that the program gave to the call that JAX is tracing in this thread.

    They are read from the frame of the nearest function that `holds_arguments` has marked: storing them at each call
    would slow down the calls that trace nothing.

    Raises:
        LookupError: no marked function is running in this thread.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and all(frame.f_code is not code for code in _callers):
        frame = frame.f_back
    if frame is None:
        raise LookupError("the function is traced by none of jcache's calls")
    return Arguments(frame.f_locals["args"], frame.f_locals["kwargs"])


def flatten_again(statics: Statics, given: Arguments, leaves: list[Any]) -> None:
    """Flatten and unflatten the arguments of a call as JAX did before it traced, so that a recording sees its reads.

    Args:
        statics: the static arguments of the function.
        given: the arguments that the program gave.
        leaves: the tracers of the flat arguments, which the arguments are unflattened from.
    """
    from jax.tree_util import tree_flatten, tree_unflatten

    rest = iter(leaves)

    def again(_: str, value: Any) -> Any:
        flat, treedef = tree_flatten(value)
        return tree_unflatten(treedef, list(islice(rest, len(flat))))

    statics.replaced(given.args, dict(sorted(given.kwargs.items())), again)
