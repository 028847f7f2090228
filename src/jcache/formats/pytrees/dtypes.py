"""Encoding and decoding of numpy's dtypes as JSON; the grammar is in the package's docstring."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from jcache.errors import Unresolved
from jcache.formats.pytrees.grammar import Unsupported, malformed

if TYPE_CHECKING:
    import numpy as np

_UNIT: Final = r"(?:[1-9]\d{0,8})?(?:[YMWDhms]|[munpfa]s)"  # numpy 2.4 divides by the number, zero or not
_PLAIN: Final = re.compile(
    rf"[<>|](?:b1|[iu][1248]|f[248]|c8|c16|[SUV](?:0|[1-9][0-9]{{0,9}})|[mM]8(?:\[{_UNIT}\])?)", re.ASCII
)
_ML: Final = "ml_dtypes."
_REGISTERED: Final = 2  # ``isbuiltin`` of a dtype that a library has added
_MAX_DEPTH: Final = 8  # of nested structures


def describe(dtype: np.dtype[Any], depth: int = 0) -> str | list[object]:
    """Return a dtype as JSON.

    Raises:
        Unsupported: arrays of it cannot be stored.
    """
    if dtype.hasobject:
        raise Unsupported("holds Python objects")
    if dtype.metadata:
        raise Unsupported("has metadata in its dtype")
    if depth > _MAX_DEPTH:
        raise Unsupported(f"has a dtype of more than {_MAX_DEPTH} levels")
    if dtype.subdtype is not None:
        return ["array", describe(dtype.subdtype[0], depth + 1), list(dtype.shape)]
    if dtype.fields is not None and dtype.names is not None:
        return _describe_fields(dtype, depth)
    if dtype.isbuiltin == _REGISTERED:
        if dtype.type.__module__ == "ml_dtypes" and _ml_dtype(dtype.name) == dtype:
            return _ML + dtype.name
        raise Unsupported(f"is of the dtype {dtype.name}, of {dtype.type.__module__}")
    if not _PLAIN.fullmatch(dtype.str):
        raise Unsupported(f"is of the dtype {dtype.name}, which is not the same on every machine")
    return dtype.str


def _describe_fields(dtype: np.dtype[Any], depth: int) -> list[object]:
    import numpy as np

    if dtype.type is not np.void:
        raise Unsupported(f"is of the dtype {dtype.type.__name__}")
    fields: list[object] = []
    for name in dtype.names or ():
        inner, offset, *titles = dtype.fields[name]  # type: ignore[index]
        title = titles[0] if titles else None
        if title is not None and type(title) is not str:
            raise Unsupported("has a title in its dtype that is no text")
        fields.append([name, title, offset, describe(inner, depth + 1)])
    return ["struct", dtype.itemsize, dtype.isalignedstruct, fields]


def restore(description: object, depth: int = 0) -> np.dtype[Any]:
    """Return the dtype of a description.

    Raises:
        DamagedEntry: there is no such dtype.
        Unresolved: the installed ml_dtypes does not have it.
    """
    import numpy as np

    if depth > _MAX_DEPTH + 1:
        raise malformed("dtypes")
    try:
        if isinstance(description, list):
            return _restore_compound(description, depth)
        if isinstance(description, str) and _PLAIN.fullmatch(description):
            return np.dtype(description)
    except (TypeError, ValueError, OverflowError, RuntimeError, SystemError, UnicodeError) as error:
        raise malformed("dtypes") from error
    if isinstance(description, str) and description.startswith(_ML):
        return _known_ml_dtype(description.removeprefix(_ML))
    raise malformed("dtypes")


def _restore_compound(description: list[Any], depth: int) -> np.dtype[Any]:
    import numpy as np

    kind, *rest = description
    if kind == "array":
        base, shape = rest
        return np.dtype((restore(base, depth + 1), checked_shape(shape)))
    if kind != "struct":
        raise malformed("dtypes")
    itemsize, aligned, fields = rest
    names, titles, offsets, formats = [], [], [], []
    for name, title, offset, inner in fields:
        if not isinstance(name, str) or not isinstance(title, str | None) or type(offset) is not int or offset < 0:
            raise malformed("dtypes")
        names.append(name)
        titles.append(title)
        offsets.append(offset)
        formats.append(restore(inner, depth + 1))
    if type(itemsize) is not int or itemsize < 0 or type(aligned) is not bool:
        raise malformed("dtypes")
    parts: dict[str, Any] = {"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize}
    if any(title is not None for title in titles):
        parts["titles"] = titles
    return np.dtype(parts, align=aligned)  # type: ignore[call-overload, no-any-return]


def checked_shape(shape: object) -> tuple[int, ...]:
    """Return a shape that comes from JSON.

    Raises:
        DamagedEntry: it is no shape.
    """
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        raise malformed("shapes")
    return tuple(shape)


def _known_ml_dtype(name: str) -> np.dtype[Any]:
    dtype = _ml_dtype(name)
    if dtype is None:
        raise Unresolved(f"The installed ml_dtypes has no dtype {name}.")
    return dtype


def _has_padding(dtype: np.dtype[Any]) -> bool:
    """Return whether elements have bytes that belong to no field, or to several."""
    if dtype.subdtype is not None:
        return _has_padding(dtype.subdtype[0])
    if dtype.names is None:
        return False
    inner = [dtype[name] for name in dtype.names]
    return sum(field.itemsize for field in inner) != dtype.itemsize or any(map(_has_padding, inner))


def _without_padding(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of an array of structures, with zeros between their fields."""
    import numpy as np

    copy = np.zeros(array.shape, array.dtype)
    _copy_fields(array, copy)
    return copy


def _copy_fields(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    for name in source.dtype.names or ():
        if source[name].dtype.names is None:
            target[name] = source[name]
        else:
            _copy_fields(source[name], target[name])


def copy(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    """Copy an array into another of the same shape and dtype, but for bytes that belong to no field."""
    if _has_padding(source.dtype):
        _copy_fields(source, target)
    else:
        target[...] = source


def _ml_dtype(name: str) -> np.dtype[Any] | None:
    import numpy as np

    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar = vars(ml_dtypes).get(name)
    if not isinstance(scalar, type) or not issubclass(scalar, np.generic):
        return None
    dtype = np.dtype(scalar)
    return dtype if dtype.isbuiltin == _REGISTERED else None


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of an array in C order: a view of the array, where its memory has this order."""
    import numpy as np

    if array.nbytes == 0:
        return memoryview(b"")
    if _has_padding(array.dtype):  # the padding may hold any bytes of the process's memory, secrets included
        array = _without_padding(array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
