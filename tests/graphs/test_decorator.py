"""`jcache.graph`: a decorated function is called as before, and keeps what it builds in a cache of its own."""

import time
from pathlib import Path

import pytest

from jcache import GraphCache, graph
from jcache.errors import InvalidValue
from jcache.layout import Root
from tests.helpers.fingerprints import imported
from tests.helpers.graph_functions import half, ramp, same
from tests.helpers.graph_programs import graphs_of


def test_the_decorator(native: Root) -> None:
    """A decorated function is called as before, and says what it is, has a cache, explains, and builds without it."""
    decorated = graph(root=native.path)(ramp)
    assert same(decorated(4), ramp(4)) and same(decorated(4, theta=1.0), ramp(4))
    assert decorated.cache.stats().hits == 1
    assert decorated.__name__ == "ramp" and decorated.__doc__ == ramp.__doc__
    assert decorated.build is ramp and same(decorated.build(4), ramp(4)) and decorated.cache.stats().hits == 1
    assert decorated.explain(4).hit and not decorated.explain(5).hit


class Model:
    """Has methods that build graphs; its state is part of their keys."""

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def plain(self, n: int) -> list[int]:
        return [self.scale * i for i in range(n)]

    @graph
    def decorated(self, n: int) -> list[int]:
        return [self.scale * i for i in range(n)]

    @classmethod
    @graph
    def of_class(cls, n: int) -> str:
        return f"{cls.__name__}{n}"

    @staticmethod
    @graph
    def static(n: int) -> int:
        return n + 1


def test_methods(cache: GraphCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound methods and decorated ones count the instance's state among the arguments."""
    monkeypatch.setenv("JCACHE_DIR", str(cache.root))
    for scale in (2, 3):
        model = Model(scale)
        for _ in range(2):
            assert cache.get_or_build(model.plain, 3) == model.decorated(3) == [0, scale, 2 * scale]
    assert Model.of_class(1) == Model(1).of_class(1) == "Model1" and Model.static(1) == 2  # type: ignore[arg-type, call-arg]
    assert (cache.stats().hits, Model.decorated.cache.stats().hits) == (2, 2)
    assert Model.decorated.explain(Model(2), 3).hit and not Model.decorated.explain(Model(4), 3).hit


def test_the_arguments_are_those_of_its_cache(native: Root) -> None:
    """What the decorator is given counts as it does for a `GraphCache`, which can serve what was kept."""
    versions = ["one"]
    decorated = graph(root=native.path, depends_on=lambda: versions[0], max_size="1GiB", check="never")(half)
    assert decorated(3) == 1.5 and decorated.explain(3).hit
    versions[0] = "two"
    assert not decorated.explain(3).hit
    bounded = graph(root=native.path, max_size=1)(half)
    with pytest.warns(UserWarning, match="bounded by 1"):
        assert bounded(4) == 2.0
    assert len(graphs_of(native)) == 1


READINGS = """
START, TIMES = 0.0, [0.0]
class Clock:
    at = 0.0
clock = Clock()
def built(shift=0.0, more=()): return START + TIMES[0] + clock.at + shift + sum(more)
"""


def test_readings_of_clocks_are_looked_at_in_each_call(native: Root, tmp_path: Path) -> None:
    """A key leaves them out where the caller does not pass them, and yet another reading is another call."""
    with imported(tmp_path, READINGS) as model:
        decorated = graph(root=native.path)(model.built)
        for now in (time.time(), time.time() + 0.25, time.time() - 0.5):
            vars(model)["START"] = now
            assert [decorated(), decorated()] == [model.built()] * 2
            model.TIMES[0] = now
            assert [decorated(), decorated()] == [model.built()] * 2
            model.clock.at = now
            assert [decorated(), decorated()] == [model.built()] * 2
            assert [decorated(now), decorated(now)] == [model.built(now)] * 2
            assert [decorated(more=[now]), decorated(more=[now])] == [model.built(more=[now])] * 2
    assert decorated.cache.stats().hits >= 15


@pytest.mark.parametrize("what", [3, classmethod(lambda _: None), "half"])  # as it is before it is bound
def test_only_functions_are_decorated(what: object) -> None:
    """What cannot be called, as a class method before it is bound, is refused at once."""
    with pytest.raises(InvalidValue, match="below @classmethod"):
        graph(what)  # type: ignore[call-overload]


def test_options_are_refused_before_there_is_a_function() -> None:
    """An option of a wrong type is an error where the decorator is written, not at the first call."""
    with pytest.raises(InvalidValue, match="cannot be called"):
        graph(depends_on=3)  # type: ignore[call-overload]
