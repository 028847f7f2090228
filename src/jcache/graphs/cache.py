"""Graphs: what Python callbacks build at some cost, kept under keys that can be trusted.

    cache = jcache.GraphCache()
    graph = cache.get_or_build(coalescent, theta=2.0, nr_samples=10)

The key is the fingerprint of the function, its arguments and all that they reach (`jcache.fingerprint`). A graph is
served only if every bit of it is the one that was sealed, and if what else ran while it was built is as it was then.
One process builds it while others wait (`jcache.store.build_lock`). The cache may fail, the program may not: whatever
goes wrong is a miss, the function is run, its value is returned, and one warning says why. What a function raises is
raised.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from jcache import clock
from jcache.errors import GraphKeyError, InvalidValue
from jcache.fingerprint import digest_of
from jcache.fingerprint.depends_on import ATTRIBUTE, Dependency, parse_depends_on
from jcache.fingerprint.io.audit import hear_always
from jcache.graphs.file_codec import FileCodec
from jcache.graphs.graph_store import Call, Found, Shelf, name_of_function
from jcache.graphs.roots import Places
from jcache.graphs.stats import GraphStats
from jcache.jax_internals import registry
from jcache.runs.calls import BYPASSED, NOT_STORED, GraphCall
from jcache.runs.observers import tell_graph
from jcache.runtime.build_context import Build, is_building, is_nested
from jcache.runtime.explain import Explanation
from jcache.runtime.worlds.judgement import Check
from jcache.store.build_lock import single_flight
from jcache.store.economics import Economics
from jcache.store.roots import path_text, path_texts
from jcache.units import parse_bound, parse_choice

if TYPE_CHECKING:
    from jcache.store.removal import Removed

DependsOn: TypeAlias = Callable[[], Any] | Iterable[Callable[[], Any]]
P = ParamSpec("P")
R = TypeVar("R")

hear_always(registry.is_tracing)

_NESTED_WAIT: Final = 60.0  # seconds that who is building something waits for others, so that no two wait for ever


class GraphCache:
    """A cache of graphs: of what Python functions build.

    A graph is any tree of numpy or jax arrays and plain values (numbers, texts, bytes, lists, tuples, dicts, sets,
    dataclasses, namedtuples, enums), an instance of a class given to `jcache.register_class`, or anything at all with a
    `jcache.FileCodec`. Each call that is served gives a graph of its own. Several threads and processes may use it.

        cache = jcache.GraphCache()
        mesh = cache.get_or_build(make_mesh, "wing.stl", resolution=0.1)

    Args:
        root: a jcache root or a plain JAX cache directory, made if it is not there. By default the one that
            `jcache.enable` put in use, else ``$JCACHE_DIR``, ``$JAX_COMPILATION_CACHE_DIR`` or ``jcache`` in the user's
            cache directory, each time as it is then.
        codec: how graphs become bytes; arrays and plain values unless given.
        max_size: bound of the root's graphs together, such as ``"20GiB"`` or a number of bytes; None for no bound.
        read_only: more roots, which are looked into in this order where `root` has no graph, and never written.
        check: when a stored graph is built again and compared: ``"first"`` in each new world, so where a source, a
            distribution, an argument or another part of the program is new; ``"always"``; or ``"never"``. None is as
            ``"first"``, but graphs that take 10 s or longer to build are served without a comparison.
        depends_on: a function without parameters, or several; what they return when a graph is looked up counts as if
            it were an argument. So jcache learns of what it cannot see, such as a table in a database.

    Raises:
        InvalidValue: an argument cannot be read.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        codec: FileCodec | None = None,
        max_size: str | int | None = None,
        read_only: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
        check: Check | str | None = None,
        depends_on: DependsOn = (),
    ) -> None:
        if codec is not None and not isinstance(codec, FileCodec):
            raise InvalidValue(f"{codec!r} is no codec: give a jcache.FileCodec, or None for arrays and plain values.")
        self._made_of = (
            None if root is None else path_text(root), codec, parse_bound(max_size), path_texts(read_only),
            None if check is None else parse_choice(Check, check, "does not say how much is checked"),
            parse_depends_on(depends_on),
        )  # fmt: skip
        named, _, max_bytes, others, chosen, dependencies = self._made_of
        self._shelf = Shelf(Places(named, max_bytes, others), codec, chosen, dependencies)

    @property
    def root(self) -> Path | None:
        """The root that is read and written now; None where there is none."""
        store, _ = self._shelf.places.now()
        return None if store is None else store.root.path

    def get_or_build(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # noqa: ANN401
        """The graph that a function builds of arguments: from the cache, else built now and stored.

        Warns:
            UserWarning: one for each reason for which graphs cannot be kept, such as a function without a key.
        """
        started = clock.monotonic()
        call = self._shelf.call(function, args, kwargs)
        if isinstance(call, str):
            return self._build_without(function, args, kwargs, call)
        found = self._shelf.look(call, started)
        if not isinstance(found, Found):
            found = self._await(call, found)
        graph: R = found.value
        return graph

    def save(self, value: object, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str | None:  # noqa: ANN401
        """Stores a graph that the program has built by itself, in the place of the one that is there.

        Only what can be told of the function beforehand is checked when it is loaded: it has not been seen running.

        Returns:
            The key; None where it could not be stored, with a warning.

        Raises:
            GraphKeyError: the function or its arguments have no key.
            NotStorable: the value cannot be stored.
        """
        call = self._shelf.call_strictly(function, args, kwargs)
        return call.key if call is not None and self._shelf.replace(call, value) else None

    def load(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R | None:  # noqa: ANN401
        """The graph of a function and arguments, None if there is none; the function is not run."""
        started = clock.monotonic()
        call = self._shelf.call(function, args, kwargs)
        found = call if isinstance(call, str) else self._shelf.look(call, started)
        if isinstance(found, Found):
            graph: R = found.value
            return graph
        self._shelf.tell_not_loaded(function, call, found)
        return None

    def explain(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:  # noqa: ANN401
        """Whether a call would be served from the cache, and if not, what has changed; nothing is built or written."""
        try:
            call = self._shelf.call_strictly(function, args, kwargs)
        except GraphKeyError as error:
            return Explanation(name=name_of_function(function), key=None, hit=False, reason=str(error))
        if call is None:
            return Explanation(name=name_of_function(function), key=None, hit=False, reason="there is no root")
        return self._shelf.explain(call)

    def stats(self) -> GraphStats:
        """What this cache did so far in this process; `jcache stats` shows what all processes did."""
        return self._shelf.tally.snapshot()

    def clear(self) -> Removed | None:
        """Removes all graphs of the root but pinned ones, as ``jcache.clear("graphs")`` does.

        Returns:
            What went and what stayed; None where there is no root.

        Raises:
            Locked: another process held the lock of the directory for longer than ``$JCACHE_LOCK_TIMEOUT``, or 10 s.
            LedgerUnavailable: what is pinned cannot be known; nothing was removed.
            CannotWrite: the root is read-only or otherwise refuses.
        """
        from jcache.admin.api import clear

        root = self.root
        return None if root is None else clear("graphs", root=root)

    def flush(self) -> None:
        """Writes what has been learnt to the ledger, softly, as happens a moment later and at exit."""
        store, _ = self._shelf.places.now()
        if store is not None:
            store.flush()

    def _await(self, call: Call, why: str | None) -> Found:
        """The graph of a call that has missed, for some reason: built by another process meanwhile, or by this one.

        What another process has just built while this one waited has saved no time.
        """
        root = call.store.root
        if self._shelf.is_not_kept(call) or is_building(root, call.key):
            return self._build(call, why)
        at_most = _NESTED_WAIT if is_nested() else None
        with single_flight(root, call.key, done=lambda: self._shelf.is_there(call), at_most=at_most):
            # Somebody may have built it since we looked, whether or not we had to wait for that.
            found = self._shelf.look(call, clock.monotonic(), again=True)
            return found if isinstance(found, Found) else self._build(call, found or why)

    def _build(self, call: Call, why: str | None) -> Found:
        build = Build(call.store.root, call.key)
        try:
            value = build.run(call.run)
        except BaseException as error:
            self._shelf.tell(call, NOT_STORED, f"building it raised {type(error).__name__}")
            raise
        self._shelf.keep(call, build, value, why)
        return Found(value)

    def _build_without(
        self, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
    ) -> R:
        started = clock.monotonic()
        value = function(*args, **kwargs)
        took = Economics(builds=1, build_seconds=clock.monotonic() - started)
        name = name_of_function(function)
        self._shelf.tally.spent(name, took)
        tell_graph(GraphCall(name, None, BYPASSED, reason, took.build_seconds))
        return value

    def __cache_key__(self) -> str:
        """Of functions that use it: where graphs are kept does not decide what they are."""
        codec, dependencies = self._made_of[1], self._made_of[5]
        values = [digest_of(each.value()) for each in dependencies]
        if None in values:
            raise GraphKeyError("what depends_on returns cannot be part of a key.")
        return "\n".join(["" if codec is None else codec.name, *(value.hex() for value in values if value)])

    def __reduce__(self) -> tuple[Callable[..., GraphCache], tuple[object, ...]]:
        return _made, self._made_of

    def __repr__(self) -> str:
        return f"GraphCache({str(self._made_of[0])!r})" if self._made_of[0] is not None else "GraphCache()"


def _made(
    root: str | None,
    codec: FileCodec | None,
    max_bytes: int | None,
    read_only: tuple[str, ...],
    check: Check | None,
    depends_on: tuple[Dependency, ...],
) -> GraphCache:
    calls = [each.call for each in depends_on]
    return GraphCache(root, codec=codec, max_size=max_bytes, read_only=read_only, check=check, depends_on=calls)


class GraphFunction(Protocol[P, R]):
    """What `graph` makes of a function.

    Attributes:
        cache: of its graphs.
        build: the function itself, which neither looks into the cache nor stores anything.
    """

    cache: GraphCache
    build: Callable[P, R]
    __name__: str

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The graph, from the cache or built now."""

    def explain(self, /, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Whether that call would be served from the cache; of a method with the instance as first argument."""

    @overload
    def __get__(self, instance: None, owner: type) -> GraphFunction[P, R]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...


@overload
def graph(function: Callable[P, R], /) -> GraphFunction[P, R]: ...


@overload
def graph(
    *,
    root: str | os.PathLike[str] | None = None,
    codec: FileCodec | None = None,
    max_size: str | int | None = None,
    read_only: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    check: Check | str | None = None,
    depends_on: DependsOn = (),
) -> Callable[[Callable[P, R]], GraphFunction[P, R]]: ...


def graph(
    function: Callable[..., Any] | None = None,
    /,
    *,
    root: str | os.PathLike[str] | None = None,
    codec: FileCodec | None = None,
    max_size: str | int | None = None,
    read_only: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    check: Check | str | None = None,
    depends_on: DependsOn = (),
) -> Any:
    """Makes a function keep the graphs that it builds, as a `GraphCache` does; to be used as a decorator.

    Args:
        function: which; or a method, whose instance is one of the arguments then.
        root: as `GraphCache` has it, and so the others.
        codec: how graphs become bytes.
        max_size: bound of the root's graphs.
        read_only: more roots to look into.
        check: when a stored graph is built again and compared.
        depends_on: functions whose values count.

    Returns:
        A function that is called like it, with ``cache``, ``explain(...)`` and ``build(...)``, the function itself.

    Raises:
        InvalidValue: an argument cannot be read, or it is no function.

    Example:
        >>> import jcache
        >>> @jcache.graph
        ... def squares(n, power=2):
        ...     return [i**power for i in range(n)]
        >>> squares(4)
        [0, 1, 4, 9]
        >>> squares(4, power=2), squares.cache.stats().hits
        ([0, 1, 4, 9], 1)
        >>> print(squares.explain(4, power=3).changes[0])
        power 2 → 3
    """

    def made() -> GraphCache:
        return GraphCache(root, codec=codec, max_size=max_size, read_only=read_only, check=check, depends_on=depends_on)

    return (lambda function: _decorated(function, made())) if function is None else _decorated(function, made())


def _decorated(function: Callable[..., Any], cache: GraphCache) -> Any:  # noqa: ANN401
    if not callable(function):
        raise InvalidValue(f"{function!r} is no function: put @jcache.graph below @classmethod and @staticmethod.")

    @wraps(function)
    def graph_of(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return cache.get_or_build(function, *args, **kwargs)

    def explained(*args: Any, **kwargs: Any) -> Explanation:  # noqa: ANN401
        return cache.explain(function, *args, **kwargs)

    attributes: dict[str, object] = {"cache": cache, "build": function, "explain": explained}
    attributes[ATTRIBUTE] = cache._made_of[5]
    graph_of.__dict__.update(attributes)
    return graph_of
