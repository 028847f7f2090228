"""The key of a trace: a digest of everything that a call of a jitted function is traced from.

That is the function's fingerprint, with everything that its code reaches and its static arguments; the structures and
types of the other arguments; JAX's version and options; and the mesh in effect. A type may name a mesh, too. Apart from
that, the placement, sharding and donation of the arrays are no part of the key: one trace may have several executables
for them.
"""

# ruff: noqa: ANN401 - functions and arguments are anything

from __future__ import annotations

import hashlib
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from jcache.traces.arguments import Arguments
from jcache.traces.structures import Structure, aval_key

_VERSION: Final = "trace 5"
"""The version of the rules for traces. A stricter rule raises it, so that no trace of a weaker rule is served."""
OTHER_LEAVES: Final = (
    "a class among its arguments is not made again from its leaves as it was: flattening it once more gives other "
    "leaves, or the same in another order"
)
_SHOWN: Final = ("shape", "dtype", "weak_type")
_PLAIN: Final = (bool, int, float, str)
_MAX_ROUGH_LEAVES: Final = 50


STATIC: Final = ("static_argnums", "static_argnames")
"""The options of `jax.jit` that name static arguments."""


class TraceRequest(NamedTuple):
    """The request of a call for a trace.

    Attributes:
        fingerprint: the fingerprint of the function and its static arguments.
        key: the key of the trace.
        parts: everything that went into the key, in words.
        leaves: the leaves of the other arguments.
        likes: the structures of the other arguments.
        changed: returns the changes since then of values that the fingerprint was made of, a line each.
    """

    fingerprint: Fingerprint
    key: str
    parts: Mapping[str, str]
    leaves: list[Any]
    likes: list[Any]
    changed: Callable[[], list[str]]


class Statics:
    """The static arguments of a function, found by the rules of `jax.jit`.

    Args:
        function: the function.
        numbers, names: `static_argnums` and `static_argnames` of `jax.jit`; if one is None, it follows from the other
            and the function's signature.
        keeps_unused: whether the executables take all arguments, also those that they do not need.
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
        self._numbers = set(_indexes(() if numbers is None else numbers))
        self._names = {names} if isinstance(names, str) else set(names or ())
        self._parameters = _parameters(function)
        if numbers is None:
            self._numbers = {i for i, name in enumerate(self._parameters) if name in self._names}
        elif names is None:
            self._names = {self._parameters[i] for i in self._numbers if -1 < i < len(self._parameters)}

    def replaced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], by: Callable[[str, Any], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with a replacement for each that is not static.

        Args:
            args: the positional arguments.
            kwargs: the keyword arguments.
            by: makes the replacement from name and value. The name of a keyword argument ends in ``=``: JAX takes
                keyword arguments after all others, in the order of their names, so that a call with a keyword is
                another trace than the same call without.
        """
        count = len(args)
        static = {number + count if number < 0 else number for number in self._numbers}
        positional = tuple(arg if i in static else by(self._name(i), arg) for i, arg in enumerate(args))
        return positional, {name: arg if name in self._names else by(f"{name}=", arg) for name, arg in kwargs.items()}

    def _name(self, position: int) -> str:
        return self._parameters[position] if position < len(self._parameters) else str(position)


def _indexes(numbers: Any) -> Iterable[int]:
    """Return numbers of arguments, as JAX reads them: one or several, of any type that counts as an integer."""
    try:
        return (operator.index(numbers),)
    except TypeError:
        return map(operator.index, numbers)


