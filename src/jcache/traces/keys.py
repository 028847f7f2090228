"""The key of a trace: what a call of a jitted function would be traced from.

It is made of the function's fingerprint, with what its code reaches and its static arguments; the structures and types
of the other arguments; and the JAX that traces, with its options. Where arrays lie, how they are sharded and what is
donated is the business of the executables, of which one trace may have several; but for what types tell of meshes.
"""

# ruff: noqa: ANN401 - functions and arguments are anything

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple, cast

from jcache.errors import NotStorable
from jcache.fingerprint import Fingerprint, changed_meanwhile, fingerprint
from jcache.fingerprint.arguments import unfolded
from jcache.fingerprint.bytecode import signature
from jcache.fingerprint.depends_on import Dependency
from jcache.frozen import Frozen
from jcache.jax_internals import tracing
from jcache.layout import storable
from jcache.traces.arguments import Given
from jcache.traces.structures import Structure, aval_key

_VERSION: Final = "trace 4"
"""Of the rules by which traces are made. Where a rule was found to be too weak the next one gets the next number, so
that nothing is served that was stored by it."""
OTHER_LEAVES: Final = (
    "a class among its arguments is not made again from its leaves as it was: flattening it once more gives other "
    "leaves, or the same in another order"
)
_SHOWN: Final = ("shape", "dtype", "weak_type")
_PLAIN: Final = (bool, int, float, str)
_FEW: Final = 50


class Asked(NamedTuple):
    """What a call asks for."""

    fingerprint: Fingerprint  # of the function and its static arguments
    key: str
    parts: Mapping[str, str]  # all that went into the key, in words
    leaves: list[Any]  # of the arguments that are traced
    likes: list[Any]  # the structures of these arguments
    changed: Callable[[], list[str]]  # returns what has changed since of that which the fingerprint was made of


class Statics:
    """Which arguments of a function are static, as `jax.jit` finds it out.

    Args:
        function: whose.
        keeps_unused: whether an executable takes all arguments, also those that it does not need.
        numbers, names: as `jax.jit` takes them; of one alone the other is found in the signature.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        numbers: int | Sequence[int] | None,
        names: str | Collection[str] | None,
        *,
        keeps_unused: bool = False,
    ) -> None:
        self.keeps_unused = keeps_unused
        self._numbers = {numbers} if isinstance(numbers, int) else set(numbers or ())
        self._names = {names} if isinstance(names, str) else set(names or ())
        self._parameters = _parameters(function)
        if numbers is None:
            self._numbers = {i for i, name in enumerate(self._parameters) if name in self._names}
        elif names is None:
            self._names = {self._parameters[i] for i in self._numbers if -1 < i < len(self._parameters)}

    def replaced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], by: Callable[[str, Any], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with what `by` makes, of name and value, in the place of those that are not static.

        The name of one that is given by keyword ends in ``=``: JAX takes these after all others, in the order of their
        names, so that another form of the same call is another trace.
        """
        count = len(args)
        static = {number + count if number < 0 else number for number in self._numbers}
        positional = tuple(arg if i in static else by(self._name(i), arg) for i, arg in enumerate(args))
        return positional, {name: arg if name in self._names else by(f"{name}=", arg) for name, arg in kwargs.items()}

    def _name(self, position: int) -> str:
        return self._parameters[position] if position < len(self._parameters) else str(position)


def asked(
    function: Callable[..., Any],
    statics: Statics,
    given: Given,
    traced: Given | None = None,
    depends_on: tuple[Dependency, ...] = (),
) -> Asked:
    """Return what a call asks for.

    Its key has the arguments as JAX flattens them: the structures of those that the program gives. All that the
    function can see of its arguments JAX makes of these and of the tracers, which are None where nothing is traced.

    Raises:
        GraphKeyError: the function or a static argument has no key.
        NotStorable: a traced argument is none that jcache knows.
    """
    taken = _Taken()
    keyed = statics.replaced(given.args, dict(sorted(given.kwargs.items())), taken.structure)
    if traced is not None:
        taken.clear()
        statics.replaced(traced.args, dict(sorted(traced.kwargs.items())), taken.trace)
    taken.look()
    base = fingerprint(function, *keyed, for_trace=True, depends_on=depends_on)
    changed = partial(changed_meanwhile, base, function, *keyed)
    around = {f"option {name}": text for name, text in tracing.settings().items()} | tracing.setup()
    around |= {"keep_unused": "True"} if statics.keeps_unused else {}
    whole = [_VERSION, base.hash, *(f"{label!r}\n{text}" for label, text in (*taken.exact, *sorted(around.items())))]
    digest = hashlib.sha256("\0".join(whole).encode(errors="surrogatepass")).hexdigest()
    parts = Frozen(sorted((dict(base.parts) | taken.words | around).items()))
    return Asked(base, storable(f"{base.name}-{digest}"), parts, taken.leaves, taken.likes, changed)


