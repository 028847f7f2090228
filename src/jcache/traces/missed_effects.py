"""The side effects that a call did not have because it was served: it is traced for them once other code uses them."""

# ruff: noqa: ANN401 - functions and arguments are anything

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jcache.fingerprint.side_effects import SideEffects
from jcache.runtime import side_effects
from jcache.traces.keys import STATIC, Statics

if TYPE_CHECKING:
    from jcache.traces.arguments import Arguments
    from jcache.traces.call_lookup import LookupResult
    from jcache.traces.stored_trace import StoredTrace


def note(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    statics: Statics,
    looked_up: LookupResult,
    stored: StoredTrace,
) -> None:
    """Note the side effects of a call that a stored trace serves.

    Args:
        function: the function.
        options: the options of `jax.jit` for it.
        statics: its static arguments.
        looked_up: the look-up of the call.
        stored: the trace.
    """
    text = stored.opened.header.key_parts.get(side_effects.LABEL)
    if text is None:
        return
    request = looked_up.request
    changed = request.fingerprint.snapshot.changed_by(SideEffects.of_text(text))
    static = {name: options.get(name) for name in STATIC}
    side_effects.note(changed, looked_up.refuse, _tracing(function, static, statics, looked_up.given))


def _tracing(
    function: Callable[..., Any], static: dict[str, Any], statics: Statics, given: Arguments
) -> Callable[[], object]:
    """Return a function that traces a call once more; it keeps no array alive that is no static argument."""
    import jax
    from jax.tree_util import tree_flatten, tree_unflatten

    known = list[Any]()

    def add(_: str, value: Any) -> int:
        leaves, treedef = tree_flatten(value)
        known.append((treedef, [_type_of(leaf) for leaf in leaves]))
        return len(known) - 1

    args, kwargs = statics.replaced(given.args, given.kwargs, add)

    def trace() -> None:
        made = statics.replaced(args, kwargs, lambda _, at: tree_unflatten(*known[at]))
        jax.eval_shape(jax.jit(function, **static), *made[0], **made[1])

    return trace


def _type_of(leaf: Any) -> Any:
    """Return the type of an array; any other leaf as it is."""
    import jax

    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return leaf
    make: Any = jax.ShapeDtypeStruct
    return make(leaf.shape, leaf.dtype, weak_type=bool(getattr(leaf, "weak_type", False)))
