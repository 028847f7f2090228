"""The default never makes a warm program cold: whatever has filled a directory, `run` and `enable()` hit it."""

import json
import os
import random
import shutil
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

import pytest

from jcache.jax_internals.path_keys import AUTOTUNE, KERNELS, in_keys
from tests.helpers.command_line import Jcache
from tests.helpers.jax_programs import run

pytestmark = [
    pytest.mark.contract,
    pytest.mark.jax,
    pytest.mark.skipif(not in_keys(version("jax")), reason="keys of this JAX do not depend on the path"),
]
VARIABLE: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
PROGRAMS: Final = 12  # of different sizes: the later, the larger
BY_PATH: Final = {"": "autotune", AUTOTUNE: "autotune", "all": "all", KERNELS: KERNELS}  # which caches put it into keys
PROGRAM: Final = """
import json, sys
numbers, settings, mode = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
import jax, numpy as np
for name, value in settings.items():
    jax.config.update(name, value)
if mode == "enable":
    import jcache
    jcache.enable()
told = []
jax.monitoring.register_event_listener(lambda event, **_: told.append(event.rpartition("/")[2]))
def program(number):
    def function(x):
        for step in range(1 + number % 12 * 4):
            x = (x @ x + step) * number
        return x.sum()
    return function
hit = []
for number in numbers:
    del told[:]
    jax.jit(program(number))(np.zeros((2, 2), np.float32)).block_until_ready()
    assert told.count("cache_hits") + told.count("cache_misses") == 1, told
    hit += [number] * told.count("cache_hits")
print(json.dumps(hit))
"""


