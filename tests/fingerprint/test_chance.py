"""What cannot be repeated is named and refuses nothing; a day and the facts of a host are parts of the key."""

import os
import platform
import random
from pathlib import Path

import numpy as np
import pytest

from jcache import clock
from jcache.errors import GraphKeyError
from jcache.fingerprint import Fingerprint, fingerprint
from jcache.fingerprint.chance import are_draws, are_times
from tests.helpers.fingerprints import imported, of

HEAD = """
import builtins, datetime, functools, os, platform, random, secrets, socket, time, uuid
import numpy as np
from time import time as clock
from datetime import datetime as dt
from random import choice
class Holder: pass
TABLE, HOLDER, SEED = {'now': time.time}, Holder(), None
HOLDER.now, HOLDER.seed, later = time.time, None, functools.partial(time.time)
"""
TIME = "`time.time` gives another time in each process"
NAMED = {
    "by its name": ("time.time()", TIME),
    "by another name": ("clock()", TIME),
    "in a function inside": ("(lambda: time.time())()", TIME),
    "in a table": ("TABLE['now']()", TIME),
    "as an attribute": ("HOLDER.now()", TIME),
    "in a partial": ("later()", TIME),
    "nanoseconds": ("time.time_ns()", "`time.time_ns` gives another time in each process"),
    "a clock that measures": ("time.perf_counter()", "`time.perf_counter` gives another time in each process"),
    "the process": ("os.getpid()", "`os.getpid` gives another number in each process"),
    "an address": ("id(3)", "`builtins.id` gives another number in each process"),
    "a hash": ("hash('a')", "`builtins.hash` gives another number in each process"),
    "uuid4": ("uuid.uuid4()", "`uuid.uuid4` gives another random value in each process"),
    "secrets": ("secrets.token_hex()", "`secrets.token_hex` gives another random value in each process"),
    "urandom": ("os.urandom(1)", "`os.urandom` gives another random value in each process"),
    "random": ("random.random()", "`random.random` draws another random value in each process"),
    "random.seed": ("random.seed(0)", "`random.seed` sets the state of a random generator of the process"),
    "numpy.random.seed": (
        "np.random.seed(0)",
        "`numpy.random.seed` sets the state of a random generator of the process",
    ),
    "random from": ("choice([1])", "`random.choice` draws another random value in each process"),
    "numpy.random": ("np.random.rand(3)", "`numpy.random.mtrand.rand` draws another random value in each process"),
    "no seed": ("random.Random()", "`random.Random` without a seed gives another random value in each process"),
    "a date": ("datetime.datetime.now().second", "`datetime.now` gives another time in each process"),
    "a date by another name": ("dt.utcnow()", "`datetime.utcnow` gives another time in each process"),
    "local time": ("time.localtime().tm_sec", "`time.localtime` gives another time in each process"),
}
SEEDS = {
    "none": ("default_rng()", True),
    "None": ("default_rng(None)", True),
    "None by name": ("default_rng(seed=None)", True),
    "a global": ("default_rng(SEED)", True),
    "an attribute": ("default_rng(HOLDER.seed)", True),
    "a parameter": ("default_rng(seed)", True),
    "a number": ("default_rng(1)", False),
    "another parameter": ("default_rng(x)", False),
}


def found(expression: str, directory: Path) -> Fingerprint:
    return of(directory, f"{HEAD}def build(x=1, seed=None): return {expression}\n")


@pytest.mark.parametrize("case", NAMED)
def test_what_cannot_be_repeated_is_named(case: str, tmp_path: Path) -> None:
    """However it is reached: by a name, in a container, as an attribute or in a partial."""
    expression, words = NAMED[case]
    assert found(expression, tmp_path).chance == (words,)


@pytest.mark.parametrize("case", SEEDS)
def test_a_generator_without_a_seed_is_named(case: str, tmp_path: Path) -> None:
    """Where the seed is None, whatever holds that, and not where it is a number."""
    expression, is_chance = SEEDS[case]
    assert bool(found(f"np.random.{expression}", tmp_path).chance) is is_chance


@pytest.mark.parametrize("case", NAMED)
def test_times_are_told_apart_from_other_chance(case: str, tmp_path: Path) -> None:
    """Also among those that are recorded while a function runs; nothing at all is no time."""
    words = found(NAMED[case][0], tmp_path).chance
    assert are_times(words) == ("time" in NAMED[case][1])
    assert are_times([*words, "`time.time`"]) == ("time" in NAMED[case][1])
    assert not are_times([*words, "`os.urandom`"]) and not are_times([])


