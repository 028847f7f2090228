"""The forecast for copied executables is the number that a real JAX then hits."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jcache.jax_internals.path_keys import version_numbers
from jcache.layout import Kind, Root
from jcache.shipping.forecast.judge import judge_root
from jcache.shipping.forecast.machine import Machine, this_machine
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.forecast.verdict import XLA_CACHES, Hit, HitCondition, MissReason, ProgramKind
from jcache.shipping.importer.path_link import make_link
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.jax_programs import environment, run
from tests.helpers.waiting import LIMIT_S

pytestmark = pytest.mark.jax

PROGRAM = """
import json, sys

mode, way = sys.argv[1:3]
if "no-zstandard" in way:
    sys.modules["zstandard"] = None
if "python-3.14" in way:  # as far as JAX can tell: its own zstd is there, and comes before zstandard
    import types, zstandard
    zstd = types.ModuleType("compression.zstd")
    zstd.compress = lambda data: zstandard.ZstdCompressor().compress(data)
    zstd.decompress = lambda data: zstandard.ZstdDecompressor().decompress(data)
    compression = types.ModuleType("compression")
    compression.zstd = zstd
    sys.modules |= {"compression": compression, "compression.zstd": zstd}
if way == "enable":
    import jcache
    jcache.enable(sys.argv[3])

import jax, jax.monitoring
import jax.numpy as jnp

hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: hits.append(event) if event == "/jax/compilation_cache/cache_hits" else None)
x = jnp.ones((7, 5))
jax.block_until_ready(jax.jit(lambda x: jnp.tanh(x @ x.T).sum())(x))
if mode == "fill":
    jax.block_until_ready(jax.jit(lambda x: jnp.sort(x, axis=0) * 2)(x))
print(json.dumps(len(hits)))
"""
STORE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
NOT_STORED = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1000"}


def jax(directory: Path, way: str = "", mode: str = "fill", *, store: bool = False) -> int:
    """Return how many executables a process hits; `way` is how it comes to use the directory or root."""
    env = STORE if store else NOT_STORED
    if way == "run":
        return under_jcache_run(directory, mode, env)
    if way != "enable":
        caches = way.partition(" ")[0]
        told = {XLA_CACHES: caches} if caches in ("none", "all") else {}
        env = env | {"JAX_COMPILATION_CACHE_DIR": str(directory)} | told
    replaces_modules = "zstandard" in way or "python" in way
    said = run(PROGRAM, mode, way, directory, env=env, new_interpreter=replaces_modules)
    assert isinstance(said.value, int)
    return said.value


def under_jcache_run(root: Path, mode: str, env: dict[str, str]) -> int:
    program = [sys.executable, "-c", PROGRAM, mode, "run"]
    command = [sys.executable, "-m", "jcache", "run", "-q", "--root", str(root), "--", *program]
    done = subprocess.run(command, env=environment(env), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


def forecast(path: Path, machine: Machine | None = None) -> Forecast:
    with closing(Store(open_root(path))) as store:
        return judge_root(store, machine or this_machine({}), {})


def entries(root: Root) -> int:
    return len(list(root.directory(Kind.EXECUTABLES).glob("*-cache")))


@pytest.fixture(scope="module")
def plain_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that JAX alone has filled, with its default settings; not to be changed."""
    path = tmp_path_factory.mktemp("plain") / "old"
    assert jax(path, store=True) == 0
    return path