def make_request(
    function: Callable[..., Any],
    statics: Statics,
    given: Arguments,
    traced: Arguments | None = None,
    depends_on: tuple[Dependency, ...] = (),
) -> TraceRequest:
    """Return the request of a call for a trace.

    The key has the structures of the arguments that the program gave. That suffices, since JAX makes all arguments that
    the function sees from these structures and from tracers.

    Args:
        function: the function.
        statics: its static arguments.
        given: the arguments that the program gave.
        traced: the arguments that JAX made from tracers; None if nothing is being traced.
        depends_on: functions whose values count as static arguments.

    Raises:
        GraphKeyError: the function or a static argument has no key.
        NotStorable: jcache does not know the type of another argument.
    """
    flat = _FlatArguments()
    keyed = statics.replaced(given.args, dict(sorted(given.kwargs.items())), flat.add_structure)
    if traced is not None:
        flat.clear()
        statics.replaced(traced.args, dict(sorted(traced.kwargs.items())), flat.add_traced)
    flat.add_types()
    base = fingerprint(function, *keyed, for_trace=True, depends_on=depends_on)
    changed = partial(changed_meanwhile, base, function, *keyed)
    around = {f"option {name}": text for name, text in tracing.settings().items()} | tracing.setup()
    around |= {"keep_unused": "True"} if statics.keeps_unused else {}
    whole = [_VERSION, base.hash, *(f"{label!r}\n{text}" for label, text in (*flat.exact, *sorted(around.items())))]
    digest = hashlib.sha256("\0".join(whole).encode(errors="surrogatepass")).hexdigest()
    parts = Frozen(sorted((dict(base.parts) | flat.words | around).items()))
    return TraceRequest(base, storable(f"{base.name}-{digest}"), parts, flat.leaves, flat.likes, changed)


def rough_function_key(function: Callable[..., Any]) -> str:
    """Return a text for a function, made quickly from its name and its own code only."""
    inner = unfolded(function, (), {}).function
    code = getattr(inner, "__code__", None)
    names = (getattr(inner, name, "") for name in ("__module__", "__qualname__"))
    return "\0".join([*map(str, names), "" if code is None else signature(code).hex()])


def rough_call_key(function_key: str, statics: Statics, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the name of a call in hints; calls with different keys may have the same name.

    Args:
        function_key: the text from `rough_function_key`.
        statics: the static arguments of the function.
        args: the positional arguments.
        kwargs: the keyword arguments.
    """
    from jax.tree_util import tree_leaves

    leaves: list[Any] = []
    fixed, named = statics.replaced(args, kwargs, lambda _, value: leaves.extend(tree_leaves(value)))
    values = (repr(value) if type(value) in _PLAIN else type(value).__name__ for value in (*fixed, *named.values()))
    return "\0".join([function_key, *tracing.setup().values(), *values, *tracing.types_of(leaves[:_MAX_ROUGH_LEAVES])])


class _FlatArguments:
    """The arguments that are not static, flattened in JAX's order.

    Attributes:
        leaves: the leaves: the program's, or the tracers.
        likes: the structures of the arguments.
        exact: a label and the type for each leaf, as the key has them; several leaves may have the same label.
        words: the same for people.
    """

    def __init__(self) -> None:
        self.leaves: list[Any] = []
        self.likes: list[Any] = []
        self.exact: list[tuple[str, str]] = []
        self.words: dict[str, str] = {}
        self._labels: list[str] = []

    def add_structure(self, name: str, value: Any) -> Structure:
        """Add an argument that the program gave, and return its structure for the key."""
        from jax.tree_util import keystr, tree_flatten_with_path

        leaves, treedef = tree_flatten_with_path(value)
        for path, leaf in leaves:
            self._labels.append(f"array {name}{keystr(path)}")
            self.leaves.append(leaf)
        self.likes.append(treedef)
        return Structure(treedef)

    def clear(self) -> None:
        """Forget the leaves and structures, so that `add_traced` adds those of traced arguments; keep the labels."""
        self.leaves, self.likes = [], []

    def add_traced(self, _: str, value: Any) -> None:
        """Add an argument that JAX made from tracers."""
        from jax.tree_util import tree_flatten

        leaves, treedef = tree_flatten(value)
        self.leaves += leaves
        self.likes.append(treedef)

    def add_types(self) -> None:
        """Add the types of the leaves.

        Raises:
            NotStorable: the traced arguments have another number of leaves than the program's, or a leaf has a type
                that jcache does not know.
        """
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
    """Return the attributes of an ordinary array's type, without those that are always shown."""
    seen: dict[str, Any] = dict(cast("Any", aval_key(0)))
    return {name: value for name, value in seen.items() if name not in _SHOWN}


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that can be given by position; none if the function has no signature."""

    def names() -> Iterator[str]:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                return
            yield name

    try:
        return list(names())
    except (TypeError, ValueError):
        return []