class Way(NamedTuple):
    """How a program's user has set JAX.

    Attributes:
        directory: that is the cache.
        spelled: the string by which it is named.
        caches: what JAX is told of XLA's caches; "" for nothing.
        bounded: whether the cache is.
    """

    directory: Path
    spelled: str
    caches: str
    bounded: bool = False

    @property
    def absolute(self) -> str:
        """Return the absolute string by which `jcache run` names the directory to JAX, without following links."""
        return os.path.abspath(self.directory.parent / self.spelled)

    def settings(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "jax_compilation_cache_dir": self.spelled,
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
        told |= {VARIABLE.lower(): self.caches} if self.caches else {}
        return told | ({"jax_compilation_cache_max_size": 10**9} if self.bounded else {})


class World:
    """Directories, the keys that are stored in them, and the programs that must therefore hit."""

    def __init__(self, path: Path, chance: random.Random, jcache: Jcache) -> None:
        self.path, self.chance, self.jcache = path, chance, jcache
        self.directories: list[Path] = []
        self.portable: dict[Path, set[int]] = {}  # by directory
        self.by_path: dict[tuple[Path, str, str], set[int]] = {}  # by directory, its spelling and XLA's caches
        self.story: list[str] = []
        self.make("c0")

    def make(self, name: str, of: Path | None = None) -> None:
        made = self.path / name
        if of is None:
            made.mkdir()
        else:
            shutil.copytree(of, made)
            self.portable[made] = set(self.portable.get(of, ()))
        (self.path / f"{name}-link").symlink_to(name)
        self.directories.append(made)

    def way(self) -> Way:
        directory = self.chance.choice(self.directories)
        spelled = self.chance.choice([directory.name, str(directory), f"{directory}-link", f"./{directory.name}/"])
        return Way(
            directory,
            spelled,
            self.chance.choice(["", "", "none", "all", AUTOTUNE, KERNELS]),
            self.chance.random() < 0.3,
        )

    def some(self) -> list[int]:
        few = self.chance.random() < 0.5
        return sorted(self.chance.sample(range(PROGRAMS), self.chance.randint(1, 3 if few else 9)))

    def must_hit(self, way: Way) -> set[int]:
        """The programs that are warm in a way: under JAX alone, or when jcache stored them."""
        spellings = {str(PurePath(way.spelled)), way.absolute}
        known = (
            self.by_path.get((way.directory, spelled, caches), set())
            for spelled in spellings
            for caches in BY_PATH.values()
        )
        return self.portable.get(way.directory, set()).union(*known)

    def stored(self, way: Way, numbers: Iterable[int], by: str) -> None:
        """Store the programs that were not hit, under the keys that this kind of program uses."""
        if by == "enable" or way.caches == "none" or (by == "run" and not way.caches):
            where = self.portable.setdefault(way.directory, set())
        else:
            spelled = way.absolute if by == "run" else str(PurePath(way.spelled))
            where = self.by_path.setdefault((way.directory, spelled, BY_PATH[way.caches]), set())
        where.update(numbers)

    def do(self, way: Way, numbers: list[int], by: str) -> None:
        """Runs programs in a way, by JAX alone, under `jcache run` or with `jcache.enable()`."""
        self.story.append(f"{by} {way} {numbers}")
        hit = self.by_run(way, numbers) if by == "run" else self.in_process(way, numbers, by)
        if by != "plain":
            assert self.must_hit(way) & set(numbers) <= hit, "\n".join([*self.story, f"hit {sorted(hit)}"])
        self.stored(way, set(numbers) - hit, by)

    def in_process(self, way: Way, numbers: list[int], by: str) -> set[int]:
        told = run(PROGRAM, json.dumps(numbers), json.dumps(way.settings()), by, cwd=self.path)
        self.story.append(told.err)
        return set(told.value)

    def by_run(self, way: Way, numbers: list[int]) -> set[int]:
        variables = {name.upper(): str(value) for name, value in way.settings().items()}
        named = []
        if self.chance.random() < 0.3 and any(way.directory.glob("*-cache")):  # else it would make a root of its own
            named = ["--root", variables.pop("JAX_COMPILATION_CACHE_DIR")]  # in place of the variable
        command = [sys.executable, "-c", PROGRAM, json.dumps(numbers), "{}", "run"]
        told = self.jcache("run", "-v", *named, "--", *command, cwd=self.path, env=variables)
        self.story.append(told.err)
        assert told.code == 0, told.err
        return set(json.loads(told.out))

    def env(self) -> None:
        """Run JAX alone in the environment of `jcache env`, which says where it makes warm programs cold."""
        directory, numbers = self.chance.choice(self.directories), self.some()
        if not any(directory.glob("*-cache")):
            return
        told = self.jcache("env", "--root", directory, "--json", cwd=self.path)
        caches = told.json["environment"].get(VARIABLE, "")
        by_path = {(spelled, by) for (place, spelled, by), kept in self.by_path.items() if place == directory and kept}
        self.story.append(f"env {directory} {caches} {told.err} {by_path}")
        assert bool(told.err) == bool(by_path), "\n".join(self.story)
        hit = {by for spelled, by in by_path if spelled == str(directory)}
        assert BY_PATH[caches] in hit if hit else caches == "none", "\n".join(self.story)
        self.do(Way(directory, str(directory), caches), numbers, "plain")

    def step(self) -> None:
        """Do one step of a user, and check that the programs that must be warm are."""
        action = self.chance.choice(["plain"] * 4 + ["run", "run", "enable", "enable", "env", "copy", "forget"])
        if action == "env":
            self.env()
        elif action == "copy":
            self.story.append("copy")
            self.make(f"c{len(self.directories)}", self.chance.choice(self.directories))
        elif action == "forget":
            self.story.append("forget")
            shutil.rmtree(self.chance.choice(self.directories) / ".jcache", ignore_errors=True)
        else:
            self.do(self.way(), self.some(), action)
        warm = [way for way in (self.way() for _ in range(20)) if self.must_hit(way)]
        for by in ("run", "enable") if warm else ():
            way = self.chance.choice(warm)
            self.do(way, sorted(self.must_hit(way)), by)


def test_no_warm_program_goes_cold(jcache: Jcache, tmp_path: Path, chance: random.Random, full: bool) -> None:
    """Programs that JAX alone hits, or that jcache has stored, are hit under `run` and `enable()` with these settings.

    In between, JAX alone, with each setting of XLA's caches and by each spelling of the directory, `jcache run`,
    `jcache.enable()` and programs in the environment of `jcache env` fill directories, which are also copied, and lose
    their ledgers. `jcache env` says where JAX alone misses then what it has stored before.
    """
    for number in range(6 if full else 1):
        path = tmp_path / str(number)
        os.mkdir(path)
        world = World(path, chance, jcache)
        for _ in range(25 if full else 6):
            world.step()
