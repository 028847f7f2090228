"""Tests of `jcache.fingerprint.generators`: a served call leaves random generators in the states of a traced one."""

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint import Fingerprint, changed_meanwhile, fingerprint
from tests.helpers.fingerprints import imported

BITS = (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)


def generator_of(bits: Callable[[int], Any]) -> np.random.Generator:
    return np.random.Generator(bits(3))


GENERATORS: dict[str, Callable[[], Any]] = {
    **{each.__name__: partial(generator_of, each) for each in BITS},
    "RandomState": lambda: np.random.RandomState(3),
    "Random": lambda: random.Random(3),
    "count": lambda: itertools.count(3, 0.1),
}


@pytest.fixture
def shared_states() -> Iterator[None]:
    """Leave the generators that the process shares as they are."""
    states = random.getstate(), np.random.get_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])


def drawn(generator: Any) -> float:
    """Draw as numpy and Python do; half of a draw may stay in the generator."""
    if isinstance(generator, itertools.count):
        return float(next(generator) + next(generator))
    if isinstance(generator, np.random.Generator):
        generator.integers(9, dtype=np.uint32)
    draw = generator.gauss if isinstance(generator, random.Random) else generator.normal
    return float(draw(0, 1))


def traced(function: Callable[..., object], *args: Any) -> tuple[Fingerprint, list[str]]:
    """Call a function; return its fingerprint from before, and what the call has changed."""
    made = fingerprint(function, args, for_trace=True)
    function(*args)
    return made, changed_meanwhile(made, function, args, {})


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_a_served_call_leaves_the_generator_as_a_traced_one(make: Callable[[], Any]) -> None:
    """The same numbers follow; the key of the next call tells that some were drawn."""
    generator = make()

    def function(x: int) -> float:
        return x + drawn(generator)

    made, changed = traced(function, 1)
    after, generator = [drawn(generator) for _ in range(3)], make()
    again = fingerprint(function, (1,), for_trace=True)
    assert (changed, again.key) == ([], made.key)
    again.snapshot.setter(made.snapshot.sets.settings)()
    assert fingerprint(function, (1,), for_trace=True).key != made.key
    assert [drawn(generator) for _ in range(3)] == after


def test_of_several_generators_each_gets_its_own_state() -> None:
    """They are told apart by the order in which the function reaches them."""

    def made_of(*generators: random.Random) -> Callable[[], float]:
        return lambda: generators[1].random() + generators[2].random() * generators[2].random()

    first = [random.Random(seed) for seed in (1, 1, 2)]
    made, changed = traced(made_of(*first))
    later = [random.Random(seed) for seed in (1, 1, 2)]
    fingerprint(function := made_of(*later), for_trace=True).snapshot.setter(made.snapshot.sets.settings)()
    assert changed == [] and function is not None
    assert [each.getstate() for each in later] == [each.getstate() for each in first]


def test_what_is_drawn_where_jax_may_trace_once_for_several_is_told() -> None:
    """A jitted function may have drawn for another one too, which draws itself if this one is served."""
    import jax

    generator = np.random.default_rng(3)
    inner = jax.jit(lambda x: x + drawn(generator))
    changed = traced(lambda: drawn(generator) + (inner is None))[1]
    assert changed == ["a random generator or an `itertools.count` that a jitted function may share was drawn from"]


@pytest.mark.parametrize("way", ["lax.scan", "lax.cond", "checkpoint", "eval_shape", "jit"])
def test_what_is_drawn_for_a_function_whose_trace_jax_keeps_is_told(way: str, tmp_path: Path) -> None:
    """JAX uses the trace of such a function again in the process; where the call is served, it would draw again."""
    name = way.rpartition(".")[2]
    for code in (f"import jax\ndef f(): return R.random(), jax.{way}", f"def f():\n    {name}\n    return R.random()"):
        with imported(
            tmp_path / str(len(code)), f"import random\nR, {name} = random.Random(3), len\n{code}\n"
        ) as model:
            told = traced(model.f)[1]
        assert told == ["a random generator or an `itertools.count` that a jitted function may share was drawn from"]


def test_a_graph_that_draws_is_built_each_time() -> None:
    """What a graph sets is not set again."""
    generator = random.Random(3)

    def build() -> float:
        return generator.random()

    made = fingerprint(build)
    build()
    assert len(changed_meanwhile(made, build, (), {})) == 1


def test_other_generators_are_told() -> None:
    """A class of the program's may keep more than the state of its base, and spawning is no state."""

    class Own(random.Random):
        pass

    own, spawning = Own(3), np.random.default_rng(3)
    assert traced(lambda: own.random())[1]
    assert traced(lambda: spawning.spawn(1))[1]


def test_states_of_generators_that_the_process_shares(shared_states: None) -> None:
    """They are told apart from settings: only who knows that they are seeded sets them again."""

    def seeding() -> float:
        random.seed(3)
        np.random.seed(3)
        return random.random() + np.random.random()

    made, changed = traced(seeding)
    generators = made.snapshot.sets.generators
    assert (changed, made.snapshot.sets.settings, generators.has_drawn) == ([], [], True)
    after = random.random(), np.random.random()
    again = fingerprint(seeding, for_trace=True)
    again.snapshot.setter(generators.drawn())()
    assert (random.random(), np.random.random()) == after