def roughly(function: Callable[..., Any]) -> str:
    """What a function is, told at once and not in full: by its own code."""
    inner = unfolded(function, (), {}).function
    code = getattr(inner, "__code__", None)
    names = (getattr(inner, name, "") for name in ("__module__", "__qualname__"))
    return "\0".join([*map(str, names), "" if code is None else signature(code).hex()])


def roughly_called(roughly: str, statics: Statics, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What a call of it is: by the types of its arguments."""
    from jax.tree_util import tree_leaves

    leaves: list[Any] = []
    fixed, named = statics.replaced(args, kwargs, lambda _, value: leaves.extend(tree_leaves(value)))
    values = (repr(value) if type(value) in _PLAIN else type(value).__name__ for value in (*fixed, *named.values()))
    return "\0".join([roughly, *tracing.setup().values(), *values, *tracing.types_of(leaves[:_FEW])])


class _Taken:
    """The arguments that are traced, taken apart: their leaves in the order in which JAX flattens them."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []
        self.likes: list[Any] = []  # the structures of the arguments
        self.exact: list[tuple[str, str]] = []  # labels, which may be the same for two, and what keys are made of
        self.words: dict[str, str] = {}  # the same to be read
        self._labels: list[str] = []

    def structure(self, name: str, value: Any) -> Structure:
        from jax.tree_util import keystr, tree_flatten_with_path

        leaves, treedef = tree_flatten_with_path(value)
        for path, leaf in leaves:
            self._labels.append(f"array {name}{keystr(path)}")
            self.leaves.append(leaf)
        self.likes.append(treedef)
        return Structure(treedef)

    def clear(self) -> None:
        """Has `trace` give the leaves."""
        self.leaves, self.likes = [], []

    def trace(self, _: str, value: Any) -> None:
        from jax.tree_util import tree_flatten

        leaves, treedef = tree_flatten(value)
        self.leaves += leaves
        self.likes.append(treedef)

    def look(self) -> None:
        """Look at the leaves; raise `NotStorable` where they are not those of the program."""
        if len(self.leaves) != len(self._labels):
            raise NotStorable(OTHER_LEAVES)
        for label, leaf in zip(self._labels, self.leaves, strict=True):
            seen = aval_key(leaf)
            self.exact.append((label, repr(seen)))
            self.words[label] = _words(seen)


def _words(attributes: Any) -> str:
    seen: dict[str, Any] = dict(attributes)
    dtype = seen["dtype"] if isinstance(seen["dtype"], str) else f"key {seen['dtype'][1]}"
    text = f"{dtype}[{','.join(map(str, seen['shape']))}]{' weak' if seen['weak_type'] else ''}"
    rest = {name: value for name, value in seen.items() if name not in _SHOWN}
    usual = _usual()
    other = " and ".join(sorted(name for name in {*rest, *usual} if rest.get(name) != usual.get(name)))
    return f"{text} of {other} {hashlib.sha256(repr(rest).encode()).hexdigest()[:12]}" if other else text


@cache
def _usual() -> dict[str, Any]:
    """What JAX says of an array that is nothing special, besides what is shown of each."""
    seen: dict[str, Any] = dict(cast("Any", aval_key(0)))
    return {name: value for name, value in seen.items() if name not in _SHOWN}


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of what can be given by position."""

    def names() -> Iterator[str]:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                return
            yield name

    try:
        return list(names())
    except (TypeError, ValueError):
        return []
