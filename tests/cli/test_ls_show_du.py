"""`jcache ls`, `show` and `du`."""

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from jcache.formats import envelope
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, header_length, seal
from jcache.formats.executable import pack_executable, unpack_executable
from jcache.layout import Kind, Root
from jcache.units import format_size
from tests.helpers.command_line import H200, LEGACY, PROGRAM, Jcache, entry_files, keys
from tests.helpers.entries import add, key as key_of
from tests.helpers.terminals import WIDTHS, Terminal


def test_ls_json_describes_every_entry(jcache: Jcache, jax_cache: Path) -> None:
    """`ls --json` gives key, kind, name, bytes, recency, seconds and pin of each entry."""
    listed = jcache("ls", "--root", jax_cache, "--json").json
    sizes = entry_files(jax_cache)
    assert listed["schema_version"] == 2
    assert {e["key"] + "-cache": e["bytes"] for e in listed["entries"]} == sizes
    for entry in listed["entries"]:
        assert entry["kind"] == "executables"
        assert entry["key"].startswith(entry["name"] + "-")
        assert entry["recency"].endswith("Z")
        assert entry["build_seconds"] >= 0 and isinstance(entry["build_seconds"], float)
        assert entry["pinned"] is False


def test_ls_quiet_prints_full_keys_only(jcache: Jcache, jax_cache: Path) -> None:
    """`ls -q` is made for `$(…)`: full keys, one a line."""
    assert set(jcache("ls", "-q", "--root", jax_cache).out.splitlines()) == keys(jax_cache)


@pytest.mark.parametrize("sort", ["size", "age", "used", "name", "kind", "seconds", "size:asc", "name:desc"])
def test_ls_sorts_alike_with_and_without_limit(jcache: Jcache, jax_cache: Path, sort: str) -> None:
    """A limit takes the first lines of the whole order."""
    everything = jcache("ls", "-q", "--root", jax_cache, "--sort", sort).out.splitlines()
    assert jcache("ls", "-q", "--root", jax_cache, "--sort", sort, "--limit", "4").out.splitlines() == everything[:4]


def test_ls_sorts_by_size_largest_first(jcache: Jcache, jax_cache: Path) -> None:
    """Sizes descend unless a direction is given."""
    sizes = [e["bytes"] for e in jcache("ls", "--json", "--root", jax_cache, "--sort", "size").json["entries"]]
    assert sizes == sorted(sizes, reverse=True)