@pytest.fixture(scope="module", params=["none", "run", "enable"])
def portable_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with portable keys, filled in one of several ways; tests must not change it."""
    path: Path = tmp_path_factory.mktemp(request.param) / "old"
    assert jax(path, request.param, store=True) == 0
    return path


def path_in_keys() -> bool:
    version = this_machine({}).jax
    assert version
    return (0, 4, 36) <= version_numbers(version) < (0, 11)


def has_xla_caches() -> bool:
    version = this_machine({}).jax
    assert version
    return version_numbers(version) >= (0, 4, 36)


def assert_exact(path: Path, announced: Forecast, *, native: bool) -> None:
    """Programs of both kinds hit as many as was announced; jcache finds both, and of one program one of the two."""
    directory = path / "executables" if native else path
    assert jax(directory, mode="hit") <= jax(directory) == announced.hits(ProgramKind.PLAIN)
    assert jax(directory, "none") == announced.hits(ProgramKind.JCACHE)
    least = max(announced.hits(ProgramKind.PLAIN), announced.hits(ProgramKind.JCACHE))
    for way in ("run", "enable"):
        assert least <= jax(path, way) <= announced.hits(None), way


def test_a_copy_of_what_jax_alone_has_stored(plain_cache: Path, tmp_path: Path) -> None:
    """Copied to another path, as many hit as is announced: none up to jax 0.10.2, all from 0.11 on."""
    copy = Path(shutil.copytree(plain_cache, tmp_path / "new"))
    announced = forecast(copy)
    total = len(announced.verdicts)
    assert total == entries(open_root(copy)) >= 3
    assert announced.hits(ProgramKind.PLAIN) == (0 if path_in_keys() else total)
    assert_exact(copy, announced, native=False)
    if path_in_keys():
        expected = f"0 of {total} executables can hit at this path: they are keyed for {plain_cache} "
        assert announced.sentences[0].startswith(expected)
        assert announced.other_directories == {str(plain_cache): total}


def test_where_it_was_stored(plain_cache: Path) -> None:
    """At its own path, JAX alone hits every entry, and programs with portable keys hit as many as the forecast says."""
    announced = forecast(plain_cache)
    assert announced.hits(ProgramKind.PLAIN) == announced.hits(None) == len(announced.verdicts) == jax(plain_cache)
    assert_exact(plain_cache, announced, native=False)


def test_what_was_stored_with_all_of_xlas_caches(tmp_path: Path) -> None:
    """Entries made with all of XLA's caches are hit only at their path, by a JAX with the same setting (from
    0.4.36 on).
    """
    path = tmp_path / "old"
    assert jax(path, "all", store=True) == 0
    announced = forecast(path)
    total = len(announced.verdicts)
    assert jax(path, "all") == announced.count(Hit.WILL) == total >= 3
    assert_exact(path, announced, native=False)
    copy = Path(shutil.copytree(path, tmp_path / "new"))
    moved = forecast(copy)
    assert_exact(copy, moved, native=False)
    if has_xla_caches():
        assert list(announced.conditions) == [HitCondition(ProgramKind.PLAIN, str(path), "all")]
        assert moved.count(Hit.CANNOT) == total and jax(copy, "all") == 0


def test_a_copy_of_portable_keys(portable_cache: Path, tmp_path: Path) -> None:
    """Entries with portable keys hit in a copy, all of them for programs of the same kind."""
    copy = Path(shutil.copytree(portable_cache, tmp_path / "new"))
    announced = forecast(copy)
    assert announced.hits(ProgramKind.JCACHE) == len(announced.verdicts) >= 3
    assert_exact(copy, announced, native=not open_root(copy).plain)


def test_a_directory_of_everything(plain_cache: Path, tmp_path: Path) -> None:
    """In a directory with entries of all kinds, each program hits as many as the forecast says."""
    copy = Path(shutil.copytree(plain_cache, tmp_path / "new"))
    jax(copy, store=True, mode="hit")
    jax(copy, "none", store=True)
    announced = forecast(copy)
    assert_exact(copy, announced, native=False)
    if path_in_keys():
        total = len(announced.verdicts)
        assert (
            0
            < announced.hits(ProgramKind.PLAIN)
            < announced.hits(ProgramKind.JCACHE)
            < announced.count(Hit.WILL)
            < total
        )


def test_a_link_at_the_old_path(tmp_path: Path) -> None:
    """With a link at the old path, a JAX that is configured with that path hits every entry of a moved directory."""
    old, new = tmp_path / "home" / "old", tmp_path / "elsewhere" / "new"
    jax(old, store=True)
    total = entries(open_root(old))
    new.parent.mkdir()
    old.rename(new)
    old.parent.rmdir()
    if path_in_keys():
        assert forecast(new).other_directories == {str(old): total}
        assert forecast(new).hits(ProgramKind.PLAIN, str(old)) == 0
    assert make_link(old, new)
    announced = forecast(new)
    assert announced.hits(ProgramKind.PLAIN, str(old)) == total == jax(old)
    assert announced.hits(ProgramKind.PLAIN) == jax(new)
    assert announced.hits(ProgramKind.JCACHE) == jax(new, "none")


def test_the_commands_can_be_run(tmp_path: Path) -> None:
    """The commands between backquotes can be run as they are printed, and have the described effect."""
    if not path_in_keys():
        pytest.skip("this jax has no path in its keys")
    old, new = tmp_path / "the old's" / "cache", tmp_path / "the new"
    jax(old, store=True)
    old.rename(new)
    old.parent.rmdir()
    announced = forecast(new)
    linking, from_now_on = (sentence.split("`")[-2] for sentence in announced.sentences[1:])
    program = 'test -n "$JAX_COMPILATION_CACHE_DIR" && "$0" -c "$1" fill ""'
    env = environment(NOT_STORED) | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def after(command: str) -> int:
        shell = ["sh", "-c", f"{command} && {program}", sys.executable, PROGRAM]
        done = subprocess.run(shell, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.splitlines()[-1])

    assert after(linking) == len(announced.verdicts)
    assert after(from_now_on) == 0
    env |= STORE
    assert after(from_now_on) == 0
    assert after(from_now_on) == len(announced.verdicts)


READERS = ["", "no-zstandard", "python-3.14"]


@pytest.fixture(scope="module", params=READERS)
def compressed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return a directory filled by a JAX with zstandard, without, or with Python 3.14's zstd; tests must not
    change it.
    """
    path = tmp_path_factory.mktemp("codecs") / "cache"
    jax(path, f"none {request.param}", store=True)
    return request.param, path


