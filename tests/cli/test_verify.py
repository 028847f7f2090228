"""`jcache verify` as a user sees it: its output, its exit codes, and JAX after a repair."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from jcache.findings import Damage, Remedy
from jcache.formats.digest import is_digest
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from tests.cli.test_company import hits_and_stores
from tests.helpers.command_line import LEGACY, PROGRAM, Jcache, Result, call, keys, powerless
from tests.helpers.entries import add, copied, key, tree, xla_program

OLD = time.time_ns() - 86_400 * 10**9
SOUND = pack_executable(xla_program(b"an executable " * 99), 2, Codec.ZSTD)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A plain JAX directory of twelve small entries of long ago."""
    for i in range(12):
        add(tmp_path / "root", key(i), SOUND, written_ns=OLD)
    return tmp_path / "root"


def damage(root: Path, number: int = 1, data: bytes = SOUND[:-5]) -> str:
    """Damages an entry of long ago, and returns its key."""
    add(root, key(number), data, written_ns=OLD)
    return key(number)


def unchanged(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return everything below the root except jcache's own files."""
    return {path: what for path, what in tree(root).items() if "/.jcache" not in path}


def test_a_sound_cache_is_clean(jcache: Jcache, cache: Path) -> None:
    """A sound cache gives exit 0, one line, and nothing on stderr; nothing outside `.jcache` changes."""
    before, number = unchanged(cache), len(keys(cache))
    for _ in range(2):
        result = jcache("verify", "--root", cache)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(f"Checked {number} entries, ") and result.out.endswith(": no findings\n")
        assert unchanged(cache) == before


def test_findings_are_a_table_and_the_next_command(jcache: Jcache, root: Path) -> None:
    """Exit 1; kind of damage, entry, evidence and remedy; the summary counts them and names the next command."""
    bad = damage(root)
    before = unchanged(root)
    result = jcache("verify", "--root", root)
    assert result.code == 1 and unchanged(root) == before
    head, _, row, *_ = result.out.splitlines()
    assert head.split() == ["damage", "where", "evidence", "remedy"]
    assert row.startswith("torn") and bad[:-56] in row and row.rstrip().endswith("quarantine")
    assert "1 finding" in result.out and f"`jcache verify --repair --root {root}`" in result.out


def test_how_much_is_printed(jcache: Jcache, root: Path) -> None:
    """-q prints only the summary; -v prints whole keys and every row, of which the table otherwise has forty."""
    for i in range(45):
        damage(root, 100 + i)
    (quiet,) = jcache("verify", "-q", "--root", root).out.splitlines()
    assert "45 findings" in quiet
    shown, verbose = jcache("verify", "--root", root).out, jcache("verify", "-v", "--root", root).out
    assert sum(line.startswith("torn") for line in shown.splitlines()) == 40 and "5 more: -v" in shown
    assert all(key(100 + i) in verbose for i in range(45))


def test_json(jcache: Jcache, root: Path) -> None:
    """--json prints one document, with counts and bytes as integers, and every fact of each finding."""
    bad = damage(root)
    (root / key(99)).write_bytes(LEGACY)
    result = jcache("verify", "--json", "--root", root)
    value = result.json
    assert result.code == 1 and value["schema_version"] == 1 and value["clean"] is False
    counts = ("entries", "bytes", "checked_entries", "checked_bytes", "unchanged_entries", "rewritten_entries")
    assert all(type(value[name]) is int for name in (*counts, "being_written")) and value["entries"] == 12
    (finding,) = value["findings"]
    assert finding["damage"] in set(Damage) and finding["remedy"] in {r.replace(" ", "_") for r in Remedy}
    assert (finding["kind"], finding["key"]) == ("executables", bad)
    assert finding["path"] == str(root / f"{bad}-cache") and is_digest(finding["digest"])
    assert finding["expected_digest"] is None and finding["evidence"]
    assert [note["damage"] for note in value["notes"]] == ["legacy"]
    assert value["loads"] is None and value["repaired"] is None
    repaired = jcache("verify", "--repair", "--json", "--root", root).json
    assert repaired["repaired"] == {"quarantined": 1}
    assert repaired["findings"][0]["outcome"] == "quarantined" and repaired["findings"][0]["quarantine_id"]
    clean = jcache("verify", "--json", "--root", root)
    assert clean.code == 0 and clean.json["clean"] is True and clean.json["unchanged_entries"] == 11


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


@pytest.mark.smoke
@pytest.mark.jax
def test_load(jcache: Jcache, jax_cache: Path, tmp_path: Path) -> None:
    """--load loads executables with the jaxlib here; those for a GPU cannot load here, which is no finding."""
    cache = tmp_path / "cache"
    cache.mkdir()
    shutil.copy2(next(jax_cache.glob("jit_train-*-cache")), cache)
    shutil.copy2(next((Path(__file__).parent.parent / "data" / "h200").glob("jit_stage-*-cache")), cache)
    result = jcache("verify", "--load", "--root", cache)
    assert result.code == 0, result
    assert "Loaded: 1 load here, 1 not loadable here" in result.out
    value = jcache("verify", "--load", "--json", "--root", cache).json
    assert (value["loads"]["loads"], value["loads"]["elsewhere"], value["loads"]["crashed"]) == (1, 1, 0)
    assert {entry["loading"] for entry in value["loads"]["entries"]} == {"loads", "elsewhere"}


def test_repair_tells_what_it_did(jcache: Jcache, root: Path) -> None:
    """The table shows what was done; a young file is left alone, with the reason and exit 1, until it is old enough."""
    damage(root)
    result = jcache("verify", "--repair", "--root", root)
    assert result.code == 0 and "quarantined" in result.out and "jcache quarantine list" in result.out
    add(root, key(2), SOUND[:-5])
    left = jcache("verify", "--repair", "--root", root)
    assert left.code == 1 and "left" in left.out and (root / f"{key(2)}-cache").exists()
    assert jcache("verify", "--repair", "--grace", "0s", "--root", root).code == 0
    assert jcache("verify", "--root", root).code == 0


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


def test_names_of_any_bytes(jcache: Jcache, root: Path) -> None:
    """Names of other alphabets, with markup, or no text at all, do not disturb a report."""
    for name in ("jit_größe", "jit_[bold]x", "jit_ x"):
        add(root, key(7, name), b"junk", written_ns=OLD)
    (root / os.fsdecode(b"odd\xff-cache")).touch()
    for option in ("-v", "--json", "--ndjson"):
        env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        result = jcache("verify", option, "--root", root, env=env)
        assert result.code == 1 and "[bold]x" in result.out


@pytest.mark.jax
def test_a_function_with_another_alphabets_name_is_sound(jcache: Jcache, tmp_path: Path) -> None:
    """An entry that JAX has just written has no finding, whatever characters the function's name has."""
    code = "import jax, jax.numpy as jnp\n@jax.jit\ndef größe(x): return x + 1\ngröße(jnp.ones(3))"
    env = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "c"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    assert call([sys.executable, "-c", code], env=env | {"PYTHONUTF8": "1"}).code == 0
    assert any("größe" in name for name in os.listdir(tmp_path / "c")) and PROGRAM.exists()
    assert jcache("verify", "--root", tmp_path / "c").code == 0