def test_ls_filters_are_all_to_hold(jcache: Jcache, jax_cache: Path) -> None:
    """Several filters select the entries that match all of them."""
    sizes = entry_files(jax_cache)
    limit = sorted(sizes.values())[len(sizes) // 2]
    arguments = [
        "--filter",
        f"size>={limit}",
        "--filter",
        "name~^jit__",
        "--filter",
        "used<1y",
        "--filter",
        "kind=executables",
    ]
    wanted = {n.removesuffix("-cache") for n, size in sizes.items() if size >= limit and n.startswith("jit__")}
    assert wanted and set(jcache("ls", "-q", "--root", jax_cache, *arguments).out.splitlines()) == wanted


def test_ls_without_a_match_says_so_on_stderr(jcache: Jcache, jax_cache: Path) -> None:
    """A list without entries is a success, with a message on stderr."""
    result = jcache("ls", "--root", jax_cache, "--kind", "graphs")
    assert (result.code, result.out) == (0, "") and "No entries" in result.err


def test_show_takes_any_unambiguous_prefix(jcache: Jcache, jax_cache: Path) -> None:
    """A key, its beginning, or the beginning of its hash identifies the entry."""
    key = next(k for k in keys(jax_cache) if k.startswith("jit_train-"))
    for prefix in (key, "jit_train", "jit_train-", key[:-50], key[len("jit_train-") :][:12]):
        assert jcache("show", prefix, "--root", jax_cache, "--json").json["key"] == key


def test_show_tells_what_the_entry_holds(jcache: Jcache, jax_cache: Path) -> None:
    """`show` names function, source line, shapes, platform, CPU, codec and digest."""
    shown = jcache("show", "jit_train", "--root", jax_cache, "--json").json
    content = shown["content"]
    assert content["module_name"] == "jit_train"
    assert content["source_file"] == str(PROGRAM)
    assert "lax.scan" in PROGRAM.read_text().splitlines()[content["source_line"] - 1]
    assert "f32[500]" in content["output_shapes"]
    assert content["platform"] == "cpu" and content["codec"] in ("zstd", "zlib")
    assert content["cpu_name"] or version("jaxlib").startswith("0.4.")  # whose entries do not tell
    assert shown["digest"] == digest(Path(shown["path"]).read_bytes()) and shown["digest_matches_ledger"] is None
    text = jcache("show", "jit_train", "--root", jax_cache).out
    assert f"{PROGRAM}:{content['source_line']}" in text and "f32[500]" in text


def test_show_of_a_gpu_entry(jcache: Jcache, tmp_path: Path) -> None:
    """`show` of a GPU entry prints platform, compute capability and toolkit; unknown facts are null."""
    for key in keys(H200):
        content = jcache("show", key, "--root", H200, "--json").json["content"]
        assert content["platform"] == "cuda" and content["compute_capability"] == "9.0"
        assert content["abi_version"]["toolkit"].startswith("13.")
        assert content["cpu_name"] is None
    assert not (H200 / ".jcache").exists()


def test_show_refuses_what_is_ambiguous_or_unknown(jcache: Jcache, jax_cache: Path) -> None:
    """A prefix of several entries, or of none, is an error that names the entries."""
    ambiguous = jcache("show", "jit_", "--root", jax_cache)
    assert ambiguous.code == 1 and "stands for" in ambiguous.err
    unknown = jcache("show", "jit_nothing", "--root", jax_cache)
    assert unknown.code == 1 and "jit_nothing" in unknown.err and "jcache ls" in unknown.err


def test_show_of_damage_says_what_is_wrong(jcache: Jcache, cache: Path) -> None:
    """A damaged entry is shown as far as it goes, with exit 1."""
    path = next(cache.glob("jit_train-*-cache"))
    path.write_bytes(path.read_bytes()[:-100])
    result = jcache("show", "jit_train", "--root", cache, "--json")
    assert result.code == 1 and json.loads(result.out)["damage"] and "jit_train" in result.err


def test_show_tells_a_digest_that_is_not_the_recorded_one(jcache: Jcache, tmp_path: Path) -> None:
    """`show` reports bytes that differ from the recorded digest, even if they decompress."""
    program = ["-c", "import jax; jax.jit(jax.numpy.sin)(1.0)"]
    jcache("run", "-q", "--root", tmp_path / "root", "--", sys.executable, *program)
    path = next((tmp_path / "root" / "executables").glob("jit_sin-*-cache"))
    assert "not the one on record" not in jcache("show", "jit_sin", "--root", tmp_path / "root").out
    found = unpack_executable(path.read_bytes())
    path.write_bytes(pack_executable(found.payload, found.seconds + 1, found.codec))
    assert "not the one on record" in jcache("show", "jit_sin", "--root", tmp_path / "root").out


@pytest.mark.parametrize(
    ("by", "name"), [("function", "jit_train"), ("kind", "executables"), ("jaxlib", "unknown"), ("run", "unknown")]
)
def test_du_adds_up(jcache: Jcache, jax_cache: Path, by: str, name: str) -> None:
    """The groups of `du` add up to all bytes."""
    du = jcache("du", "--root", jax_cache, "--by", by, "--json").json
    assert du["total_bytes"] == sum(g["bytes"] for g in du["groups"]) == sum(entry_files(jax_cache).values())
    assert name in [group["name"] for group in du["groups"]]


def test_du_sorts_and_limits(jcache: Jcache, jax_cache: Path) -> None:
    """`--sort` and `--limit` choose the groups, the total stays that of all, and a limit is told."""
    groups = jcache("du", "--root", jax_cache, "--json", "--sort", "name").json["groups"]
    assert [group["name"] for group in groups] == sorted(group["name"] for group in groups)
    by_entries = jcache("du", "--root", jax_cache, "--json", "--sort", "entries").json["groups"]
    entries = [group["entries"] for group in by_entries]
    assert entries == sorted(entries, reverse=True)
    limited = jcache("du", "--root", jax_cache, "--json", "--limit", "2").json
    assert len(limited["groups"]) == 2 and limited["total_bytes"] == sum(entry_files(jax_cache).values())
    shown = jcache("du", "--root", jax_cache, "--limit", "2", "--sort", "seconds").out
    assert f"first 2 of {len(groups):,} by seconds" in shown and re.search(r"jit_\w+ .* \d+\.\d\d s +0\n", shown)
    assert jcache("du", "--root", jax_cache, "--sort", "colour").code == 2


@pytest.mark.parametrize("columns", WIDTHS)
def test_du_on_a_terminal(jax_cache: Path, columns: int) -> None:
    """Lines fit, and numbers are whole at any width."""
    code, lines = Terminal("du", "--root", jax_cache, columns=columns).finish()
    assert code == 0 and max(map(len, lines)) <= columns
    assert all(line.split()[-1] == "0" for line in lines[2:] if line.startswith("jit_"))


def test_du_by_device_reads_the_entries(jcache: Jcache) -> None:
    """`du --by device` reads the devices from the entries."""
    groups = jcache("du", "--root", H200, "--by", "device", "--json").json["groups"]
    assert [group["name"] for group in groups] == ["cuda 9.0"]


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.NONE])
def test_show_measures_what_is_stored(jcache: Jcache, native: Root, codec: Codec) -> None:
    """The uncompressed size of a trace is that of the whole entry, of which the header is the larger part."""
    name = key_of(1, "step")
    data = sealed(name, bytes(50_000), codec)
    add(native.directory(Kind.TRACES), name, data)
    content = jcache("show", name, "--json", "--root", native.path).json["content"]
    assert content["stored_bytes"] == len(data) and content["payload_length"] == 50_000
    assert content["raw_bytes"] == header_length(data) + 50_000 > 100_000
    size = format_size(content["raw_bytes"])
    shown = jcache("show", name, "--root", native.path).out
    assert f"{format_size(len(data))} ({len(data):,}), {size} uncompressed ({codec})\n" in shown