@pytest.mark.parametrize("expression", ["dt(2020, 1, 1).day", "HOLDER.time", "sorted([x])", "random.Random(1)"])
def test_nothing_else_is_named(expression: str, tmp_path: Path) -> None:
    """Neither a date that is written there nor an attribute of that name is left to chance."""
    assert found(expression, tmp_path).chance == ()


def test_a_hash_that_only_looks_up_is_not_named(tmp_path: Path) -> None:
    """A class whose instances are hashed, as a static argument is, leaves nothing to chance."""
    source = "class C:\n  def __hash__(self): return hash('a')\nc = C()\ndef build(): return {}"
    assert of(tmp_path / "a", source.format("c")).chance == ()
    assert len(of(tmp_path / "b", source.format("c, hash('a')")).chance) == 1


def test_the_draws_of_others_do_not_count(tmp_path: Path) -> None:
    """The state of the generators that a process shares is no part of the key."""
    with imported(tmp_path, "import random\nTABLE = [random.random, random.gauss]\ndef build(): return TABLE") as model:
        before = fingerprint(model.build).hash
        model.random.random()
        assert fingerprint(model.build).hash == before


@pytest.mark.parametrize("expression", ["datetime.date.today()", "dt.now()", "time.strftime('%d')", "time.localtime()"])
def test_the_day_is_a_part_of_the_key(expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that can ask for the date has another key on the next day."""
    keys = []
    for hour in (10, 11, 40):
        monkeypatch.setattr(clock, "now_ns", lambda hour=hour: (1_700_000_000 // 86_400 * 24 + hour) * 3600 * 10**9)
        keys.append(found(expression, tmp_path / str(hour)).hash)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("expression", ["platform.node()", "socket.gethostname()", "os.cpu_count()", "os.uname()"])
def test_a_fact_of_the_host_is_a_part_of_the_key(expression: str, tmp_path: Path) -> None:
    """Its present value counts, and nothing of it is left to chance."""
    made = found(expression, tmp_path)
    value = {"os.cpu_count()": str(os.cpu_count()), "os.uname()": str(os.uname())}.get(expression, platform.node())
    assert made.chance == () and value in made.parts.values()


@pytest.mark.parametrize("expression", ["sys.stdin.read()", "input()"])
def test_what_a_person_types_is_refused(expression: str, tmp_path: Path) -> None:
    """What is given to the program to read cannot be known before."""
    with pytest.raises(GraphKeyError, match=r"given to read|person types"):
        of(tmp_path, f"import sys\ndef build(): return {expression}")


def test_a_generator_that_is_given_is_known_by_its_state() -> None:
    """One with a seed is nothing that is left to chance."""

    def build(generator: np.random.Generator) -> float:
        return generator.random()

    made = fingerprint(build, (np.random.default_rng(1),))
    assert made.chance == ()
    assert made.hash == fingerprint(build, (np.random.default_rng(1),)).hash
    assert made.hash != fingerprint(build, (np.random.default_rng(2),)).hash


def draws() -> float:
    """Draw from both generators that a process shares."""
    return random.random() + float(np.random.rand()) + random.gauss()


def test_the_states_of_shared_generators_are_told_beside_the_key() -> None:
    """The seeds decide the result, so that a call with other ones is a call in another world, of the same key."""
    found = []
    for seeds in ((1, 1), (1, 1), (2, 1), (1, 2)):
        random.seed(seeds[0])
        np.random.seed(seeds[1])
        found.append(fingerprint(draws))
    assert len({each.key for each in found}) == 1
    assert found[0].loose == found[1].loose and len(found[0].loose) == 2
    assert found[0].loose != found[2].loose != found[3].loose != found[0].loose


def test_draws_are_told_from_other_chance() -> None:
    """What the states of generators decide is known where the states are; the time and random bytes are not."""
    drawn = [fingerprint(each).chance for each in (lambda: random.random(), lambda: np.random.rand())]
    recorded = "`random.gauss`", "`numpy.random.rand`"
    assert all(each and are_draws(each) for each in (*drawn, recorded))
    others = (
        "`time.time`",
        "`os.urandom`",
        "`random._urandom`",
        "`numpy.random.default_rng` without a seed gives another",
    )
    assert not any(are_draws([*recorded, each]) for each in others)
