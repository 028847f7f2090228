"""`jcache prune`."""

import os
import time
from pathlib import Path

import pytest

from tests.helpers.command_line import LEGACY, Jcache, entry_files, keys
from tests.helpers.entries import DAY


def spread_recency(cache: Path) -> list[str]:
    """Gives the entries different ages; returns the keys, least recently used first."""
    names = sorted(entry_files(cache))
    now = time.time_ns()
    for i, name in enumerate(names):
        moment = now - (len(names) - i) * DAY
        os.utime(cache / name, ns=(moment, moment))
        (cache / f"{name.removesuffix('-cache')}-atime").unlink(missing_ok=True)  # old JAX writes one to every cache
    return [name.removesuffix("-cache") for name in names]


def test_lru_victims_are_the_least_recently_used_prefix(jcache: Jcache, cache: Path) -> None:
    """Over a bound, exactly the necessary number of least recently used entries is removed."""
    order = spread_recency(cache)
    sizes = entry_files(cache)
    bound = sum(sizes.values()) // 2
    assert jcache("prune", "--root", cache, "--max-size", str(bound)).code == 0
    left = keys(cache)
    gone = [key for key in order if key not in left]
    assert gone == order[: len(gone)]
    assert sum(entry_files(cache).values()) <= bound < sum(entry_files(cache).values()) + sizes[gone[-1] + "-cache"]


def test_nothing_but_entries_and_sidecars_is_removed(jcache: Jcache, cache: Path) -> None:
    """Foreign files, directories and XLA's caches stay, except that --xla removes XLA's."""
    foreign = ["notes.txt", "model-cache", "x-cache/inner", "jit_a-" + "g" * 64 + "-cache"]
    for name in [*foreign, "xla_gpu_kernel_cache_file", "xla_gpu_per_fusion_autotune_cache_dir/h/a.pb"]:
        path = cache / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
    assert jcache("clear", "--yes", "--root", cache).code == 0
    assert not keys(cache) - {"model", "jit_a-" + "g" * 64}
    assert (cache / "xla_gpu_kernel_cache_file").exists()
    assert jcache("clear", "--yes", "--xla", "--root", cache, "--json").json["xla_bytes"] == 20
    assert not (cache / "xla_gpu_kernel_cache_file").exists()
    assert not (cache / "xla_gpu_per_fusion_autotune_cache_dir").exists()
    assert all((cache / name).read_bytes() == b"x" * 10 for name in foreign)


POLICIES = [
    ["--max-size", "15k"],
    ["--max-entries", "5"],
    ["--keep-last", "3"],
    ["--older-than", "6d"],
    ["--max-size", "18KB", "--order", "cost"],
    ["--max-size", "0", "--keep-last", "4"],
    ["--legacy"],
]


@pytest.mark.parametrize("policy", POLICIES, ids=" ".join)
def test_a_dry_run_prints_the_plan_that_is_then_executed(jcache: Jcache, cache: Path, policy: list[str]) -> None:
    """`--dry-run` changes nothing and lists exactly the entries that the real run removes; a second plan is empty."""
    spread_recency(cache)
    (cache / ("jit_old-" + "0" * 64)).write_bytes(LEGACY)
    before = sorted(p.name for p in cache.iterdir())
    planned = jcache("prune", "--root", cache, "--dry-run", "--json", *policy).json
    assert sorted(p.name for p in cache.iterdir()) == before
    size = jcache("info", "--root", cache, "--json").json["total_bytes"]
    done = jcache("prune", "--root", cache, "--json", *policy).json
    for same in ("removed", "removed_entries", "freed_bytes", "kept", "kept_entries", "failed"):
        assert done[same] == planned[same], same
    assert done["removed_entries"] > 0
    after = jcache("info", "--root", cache, "--json").json
    made = after["neighbours"]["sidecars"]["bytes"] + after["neighbours"]["state"]["bytes"]
    assert size - (after["total_bytes"] - made) == done["freed_bytes"]
    assert jcache("prune", "--root", cache, "--json", *policy).json["removed_entries"] == 0
