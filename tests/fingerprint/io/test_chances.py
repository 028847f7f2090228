"""A block tells when it asks for what is another thing in each process."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jcache.fingerprint.io.reads import Reads
from tests.helpers.fingerprints import executed
from tests.helpers.reads import reads_of

ASKED: dict[str, Callable[[], object]] = {
    "time.time": lambda: time.time(),
    "time.time_ns": lambda: time.time_ns(),
    "time.strftime": lambda: time.strftime("%Y"),
    "os.urandom": lambda: os.urandom(1),
    "os.getpid": lambda: os.getpid(),
    "random.random": lambda: random.random(),
    "random.shuffle": lambda: random.shuffle([]),
    "numpy.random.rand": lambda: np.random.rand(1),
    "random._urandom": lambda: random.SystemRandom().random(),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_named(name: str) -> None:
    """It is no reason not to store, and blocks around it are told as well."""
    with Reads() as outer:
        inner = reads_of(ASKED[name])
    assert f"`{name}`" in inner.chance and inner.chance <= outer.chance
    assert outer.reason is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda: random.Random(1).random(), lambda: np.random.default_rng(1).random(), time.perf_counter, os.cpu_count,
        lambda: np.random.RandomState(1).rand(2), lambda: np.random.RandomState(seed=1).rand(2),
    ],
)  # fmt: skip
def test_what_has_a_seed_or_measures_is_not_named(ask: Callable[[], object]) -> None:
    """Generators of the program's own repeat their numbers, and a clock that measures decides nothing by itself."""
    assert not reads_of(ask).chance


def test_a_generator_without_a_seed_is_named() -> None:
    """`numpy.random.RandomState` draws a seed in any case, but it uses it only where none is given."""
    assert "`random._urandom`" in reads_of(lambda: np.random.RandomState().rand(2)).chance


def test_who_asks_decides(tmp_path: Path) -> None:
    """What shows the time gives none, and an installed package draws bytes for names of its own."""

    def asked_by(module: str, path: str) -> set[str]:
        source = "import os, time\ndef ask(): return time.time(), os.urandom(1)"
        return reads_of(executed(source, path, __name__=module)["ask"]).chance

    assert asked_by("model", "model.py") == {"`time.time`", "`os.urandom`"}
    assert asked_by("grid", "/opt/site-packages/grid.py") == {"`time.time`"}
    assert asked_by("tqdm.std", "/opt/site-packages/tqdm/std.py") == set()
    assert asked_by("logging", "/opt/lib/python3/logging/__init__.py") == set()
    assert asked_by("jax.random", "/opt/site-packages/jax/random.py") == set()


def test_an_identifier_that_an_installed_package_makes_is_not_named() -> None:
    """The bytes of `uuid.uuid4` are drawn for who calls it."""

    def asked_by(path: str) -> set[str]:
        return reads_of(executed("import uuid\ndef ask(): return uuid.uuid4()", path, __name__="grid")["ask"]).chance

    assert asked_by("grid.py") == {"`os.urandom`"}
    assert asked_by("/opt/site-packages/grid.py") == set()


def test_nothing_is_heard_outside_of_blocks() -> None:
    """The functions are Python's own again after the last block, and give what they gave."""
    before = time.time, os.getpid, random.random, np.random.rand
    with Reads() as reads:
        assert (time.time, random.random) != (before[0], before[2])
        assert os.getpid() == before[1]()
    assert (time.time, os.getpid, random.random, np.random.rand) == before
    heard = set(reads.chance)
    time.time()
    assert reads.chance == heard
