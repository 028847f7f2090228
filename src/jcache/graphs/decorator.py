"""`jcache.graph`: a function that keeps the graphs that it builds in a `GraphCache`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from jcache.errors import InvalidValue
from jcache.fingerprint.depends_on import ATTRIBUTE, Dependency, parse_depends_on
from jcache.graphs.cache import DependsOn, GraphCache
from jcache.graphs.file_codec import FileCodec
from jcache.runtime.explain import Explanation
from jcache.runtime.worlds.judgement import Check

P = ParamSpec("P")
R = TypeVar("R")


class GraphFunction(Protocol[P, R]):
    """A function decorated by `graph`.

    Attributes:
        cache: the cache of its graphs.
        build: the function itself, without the cache.
    """

    cache: GraphCache
    build: Callable[P, R]
    __name__: str

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the graph, from the cache or built now."""

    def explain(self, /, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Return whether the call would be served; for a method, the instance is the first argument."""

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
    """Decorate a function so that a `GraphCache` keeps the graphs that it builds.

    Args:
        function: the function; or a method, whose instance is one of the arguments.
        root: the root, as for `GraphCache`, which describes the other arguments as well.
        codec: how graphs become bytes.
        max_size: bound of the root's graphs.
        read_only: more roots to read.
        check: when a stored graph is built again and compared.
        depends_on: functions whose values are part of the key.

    Returns:
        A function with the same parameters and the attributes ``cache``, ``explain(...)`` and ``build(...)``, which is
        the function itself.

    Raises:
        InvalidValue: an argument cannot be read, or `function` is no function.

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
    dependencies = parse_depends_on(depends_on)

    def decorated(function: Callable[..., Any]) -> Any:  # noqa: ANN401
        calls = [each.call for each in dependencies]
        cache = GraphCache(root, codec=codec, max_size=max_size, read_only=read_only, check=check, depends_on=calls)
        return _decorated(function, cache, dependencies)

    return decorated if function is None else decorated(function)


def _decorated(function: Callable[..., Any], cache: GraphCache, dependencies: tuple[Dependency, ...]) -> Any:  # noqa: ANN401
    if not callable(function):
        raise InvalidValue(f"{function!r} is no function: put @jcache.graph below @classmethod and @staticmethod.")

    @wraps(function)
    def graph_of(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return cache.get_or_build(function, *args, **kwargs)

    def explained(*args: Any, **kwargs: Any) -> Explanation:  # noqa: ANN401
        return cache.explain(function, *args, **kwargs)

    attributes = {"cache": cache, "build": function, "explain": explained, ATTRIBUTE: dependencies}
    graph_of.__dict__.update(attributes)
    return graph_of