@pytest.mark.parametrize("claimed", [0, 49_999, 1 << 40])
def test_show_believes_no_header(jcache: Jcache, native: Root, claimed: int) -> None:
    """A sealed header with a wrong size of the payload is damage, and no size is shown."""
    name = key_of(1, "step")
    with pytest.MonkeyPatch.context() as patch:
        real = envelope._length
        patch.setattr(envelope, "_length", lambda pieces: claimed if (n := real(pieces)) == 50_000 else n)
        data = sealed(name, bytes(50_000), Codec.ZSTD)
    add(native.directory(Kind.TRACES), name, data)
    result = jcache("show", name, "--root", native.path)
    assert result.code == 1 and "uncompressed" not in result.out and name in result.err


def sealed(name: str, payload: bytes, codec: Codec) -> bytes:
    parts = {f"array x{number}": "float32[3]" for number in range(2000)}
    return seal(
        payload, kind=Kind.TRACES, name="step", key=name, key_parts=parts, build_seconds=1.0, created_ns=1, codec=codec
    )


def test_nothing_is_read_of_a_legacy_entry(jcache: Jcache, tmp_path: Path) -> None:
    """A legacy entry is listed, counted and shown by its name and its size, whatever is inside."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for number, data in enumerate((LEGACY, LEGACY[:-6])):
        (cache / key_of(number)).write_bytes(data)
        shown = jcache("show", key_of(number), "--root", cache)
        assert shown.code == 0 and "legacy" in shown.out and f"{len(data)}" in shown.out, shown.err
        value = jcache("show", key_of(number), "--root", cache, "--json").json
        assert (value["digest"], value["damage"], value["content"]) == (None, None, {})
    listed = jcache("ls", "--legacy", "--json", "--root", cache).json["entries"]
    assert [one["build_seconds"] for one in listed] == [None, None]
    assert jcache("du", "--by", "device", "--json", "--root", cache).json["total_bytes"] == 2 * len(LEGACY) - 6
