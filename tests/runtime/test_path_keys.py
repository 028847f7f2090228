"""Directories that JAX has filled without jcache, with keys that depend on the path, stay warm under jcache."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jcache.jax_internals.path_keys import can_be_in_keys, in_keys
from tests.helpers.command_line import Jcache, entry_files
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.contract
depends = pytest.mark.skipif(not in_keys(version("jax")), reason="keys of this JAX do not depend on the path")
NONE = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
SETTINGS: Mapping[str, str] = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
PROGRAM = """
import json, sys
count, own, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
notes = []
if mode == "enable":
    import jcache
    enabled = jcache.enable()
    notes = [*enabled.notes, *enabled.warnings]
import jax, numpy as np
if own:
    jax.config.update("jax_compilation_cache_dir", own)
told = []
jax.monitoring.register_event_listener(lambda event, **_: told.append(event.rpartition("/")[2]))
jit = jcache.jit if "jit" in sys.argv[4:] else jax.jit
results = [jit(lambda x: (x * number).sum())(np.ones(3, np.float32)).item() for number in range(count)]
assert results == [3.0 * number for number in range(count)]
print(json.dumps([told.count("cache_hits"), told.count("cache_misses"), notes]))
"""


class Said(NamedTuple):
    """The hits and misses of a program, and jcache's notes."""

    hits: int
    misses: int
    notes: list[str]


def by_jax(count: int, cwd: Path, own: str = "", **env: object) -> Said:
    """Run the program under JAX without jcache, with a directory from the environment or one of its own."""
    return Said(*run(PROGRAM, count, own, "plain", cwd=cwd, env={**SETTINGS, **env}).value)


def by_enable(count: int, cwd: Path, own: str = "", *more: str, **env: object) -> Said:
    """The same with `jcache.enable()`; with "first", before JAX is imported."""
    variables = {**SETTINGS, **env}
    said = run(PROGRAM, count, own, "enable", *more, cwd=cwd, env=variables, new_interpreter="first" in more)
    hits, misses, notes = said.value  # some versions of JAX get further notes, which this test is not about
    return Said(hits, misses, [note for note in notes if "without jcache" in note])


def by_run(jcache: Jcache, count: int, cwd: Path, own: str = "", *options: str, **env: Any) -> Said:
    """The same under `jcache run`."""
    variables = {**SETTINGS, **env}
    told = jcache(
        "run", *options, "--", sys.executable, "-c", PROGRAM, str(count), own, "plain", cwd=cwd, env=variables
    )
    assert told.code == 0, told.err
    hits, misses, _ = json.loads(told.out.splitlines()[-1])
    return Said(hits, misses, [line for line in told.err.splitlines() if "without jcache" in line])


