"""`jcache verify` as a user sees it: its options, its exit codes, and JAX after a repair."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.test_company import hits_and_stores
from tests.helpers.command_line import LEGACY, PROGRAM, Jcache, Result, call, keys, powerless
from tests.helpers.damaged import OLD, SOUND, damage, small_root, unchanged
from tests.helpers.entries import copied, key, tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_root(tmp_path / "root")


def test_a_sound_cache_is_clean(jcache: Jcache, cache: Path) -> None:
    """A sound cache gives exit 0, one line, and nothing on stderr; nothing outside `.jcache` changes."""
    before, number = unchanged(cache), len(keys(cache))
    for _ in range(2):
        result = jcache("verify", "--root", cache)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(f"Checked {number} entries, ") and result.out.endswith(": no findings\n")
        assert unchanged(cache) == before


def test_ndjson(jcache: Jcache, root: Path) -> None:
    """--ndjson prints one line for each finding, and nothing for a clean cache."""
    assert jcache("verify", "--ndjson", "--root", root).out == ""
    bad = [damage(root, i) for i in range(3)]
    result = jcache("verify", "--ndjson", "--root", root)
    assert result.code == 1
    assert {json.loads(line)["key"] for line in result.out.splitlines()} == set(bad)


def test_legacy_entries_are_no_failure(jcache: Jcache, root: Path) -> None:
    """Legacy entries are mentioned with the command that removes them, and the exit code is 0."""
    (root / key(99)).write_bytes(LEGACY[:-6])
    result = jcache("verify", "--root", root)
    assert result.code == 0 and "1 legacy" in result.out and "jcache prune --legacy" in result.out
    assert jcache("verify", "--repair", "--root", root).code == 0 and (root / key(99)).exists()


def test_quick(jcache: Jcache, root: Path) -> None:
    """A quick check finds a wrong digest or codec, but not a torn end without a recorded digest."""
    damage(root)
    assert jcache("verify", "--quick", "--root", root).code == 0
    assert jcache("verify", "--root", root).code == 1
    damage(root, 2, b"junk")
    damage(root, 3, SOUND[:-6])
    found = jcache("verify", "--quick", "--json", "--root", root).json["findings"]
    assert sorted(one["damage"] for one in found) == ["changed", "codec"]


@pytest.mark.full
@pytest.mark.parametrize(("part", "runs"), [("1/7", 6), ("25%", 4), ("300", 12), ("10GiB", 1)])
def test_parts_cover_everything(jcache: Jcache, root: Path, part: str, runs: int) -> None:
    """Repeated runs with a subset check every entry, and each says how many it did not check."""
    size = len(SOUND)
    part = str(size) if part == "300" else part
    bad = damage(root)
    seen = []
    for _ in range(runs):
        result = jcache("verify", "--subset", part, "--json", "--root", root)
        assert result.json["entries"] == 12 and result.json["checked_entries"] <= -(-12 // runs) + 1
        seen += [finding["key"] for finding in result.json["findings"]]
    assert seen == [bad]
    text = jcache("verify", "--subset", "1/12", "--root", root).out
    assert "1 entry of 12" in text and "Not checked: 11 entries" in text


def test_max_duration(jcache: Jcache, root: Path) -> None:
    """After the time limit, no further entry is begun, and the exit code is 0."""
    result = jcache("verify", "--max-duration", "0s", "--root", root)
    assert result.code == 0 and "0 entries of 12" in result.out
    assert jcache("verify", "--max-duration", "10min", "--json", "--root", root).json["checked_entries"] == 12


def test_kinds_and_ignored_damage(jcache: Jcache, root: Path) -> None:
    """--kind leaves the others unread, --ignore leaves a damage out of the findings and the exit code."""
    damage(root)
    assert jcache("verify", "--kind", "traces", "--root", root).code == 0
    root.chmod(0o777)
    result = jcache("verify", "--root", root)
    assert result.code == 1 and f"chmod go-w {root}" in result.out
    found = jcache("verify", "--ignore", "writable", "--json", "--root", root).json["findings"]
    assert [one["damage"] for one in found] == ["torn"]
    assert jcache("verify", "--ignore", "writable", "--ignore", "torn", "--root", root).code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--subset", "8/7"], "'8/7'"),
        (["--subset", "0%"], "'0%'"),
        (["--subset", "some"], "1/7"),
        (["--subset", "0"], "'0'"),
        (["--subset", ""], "1/7"),
        (["--max-duration", "10m"], "10min"),
        (["--max-duration", "soon"], "'soon'"),
        (["--grace", "7"], "'7'"),
        (["--kind", "programs"], "executables, traces, graphs"),
        (["--ignore", "dust"], "not_a_file"),
        (["--json", "--ndjson"], "choose one"),
        (["--frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_exit_2(jcache: Jcache, root: Path, arguments: list[str], says: str) -> None:
    """Bad arguments are one sentence with the alternatives; nothing is made or changed."""
    result = jcache("verify", *arguments, "--root", root)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1) and says in result.err
    assert not (root / ".jcache").exists()


def test_no_cache_is_exit_10(jcache: Jcache, tmp_path: Path) -> None:
    """A missing cache is exit 10."""
    assert jcache("verify", "--root", tmp_path / "none").code == 10


@pytest.mark.jax
@pytest.mark.parametrize("bounded", [None, 10**9], ids=["unbounded", "bounded"])
def test_jax_writes_what_was_taken_out_anew_and_hits_the_rest(
    jcache: Jcache, jax_cache: Path, bounded_cache: Path, tmp_path: Path, bounded: int | None
) -> None:
    """Repair, verify clean, JAX: one entry stored, all others hit, no warning; then everything hits and is clean."""
    source = jax_cache if bounded is None else bounded_cache
    cache = copied(source, tmp_path / "cache")
    number = len(keys(cache))
    assert jcache("verify", "--root", cache).code == 0
    path = next(cache.glob("jit_train-*-cache"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(OLD, OLD))
    found = jcache("verify", "--repair", "--json", "--root", cache)
    assert found.code == 0 and found.json["repaired"] == {"quarantined": 1}, found.out
    assert jcache("verify", "--root", cache).code == 0
    assert hits_and_stores(cache, bounded) == (number - 1, 1)
    assert hits_and_stores(cache, bounded) == (number, 0)
    ignored = ["--ignore", "missing_sidecar"] if bounded is None else []  # an unbounded JAX makes none
    assert jcache("verify", *ignored, "--root", cache).code == 0
    assert len(jcache("quarantine", "-q", "--root", cache).out.splitlines()) == 1


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_load(jcache: Jcache, jax_cache: Path, tmp_path: Path) -> None:
    """--load loads executables with the jaxlib here; those for a GPU cannot load here, which is no finding."""
    cache = tmp_path / "cache"
    cache.mkdir()
    shutil.copy2(next(jax_cache.glob("jit_train-*-cache")), cache)
    shutil.copy2(next((Path(__file__).parents[2] / "data" / "h200").glob("jit_stage-*-cache")), cache)
    result = jcache("verify", "--load", "--root", cache)
    assert result.code == 0, result
    assert "Loaded: 1 load here, 1 not loadable here" in result.out
    value = jcache("verify", "--load", "--json", "--root", cache).json
    assert (value["loads"]["loads"], value["loads"]["elsewhere"], value["loads"]["crashed"]) == (1, 1, 0)
    assert {entry["loading"] for entry in value["loads"]["entries"]} == {"loads", "elsewhere"}


def verify_powerless(root: Path, *arguments: str) -> Result:
    result = call([*powerless(), sys.executable, "-m", "jcache", "verify", *arguments, "--root", str(root)])
    assert "Traceback" not in result.err
    return result


def test_a_read_only_root_can_be_verified(root: Path) -> None:
    """Findings in a read-only root are printed, with a warning that they cannot be recorded; repair fails
    with exit 1.
    """
    damage(root)
    powerless()
    root.chmod(0o555)
    try:
        before = tree(root)
        found = verify_powerless(root)
        assert found.code == 1 and "torn" in found.out and "warning" in found.err
        mended = verify_powerless(root, "--repair")
        assert mended.code == 1 and "permission denied" in mended.err
        assert tree(root) == before
    finally:
        root.chmod(0o755)


def test_an_unreadable_entry_is_left_to_people(root: Path) -> None:
    """Its finding names the command that makes it readable, and repair does not take it away."""
    path = root / f"{key(1)}-cache"
    powerless()
    path.chmod(0)
    result = verify_powerless(root, "--repair")
    assert result.code == 1 and "unreadable" in result.out and f"chmod u+r {path}" in result.out
    assert path.exists()


@pytest.mark.jax
def test_a_function_with_another_alphabets_name_is_sound(jcache: Jcache, tmp_path: Path) -> None:
    """An entry that JAX has just written has no finding, whatever characters the function's name has."""
    code = "import jax, jax.numpy as jnp\n@jax.jit\ndef größe(x): return x + 1\ngröße(jnp.ones(3))"
    env = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "c"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    assert call([sys.executable, "-c", code], env=env | {"PYTHONUTF8": "1"}).code == 0
    assert any("größe" in name for name in os.listdir(tmp_path / "c")) and PROGRAM.exists()
    assert jcache("verify", "--root", tmp_path / "c").code == 0
