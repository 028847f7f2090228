"""What the results of `checkify` have beside their arrays: the kinds of errors, and where the program was.

The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from jcache.errors import NotStorable
from jcache.jax_internals import avals


class Place:
    """Where the program was when it made an error: the frames that JAX shows, in the place of JAX's own object.

    Attributes:
        frames: file, function, first line of the function, and line; the innermost frame first.
    """

    def __init__(self, frames: Iterable[tuple[str, str, int, int]]) -> None:
        self.frames = tuple(frames)

    def as_python_traceback(self) -> Any:
        """Return the traceback, as JAX asks for it when it raises the error."""
        traceback = _traceback()
        now = traceback.get_traceback()
        make = type(now.frames[0]) if now is not None and now.frames else None
        return None if make is None else traceback.traceback_from_frames([make(*frame) for frame in self.frames])


def place_of(value: object) -> Place | None:
    """Return the place in an error of `checkify`; None for any other value, or if this JAX cannot show it again."""
    if type(value) is Place:
        return value
    if type(value).__name__ != "Traceback" or type(value).__module__.partition(".")[0] != "jaxlib":
        return None
    from jax._src import traceback_util

    if not hasattr(_traceback(), "traceback_from_frames"):
        return None
    given: Any = value
    shown = [each for each in given.frames if traceback_util.include_filename(each.file_name)]
    return Place(
        (each.file_name, each.function_name.rpartition(".")[2], each.function_start_line, each.line_num)
        for each in shown
    )


def _traceback() -> Any:
    from jax._src import lib

    return vars(lib)["xla_client"].Traceback


def shapes_of(value: object) -> tuple[type, list[avals.Result]] | None:
    """Return the class of a kind of errors, and the types of the arrays in its message; None for any other value.

    Raises:
        NotStorable: it has more than that.
    """
    if type(value).__name__ != "ErrorEffect" or not type(value).__module__.startswith("jax."):
        return None
    from jax.core import ShapedArray

    kind: Any = value
    found = [
        avals.described(ShapedArray(each.shape, each.dtype, weak_type=each.weak_type)) for each in kind.shape_dtypes
    ]
    if made(kind.error_type, found) != value:
        raise NotStorable("a kind of errors whose arrays have more than shapes and dtypes")
    return kind.error_type, found


def made(cls: type, results: Sequence[avals.Result]) -> Any:
    """Return the kind of errors of a class; raise `NotStorable` if the class is no error of `checkify`."""
    import jax
    from jax._src import checkify, effects

    if not issubclass(cls, checkify.JaxException):
        raise NotStorable(f"{cls.__qualname__} is no error of checkify")
    shape: Any = jax.ShapeDtypeStruct
    arrays = [shape(each.shape, each.dtype, weak_type=each.weak_type) for each in avals.abstract(results, ())]
    kind: Any = vars(effects).get("ErrorEffect") or vars(checkify)["ErrorEffect"]  # the first since jax 0.12
    return kind(cls, tuple(arrays))


def are_same(one: Any, other: Any) -> bool:
    """Return whether parts of two structures are the same; a place is compared by its frames."""
    place, its = place_of(one), place_of(other)
    if place is not None and its is not None:
        return place.frames == its.frames
    if type(one) is type(other) and type(one) in (tuple, list) and len(one) == len(other):
        return all(map(are_same, one, other))
    if type(one) is type(other) is dict and one.keys() == other.keys():
        return all(are_same(value, other[key]) for key, value in one.items())
    with suppress(AttributeError):
        if type(one).__name__ == type(other).__name__ == "PyTreeDef" and one != other:
            return are_same([one.node_data(), one.children()], [other.node_data(), other.children()])
    return bool(one == other)
