"""`jcache ls`."""

from pathlib import Path

import pytest

from tests.helpers.command_line import LEGACY, Jcache, entry_files, keys
from tests.helpers.entries import key as key_of


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
        "name~^jit_[pt]",
        "--filter",
        "used<1y",
        "--filter",
        "kind=executables",
    ]
    large = [name.removesuffix("-cache") for name, size in sizes.items() if size >= limit]
    wanted = {name for name in large if name.startswith(("jit_p", "jit_t"))}
    assert wanted and set(jcache("ls", "-q", "--root", jax_cache, *arguments).out.splitlines()) == wanted


def test_ls_without_a_match_says_so_on_stderr(jcache: Jcache, jax_cache: Path) -> None:
    """A list without entries is a success, with a message on stderr."""
    result = jcache("ls", "--root", jax_cache, "--kind", "graphs")
    assert (result.code, result.out) == (0, "") and "No entries" in result.err


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
