"""`GraphCache`: results of slow Python functions, kept under keys that can be trusted.

    cache = jcache.GraphCache()
    graph = cache.get_or_build(coalescent, theta=2.0, nr_samples=10)

The key is the fingerprint of the function, its arguments and all that they reach (`jcache.fingerprint`). A graph is
served only if every bit of its entry is as it was stored, and if all that ran while it was built is as it was then.
One process builds it while others wait (`jcache.store.build_lock`). The cache may fail, the program may not: every
failure is a miss, the function runs, its value is returned, and one warning says why. An exception of the function is
raised as without the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from jcache import clock
from jcache.errors import GraphKeyError, InvalidValue
from jcache.fingerprint import digest_of
from jcache.fingerprint.depends_on import Dependency, parse_depends_on
from jcache.fingerprint.io.audit import record_always
from jcache.graphs.file_codec import FileCodec
from jcache.graphs.graph_keeping import GraphKeeping
from jcache.graphs.graph_lookup import Found, GraphLookup
from jcache.graphs.graph_world import GraphWorlds
from jcache.graphs.keyed_call import KeyedCall, KeyedCalls
from jcache.graphs.roots import Places
from jcache.graphs.stats import GraphStats
from jcache.graphs.told import Told, name_of_function
from jcache.runs.calls import NOT_STORED
from jcache.runtime.build_context import Build, is_building, is_nested
from jcache.runtime.explain import Explanation
from jcache.runtime.worlds.judgement import Check
from jcache.store.build_lock import single_flight
from jcache.store.roots import path_text, path_texts
from jcache.units import parse_bound, parse_choice

if TYPE_CHECKING:
    from jcache.store.removal import Removed

DependsOn: TypeAlias = Callable[[], Any] | Iterable[Callable[[], Any]]
R = TypeVar("R")

record_always()

_NESTED_WAIT: Final = 60.0  # seconds that a build waits for another one: two may wait for each other


class GraphCache:
    """A cache of graphs, the results of slow Python functions.

    A graph is any tree of numpy or jax arrays and plain values (numbers, texts, bytes, lists, tuples, dicts, sets,
    dataclasses, namedtuples, enums), sparse matrices, tables, networks and search trees of scipy, pandas and networkx,
    an instance of a class given to `jcache.register_class`, or anything at all with a `jcache.FileCodec`. Each call
    that is served gives a graph of its own. Several threads and processes may use it.

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
            None if check is None else parse_choice(Check, check, "is not a value of check"),
            parse_depends_on(depends_on),
        )  # fmt: skip
        named, _, max_bytes, others, chosen, dependencies = self._made_of
        self._told, worlds = Told(), GraphWorlds(chosen)
        self._places = Places(named, max_bytes, others)
        self._calls = KeyedCalls(self._places, codec, dependencies, self._told)
        self._lookup = GraphLookup(codec, worlds, self._told)
        self._keeping = GraphKeeping(codec, worlds, self._told, self._lookup)

    @property
    def root(self) -> Path | None:
        """The root that is read and written now; None where there is none."""
        store, _ = self._places.now()
        return None if store is None else store.root.path

    def get_or_build(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # noqa: ANN401
        """Return the graph that a function builds from arguments: from the cache, else built now and stored.

        Warns:
            UserWarning: one for each reason why graphs cannot be stored, such as a function without a key.
        """
        started = clock.monotonic()
        call = self._calls.of(function, args, kwargs)
        if isinstance(call, str):
            return self._build_without(function, args, kwargs, call)
        found = self._lookup.look(call, started)
        if not isinstance(found, Found):
            found = self._await(call, found)
        graph: R = found.value
        return graph

    def save(self, value: object, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str | None:  # noqa: ANN401
        """Store a graph that the program has built by itself; it replaces a stored one.

        The function did not run, so jcache does not know which files it reads: only its key is checked when the graph
        is loaded.

        Returns:
            The key; None where it could not be stored, with a warning.

        Raises:
            GraphKeyError: the function or its arguments have no key.
            NotStorable: the value cannot be stored.
        """
        call = self._calls.strictly(function, args, kwargs)
        return call.key if call is not None and self._keeping.replace(call, value) else None

    def load(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R | None:  # noqa: ANN401
        """Return the stored graph of a function and arguments, None if there is none; the function does not run."""
        started = clock.monotonic()
        call = self._calls.of(function, args, kwargs)
        found = call if isinstance(call, str) else self._lookup.look(call, started)
        if isinstance(found, Found):
            graph: R = found.value
            return graph
        self._told.tell_not_loaded(function, call, found)
        return None

    def explain(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:  # noqa: ANN401
        """Return whether a call would be served, and if not, what has changed; nothing is built or written."""
        try:
            call = self._calls.strictly(function, args, kwargs)
        except GraphKeyError as error:
            return Explanation(name=name_of_function(function), key=None, hit=False, reason=str(error))
        if call is None:
            return Explanation(name=name_of_function(function), key=None, hit=False, reason="there is no root")
        return self._lookup.explain(call)

    def stats(self) -> GraphStats:
        """Return what this cache has done so far in this process; `jcache stats` shows what all processes did."""
        return self._told.tally.snapshot()

    def clear(self) -> Removed | None:
        """Remove all graphs of the root but pinned ones, as ``jcache.clear("graphs")`` does.

        Returns:
            What was removed and what stayed; None if there is no root.

        Raises:
            Locked: another process held the lock of the directory for longer than ``$JCACHE_LOCK_TIMEOUT``, or 10 s.
            LedgerUnavailable: the pins cannot be read; nothing was removed.
            CannotWrite: the root cannot be written.
        """
        from jcache.admin.api import clear

        root = self.root
        return None if root is None else clear("graphs", root=root)

    def flush(self) -> None:
        """Write what is queued for the ledger now, not only soon or at exit; a failure is a warning."""
        store, _ = self._places.now()
        if store is not None:
            store.flush()

    def _await(self, call: KeyedCall, why: str | None) -> Found:
        """Return the graph of a call that has missed: built by another process meanwhile, or by this one.

        A graph for which this process waited counts as no time saved.
        """
        root = call.store.root
        if self._keeping.is_not_kept(call) or is_building(root, call.key):
            return self._build(call, why)
        at_most = _NESTED_WAIT if is_nested() else None
        with single_flight(root, call.key, done=lambda: self._lookup.is_there(call), at_most=at_most):
            # Somebody may have built it since we looked, whether or not we had to wait for that.
            found = self._lookup.look(call, clock.monotonic(), again=True)
            return found if isinstance(found, Found) else self._build(call, found or why)

    def _build(self, call: KeyedCall, why: str | None) -> Found:
        build = Build(call.store.root, call.key)
        try:
            value = build.run(call.run)
        except BaseException as error:
            self._told.tell(call, NOT_STORED, f"building it raised {type(error).__name__}")
            raise
        self._keeping.keep(call, build, value, why)
        return Found(value)

    def _build_without(
        self, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
    ) -> R:
        started = clock.monotonic()
        value = function(*args, **kwargs)
        self._told.tell_built_without(function, reason, clock.monotonic() - started)
        return value

    def __cache_key__(self) -> str:
        """Return what counts in keys of functions that use this cache: not the root, which does not change a graph."""
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
