"""One trace of a function for all of its uses, as with `jax.jit`: called by itself, inside another one, or lowered.

A call at the top level and any other use go to two jitted functions, since a stored trace can stand in for the first
only. Each uses the jaxpr that JAX keeps of the other one, so the function runs once for arguments of certain types. As
it does not run again, what it has read is handed on to the blocks that use the jaxpr.
"""

# ruff: noqa: ANN401 - what functions take and return is anything

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Final

from jcache.fingerprint.io import memos
from jcache.fingerprint.io.reads import Reads
from jcache.fingerprint.weak_map import weakly
from jcache.jax_internals import jaxprs, tracing
from jcache.traces.keys import Statics

_TWICE: Final = "it counts, or draws random numbers, and is used inside others as well"
_MOST_ONCE: Final = 1_000  # calls
DEPRECATED_OPTIONS: Final = frozenset({"backend", "device"})


def jitted(stand_in: Callable[..., Any], function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Jit a function that stands in for another one, which JAX may have warned of already."""
    tracing.give_name(stand_in, function)
    old = DEPRECATED_OPTIONS.intersection(options)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning) if old else nullcontext():
        made = tracing.jit(stand_in, options)
    vars(stand_in).pop("__wrapped__", None)  # JAX has read the function's source
    return made


class Inside:
    """The uses of a function but for its calls at the top level.

    Args:
        function, options: as for `jcache.jit`.
        statics: the static arguments of the function.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any], statics: Statics) -> None:
        self._function = weakly(function)
        self._options = options
        self._statics = statics
        self._at_top: Any = None
        self._read: dict[str, str] = {}  # what all of its traces have read
        self._chance: set[str] = set()
        self._reason: str | None = None  # why no result that uses them may be stored
        self._once: list[Callable[[str], None]] = []  # refuse calls at the top level whose effects must not occur twice

    @cached_property
    def jitted(self) -> Any:
        """What `jax.jit` makes of the function for these uses; it is called like the function."""
        function, ours = self._function, weakref.ref(self)  # a cycle would keep alive what the function refers to

        def trace(*args: Any, **kwargs: Any) -> Any:
            jaxprs.check()
            inside = ours()
            return function()(*args, **kwargs) if inside is None else inside._trace(args, kwargs)

        return jitted(trace, function(), self._options)

    def is_traced_at(self, at_top: Any) -> None:
        """Use, from now on, the jaxprs of the jitted function that calls at the top level go to."""
        self._at_top = weakref.ref(at_top)

    def note(self, read: Mapping[str, str], chance: Iterable[str], reason: str | None) -> None:
        """Note what a trace of the function has read, and why no result may be stored that uses it, or None."""
        changed = [label for label, text in read.items() if self._read.get(label, text) != text]
        if changed:  # nobody knows any more which of the jaxprs was made from which of the two
            reason = reason or f"used what was traced before a change of {changed[0]}"
        self._read.update(read)
        self._chance.update(chance)
        self._reason = self._reason or reason

    def note_once(self, refuse: Callable[[str], None] | None) -> str | None:
        """Note a call at the top level which counts or draws: no process may be served it and trace the function, too.

        Args:
            refuse: has the call not served any more; it takes the reason. None for any other call.

        Returns:
            Why the call may not be stored; None if it may.
        """
        if refuse is not None and self.is_used:
            refuse(_TWICE)
            return _TWICE
        if refuse is not None and len(self._once) < _MOST_ONCE:
            self._once.append(refuse)
        return None

    def hand_on(self) -> None:
        """Give the open blocks of this thread what was read, since JAX does not say when it uses a jaxpr again."""
        if self._read or self._chance or self._reason:
            memos.hand_over(self._read, self._chance, self._reason)

    @property
    def is_used(self) -> bool:
        """Whether there has been such a use."""
        return "jitted" in vars(self)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call at the top level while JAX traces it."""
        return self._result(self.jitted if self.is_used else None, args, kwargs)

    def recorded_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `call`, outside of any build."""
        return self._recorded(lambda: self.call(args, kwargs))

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of another use while JAX traces it."""
        while self._once:
            self._once.pop()(_TWICE)
        return self._recorded(lambda: self._result(self._at_top and self._at_top(), args, kwargs))

    def _recorded(self, call: Callable[[], Any]) -> Any:
        with Reads() as read:
            result = call()
        self.note(read.parts, read.chance, read.reason)
        return result

    def _result(self, other: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = None if other is None else jaxprs.known_of(other, args, kwargs)
        leaves = [] if known is None else self._leaves(args, kwargs)
        if known is None or len(leaves) != known.number:
            return self._function()(*args, **kwargs)
        self.hand_on()
        return jaxprs.evaluated(known, leaves)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of the arguments that are not static, in JAX's order."""
        from jax.tree_util import tree_leaves

        leaves = list[Any]()
        self._statics.replaced(args, dict(sorted(kwargs.items())), lambda _, value: leaves.extend(tree_leaves(value)))
        return leaves