@pytest.fixture(params=["relative", "absolute", "link"])
def spelled(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the string by which a program names its cache directory."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "link").symlink_to("cache")
    return {"relative": "cache", "absolute": f"{tmp_path}/cache", "link": f"{tmp_path}/link"}[request.param]


@pytest.mark.full
@depends
@pytest.mark.jax
@pytest.mark.smoke
def test_what_jax_has_filled_stays_warm(jcache: Jcache, tmp_path: Path, spelled: str) -> None:
    """Under `jcache run` and `jcache.enable()`, every program is hit, nothing is stored twice, and one
    sentence says how.
    """
    cold = by_jax(4, tmp_path, JAX_COMPILATION_CACHE_DIR=spelled)
    assert cold[:2] == (0, 4)
    for warm in (
        by_run(jcache, 4, tmp_path, JAX_COMPILATION_CACHE_DIR=spelled),
        by_run(jcache, 4, tmp_path, "", "--root", "cache"),
        by_enable(4, tmp_path, "", "first", JAX_COMPILATION_CACHE_DIR=spelled),
        by_enable(4, tmp_path, "", "first", JCACHE_DIR="cache"),
    ):
        assert warm[:2] == (4, 0)
        (note,) = warm.notes
        assert "under keys that depend on this path" in note and f"{NONE}=none" in note
    assert len(entry_files(tmp_path / "cache")) == 4
    assert jcache("verify", "--root", tmp_path / "cache").code == 0


@depends
@pytest.mark.jax
def test_both_keep_to_their_keys(jcache: Jcache, tmp_path: Path) -> None:
    """New entries have keys without the path; with the setting in the sentence, JAX without jcache hits them."""
    places = {"JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/cache"}
    by_jax(2, tmp_path, **places)
    assert by_run(jcache, 4, tmp_path, **places)[:2] == (2, 2)
    assert by_enable(6, tmp_path, **places)[:2] == (4, 2)
    assert by_run(jcache, 6, tmp_path, **places)[:2] == (6, 0)
    assert by_jax(2, tmp_path, **places)[:2] == (2, 0)
    assert by_jax(6, tmp_path, **places, **{NONE: "none"})[:2] == (4, 2)
    moved = shutil.copytree(tmp_path / "cache", tmp_path / "moved")
    assert by_enable(6, tmp_path, JAX_COMPILATION_CACHE_DIR=moved)[:2] == (6, 0)


@depends
@pytest.mark.jax
@pytest.mark.parametrize("own", ["own", "deeper/own"])
def test_a_directory_that_the_program_sets(jcache: Jcache, tmp_path: Path, own: str) -> None:
    """A program that sets its own directory is warm under `jcache run` and after `jcache.enable()`."""
    assert by_jax(3, tmp_path, own)[:2] == (0, 3)
    assert by_run(jcache, 3, tmp_path, own, "--root", f"{tmp_path}/root")[:2] == (3, 0)
    assert by_enable(3, tmp_path, own, JCACHE_DIR=f"{tmp_path}/root")[:2] == (3, 0)
    assert len(entry_files(tmp_path / own)) == 3


FILLS = [("plain", ""), ("plain", "all"), ("run", ""), ("run", "all"), ("enable", "all")]  # others have the same keys
READS = ["", "all", "none"]


@pytest.mark.skipif(not can_be_in_keys(version("jax")), reason="keys of this JAX do not depend on the path")
@pytest.mark.jax
@pytest.mark.parametrize(("by", "caches"), FILLS)
def test_what_was_filled_is_hit_with_each_setting(
    jcache: Jcache, tmp_path: Path, by: str, caches: str, full: bool
) -> None:
    """Whoever has filled a directory, and with whatever caches of XLA, `run` and `enable()` hit it with any other."""

    def places(setting: str) -> dict[str, str]:
        return {"JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/cache"} | ({NONE: setting} if setting else {})

    fills: dict[str, Callable[..., Said]] = {"plain": by_jax, "enable": by_enable, "run": partial(by_run, jcache)}
    assert fills[by](2, tmp_path, **places(caches))[:2] == (0, 2)
    of_run = READS if full else [READS[FILLS.index((by, caches)) % len(READS)]]  # one of its own for each neighbour
    for setting in READS:
        assert by_enable(2, tmp_path, **places(setting))[:2] == (2, 0), setting
    for setting in of_run:
        assert by_run(jcache, 2, tmp_path, **places(setting))[:2] == (2, 0), setting
    assert len(entry_files(tmp_path / "cache")) == 2


@depends
@pytest.mark.jax
@pytest.mark.parametrize("by", ["run", "enable", "plain"])
def test_keys_without_the_path_are_told_without_the_ledger(jcache: Jcache, tmp_path: Path, by: str) -> None:
    """Where it is not on record who has stored entries, `info` says what JAX by itself may miss."""
    root = tmp_path / "root"
    if by == "run":
        by_run(jcache, 2, tmp_path, "", "--root", str(root))
    elif by == "enable":
        by_enable(2, tmp_path, JCACHE_DIR=root)
    else:
        by_jax(2, tmp_path, JAX_COMPILATION_CACHE_DIR=root)
    if by != "plain":
        note = jcache("info", "--root", root, "--json").json["note"]
        assert "hits the programs that jcache has stored here only with" in note
    shutil.rmtree(root / ".jcache", ignore_errors=True)
    told = jcache("info", "--root", root, "--json").json["note"]
    assert told is None if by == "plain" else "there is no record" in told and f"{NONE}=none" in told


@depends
@pytest.mark.jax
def test_read_only_roots_of_jax(tmp_path: Path) -> None:
    """A directory of JAX's that is only read is hit as well."""
    by_jax(3, tmp_path, JAX_COMPILATION_CACHE_DIR=f"{tmp_path}/theirs")
    program = PROGRAM.replace("jcache.enable()", f"jcache.enable(read_only=[{str(tmp_path / 'theirs')!r}])")
    more = {**SETTINGS, "JCACHE_DIR": tmp_path / "ours"}
    hits, misses, _ = run(program, 4, "", "enable", cwd=tmp_path, env=more).value
    assert (hits, misses) == (3, 1)


@depends
@pytest.mark.jax
@pytest.mark.parametrize("caches", ["", "all"])
def test_copies_from_read_only_roots_are_hit(tmp_path: Path, caches: str) -> None:
    """Entries copied from a directory of JAX are hit in the root, even without that directory."""
    chosen = {NONE: caches} if caches else {}
    by_jax(3, tmp_path, JAX_COMPILATION_CACHE_DIR=f"{tmp_path}/theirs", **chosen)
    reading = f"jcache.enable(read_only=[{str(tmp_path / 'theirs')!r}], copy_on_hit=True)"
    program = PROGRAM.replace("jcache.enable()", reading)
    more = {**SETTINGS, "JCACHE_DIR": tmp_path / "ours", **chosen}
    for _ in range(2):
        assert run(program, 3, "", "enable", cwd=tmp_path, env=more).value[:2] == [3, 0]
        assert len(entry_files(tmp_path / "ours" / "executables")) == 3
    assert by_enable(3, tmp_path, JCACHE_DIR=tmp_path / "ours", **chosen)[:2] == (3, 0)
    shutil.move(tmp_path / "ours", tmp_path / "moved")
    assert by_enable(3, tmp_path, JCACHE_DIR=tmp_path / "moved", **chosen)[:2] == (3, 0)


@depends
@pytest.mark.jax
def test_what_was_not_seen_is_tried_all_the_same(jcache: Jcache, tmp_path: Path) -> None:
    """Among many smaller entries with other keys, a few of JAX's own are hit, and then one sentence says how."""
    places = {"JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/cache"}
    by_jax(2, tmp_path, **places)
    template = min((tmp_path / "cache").glob("*-cache"), key=lambda path: path.stat().st_size).read_bytes()
    for number in range(400):  # as many as would be stored by other programs, and nothing names the path in them
        (tmp_path / "cache" / f"jit_f-{number:064x}-cache").write_bytes(template[: len(template) // 2])
    for warm in (by_run(jcache, 2, tmp_path, **places), by_enable(2, tmp_path, **places)):
        assert warm[:2] == (2, 0)
    assert by_run(jcache, 2, tmp_path, **places).notes


@depends
@pytest.mark.jax
def test_damage_is_compiled_anew(jcache: Jcache, tmp_path: Path) -> None:
    """A damaged entry of JAX's is not served; the new one has the same key, which depends on the path."""
    places = {"JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/cache"}
    by_jax(3, tmp_path, **places)
    assert by_enable(3, tmp_path, **places)[:2] == (3, 0)
    path = next((tmp_path / "cache").glob("*-cache"))
    written = path.stat().st_mtime_ns
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(written, written))
    assert by_enable(3, tmp_path, **places)[:2] == (2, 1)
    assert by_jax(3, tmp_path, **places)[:2] == (3, 0)
    assert by_run(jcache, 3, tmp_path, **places)[:2] == (3, 0)
    assert by_enable(3, tmp_path, **places)[:2] == (3, 0)
    assert jcache("verify", "--root", tmp_path / "cache").code == 0


@depends
@pytest.mark.jax
def test_traces_need_what_is_there(tmp_path: Path) -> None:
    """A function of `jcache.jit` is hit under JAX's own key, and its trace still names that executable."""
    places = {"JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/cache"}
    by_jax(2, tmp_path, **places)
    stored = len(entry_files(tmp_path / "cache"))
    for _ in range(3):
        assert by_enable(2, tmp_path, "", "jit", **places).misses == 0
    assert len(entry_files(tmp_path / "cache")) == stored
