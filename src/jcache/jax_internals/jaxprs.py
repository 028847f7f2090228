"""Jaxprs that JAX keeps for jitted functions, to be used where the same function is traced once more.

JAX traces a jitted function once for arguments of certain types, whether it is called by itself or inside another one.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from jcache.jax_internals.stablehlo import MARKER, WITNESS

_OUT_TREE: Final = ("out_tree", "_out_tree")  # the latter before jax 0.7


class NotTraced(Exception):
    """JAX keeps no jaxpr of a function for such arguments."""


class Known(NamedTuple):
    """A jaxpr that JAX keeps.

    Attributes:
        jaxpr: the jaxpr, with its constants.
        out_tree: the treedef of the function's result.
    """

    jaxpr: Any
    out_tree: Any

    @property
    def number(self) -> int:
        """The number of its inputs."""
        return len(self.jaxpr.jaxpr.invars)


class _Asking(threading.local):
    is_on = False


_asking = _Asking()


def check() -> None:
    """Raise `NotTraced` if this thread only asks whether JAX has traced something; see `known_of`."""
    if _asking.is_on:
        raise NotTraced


def known_of(jitted: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Known | None:
    """Return what JAX keeps of a jitted function for some arguments; None if it would trace the function.

    Args:
        jitted: what `jax.jit` has made of a function that calls `check` first.
        args: the positional arguments.
        kwargs: the keyword arguments.
    """
    before, _asking.is_on = _asking.is_on, True
    try:
        traced = jitted.trace(*args, **kwargs)
    except NotTraced:
        return None
    finally:
        _asking.is_on = before
    jaxpr = _without_witness(traced.jaxpr)
    out_tree = next(getattr(traced, name) for name in _OUT_TREE if hasattr(traced, name))
    return None if jaxpr is None else Known(jaxpr, out_tree)


def _without_witness(jaxpr: Any) -> Any:
    """Return a jaxpr without the witness that it may have; None if a marker stands for its program."""
    names = [each.primitive.name for each in jaxpr.eqns]
    if MARKER in names:
        return None
    if WITNESS not in names:
        return jaxpr
    witness = jaxpr.eqns[names.index(WITNESS)]
    (given,), (returned,) = witness.invars, witness.outvars
    results = [given if each is returned else each for each in jaxpr.jaxpr.outvars]
    rest = [each for each in jaxpr.eqns if each is not witness]
    return jaxpr.replace(jaxpr=jaxpr.jaxpr.replace(eqns=rest, outvars=results))


def evaluated(known: Known, leaves: Sequence[Any]) -> Any:
    """Return the result of the function of a jaxpr for the leaves of its arguments.

    The equations get into the present trace as if the function was traced there.
    """
    from jax._src.core import eval_jaxpr
    from jax.tree_util import tree_unflatten

    return tree_unflatten(known.out_tree, eval_jaxpr(known.jaxpr.jaxpr, known.jaxpr.consts, *leaves))