@pytest.mark.parametrize("reader", READERS)
def test_codecs(compressed: tuple[str, Path], reader: str, tmp_path: Path) -> None:
    """Entries that one JAX has compressed hit in another as the forecast says. Entries that are found but not
    readable hit after the remedy if zstandard made them; once they are left out, JAX stores its own.
    """
    writer, path = compressed
    version = this_machine({}).jax
    assert version
    if "python-3.14" in (writer, reader) and version_numbers(version) < (0, 7, 1):
        pytest.skip("this jax knows no zstd but zstandard's")
    machine = replace(this_machine({}), zstandard="no" not in reader, python=(3, 14) if "3.14" in reader else (3, 11))
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    announced = forecast(copy, machine)
    total = len(announced.verdicts)
    hits = jax(copy, f"none {reader}")
    assert hits == (total if writer == reader else 0)
    expected = {
        ("", ""): Hit.WILL,
        ("", "python-3.14"): Hit.UNKNOWN,
        ("no-zstandard", "no-zstandard"): Hit.WILL,
        ("python-3.14", "python-3.14"): Hit.UNKNOWN,
        ("python-3.14", ""): Hit.WILL,  # nothing in it tells that it is not zstandard's
    }
    assert announced.count(expected.get((writer, reader), Hit.CANNOT)) == total
    found_but_not_readable = {writer, reader} == {"no-zstandard", "python-3.14"}
    not_readable = {key for key, verdict in announced.verdicts.items() if verdict.reason is MissReason.CODEC}
    assert bool(not_readable) == found_but_not_readable or (writer, reader) == ("", "no-zstandard")
    if not not_readable:
        return
    remedies = {(verdict.remedy, verdict.unless) for verdict in announced.verdicts.values()}
    if (writer, reader) == ("", "no-zstandard"):
        assert all(remedy for remedy, _ in remedies) and jax(copy, "none ") == total
    assert all(unless for remedy, unless in remedies if remedy)
    for key in not_readable:
        (copy / f"{key}-cache").unlink()
    jax(copy, f"none {reader}", store=True)
    assert jax(copy, f"none {reader}") == total
