"""Calls that have a key, and calls that have none."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jcache import FileCodec, GraphCache, GraphKeyError
from jcache.graphs.keyed_call import KeyedCall, KeyedCalls
from jcache.graphs.roots import Places
from jcache.graphs.told import Told
from jcache.layout import Root
from tests.helpers.graph_functions import ramp
from tests.helpers.graph_programs import graphs_of


def calls(root: Path, codec: FileCodec | None = None) -> KeyedCalls:
    return KeyedCalls(Places(str(root), None, ()), codec, (), Told())


def key(root: Root, codec: FileCodec | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    call = calls(root.path, codec).of(function, args, kwargs)
    assert isinstance(call, KeyedCall)
    return call.key


def save(value: Any, path: str) -> None:
    Path(path).write_text(str(value))


def load(path: str) -> str:
    return Path(path).read_text()


def load_all(path: str) -> str:
    return Path(path).read_text().strip()


def test_a_key_is_of_function_arguments_and_codec(native: Root) -> None:
    """Equal calls have one key, however they are written; another argument, codec or code of it has another."""
    one = key(native, None, ramp, 3)
    assert one.startswith("ramp-") and one == key(native, None, ramp, n=3) == key(native, None, ramp, 3, theta=1.0)
    codecs = [FileCodec(save, load), FileCodec(save, load, name="text"), FileCodec(save, load_all)]
    others = [key(native, codec, ramp, 3) for codec in codecs]
    assert len({one, key(native, None, ramp, 4), *others}) == 5
    assert others[0] == key(native, FileCodec(save, load), ramp, 3)


def test_a_call_runs_as_it_was_given(native: Root) -> None:
    """Running it calls the function with its arguments, and what that changes of its key is told."""
    values = [3, 1]
    call = calls(native.path).strictly(sorted_in_place, (values,), {"reverse": False})
    assert call is not None and call.changes() is None
    assert call.run() == [1, 3] and "values" in (call.changes() or "")


def sorted_in_place(values: list[int], *, reverse: bool) -> list[int]:
    values.sort(reverse=reverse)
    return values


def test_there_is_no_root(tmp_path: Path) -> None:
    """Without a root a call is none, which is the reason and is counted."""
    (tmp_path / "file").touch()
    told = Told()
    keyed = KeyedCalls(Places(str(tmp_path / "file"), None, ()), None, (), told)
    with pytest.warns(UserWarning, match="none is stored"):
        assert keyed.strictly(ramp, (3,), {}) is None
    assert keyed.of(ramp, (3,), {}) == "there is no root"
    assert dict(told.tally.snapshot().not_stored) == {"there is no root": 2}


CONNECTION: Iterator[int] = iter(())  # which reading uses up


def connected(n: int) -> int:
    return n + len(list(CONNECTION))


def test_a_function_without_a_key(cache: GraphCache, native: Root) -> None:
    """It is called without the cache, and one warning says why and what to do; save raises, explain tells."""
    with pytest.warns(
        UserWarning, match=r"(?s)`connected` is built without the cache: .*CONNECTION.*__cache_key__"
    ) as said:
        assert [cache.get_or_build(connected, i) for i in range(3)] == [0, 1, 2]
    assert cache.load(connected, 1) is None
    assert len(said) == 1 and said[0].filename == __file__
    with pytest.raises(GraphKeyError, match="CONNECTION"):
        cache.save(1, connected, 1)
    explanation = cache.explain(connected, 1)
    assert explanation.key is None and "CONNECTION" in explanation.reason and "CONNECTION" in str(explanation)
    assert graphs_of(native) == [] and cache.stats().builds == 3


class Odd:
    """An argument whose own code fails."""

    def __cache_key__(self) -> str:
        raise RuntimeError("not today")


def takes(odd: object) -> int:
    return 1


def test_code_of_the_user_that_fails(cache: GraphCache) -> None:
    """A key that cannot be made, for whatever reason, is one that is not there."""
    with pytest.warns(UserWarning, match="not today"):
        assert cache.get_or_build(takes, Odd()) == 1
