"""Sparse matrices and arrays of scipy: their attributes, which are arrays and numbers, as they are."""

from __future__ import annotations

from typing import Any, Final

from jcache.errors import Unresolved
from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.grammar import Unsupported

# ruff: noqa: ANN401 - of a package that need not be installed

_FORMATS: Final = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
_FLAGS: Final = frozenset(
    {"has_canonical_format", "has_sorted_indices", "_has_canonical_format", "_has_sorted_indices"}
)


def _attributes_of(cls: Any) -> frozenset[str]:
    """Return the names of the attributes that each matrix of a class has in the installed scipy."""
    return frozenset(vars(cls((1, 1)))) - _FLAGS


def _to_plain(matrix: Any) -> object:
    import numpy as np

    held = dict(vars(matrix))
    for name in held.keys() - _FLAGS - _attributes_of(type(matrix)):
        raise Unsupported(f"has an attribute `{name}` that others of its class lack")
    dtypes = {name: np.empty(0, each) for name, each in held.items() if isinstance(each, np.dtype)}
    lists = {name: _lists(each) for name, each in held.items() if isinstance(each, np.ndarray) and each.dtype == object}
    rest = {name: each for name, each in held.items() if name not in dtypes and name not in lists}
    return {"attributes": rest, "dtypes": dtypes, "lists": lists}


def _lists(rows: Any) -> list[list[object]]:
    if rows.ndim != 1 or any(type(row) is not list for row in rows):
        raise Unsupported("has rows that are no lists")
    return list(rows)


def _from_plain(cls: Any, state: Any) -> Any:
    import numpy as np

    held = dict(state["attributes"])
    held |= {name: each.dtype for name, each in state["dtypes"].items()}
    for name, rows in state["lists"].items():
        held[name] = np.empty(len(rows), object)
        for number, row in enumerate(rows):
            held[name][number] = row
    if held.keys() - _FLAGS != _attributes_of(cls):
        raise Unresolved(f"The installed scipy has other attributes in a `{cls.__name__}` than the one that stored it.")
    matrix = cls.__new__(cls)
    vars(matrix).update(held)
    return matrix


ADAPTERS: Final = {
    f"scipy.sparse:{each}_{kind}": ClassAdapter(_to_plain, _from_plain)
    for each in _FORMATS
    for kind in ("matrix", "array")
}
