"""Results of traced functions, unflattened from their leaves."""

# ruff: noqa: ANN401 - a function returns anything

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, Final, NamedTuple

OTHER_RESULT: Final = (
    "a class in its result is not made again from its leaves as it was: flattening it once more gives other leaves, "
    "the same in another order, or another structure"
)


class Remade(NamedTuple):
    """A result that was unflattened from leaves, and that flattens to the same leaves.

    Attributes:
        value: the result.
        treedef: its treedef.
    """

    value: Any
    treedef: Any


def unflattened(treedef: Any, leaves: Sequence[Any]) -> Remade | str:
    """Return the result of a treedef and leaves if it flattens to the same leaves and treedef, else why not.

    Such a result is to JAX the same as the one that the function itself returned.
    """
    from jax.tree_util import tree_flatten, tree_unflatten

    try:
        value = tree_unflatten(treedef, leaves)
        again, structure = tree_flatten(value)
        same = len(again) == len(leaves) and all(map(is_, again, leaves)) and bool(structure == treedef)
    except Exception as error:  # noqa: BLE001 - the classes are the program's, and may raise anything
        return f"its result cannot be made of its leaves: {error!r}"
    return Remade(value, structure) if same else OTHER_RESULT
