"""`jcache prune`, `clear`, `pin` and `unpin`."""

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.command_line import LEGACY, Jcache, clean_environment, entry_files, keys
from tests.helpers.entries import DAY
from tests.helpers.waiting import LIMIT_S

POLICIES = [
    ["--max-size", "50k"],
    ["--max-entries", "5"],
    ["--keep-last", "3"],
    ["--older-than", "6d"],
    ["--max-size", "60KB", "--order", "cost"],
    ["--max-size", "0", "--keep-last", "4"],
    ["--legacy"],
]


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


def test_prune_says_what_it_kept_and_why(jcache: Jcache, cache: Path) -> None:
    """The report counts removed and kept entries, with the reasons."""
    jcache("pin", "jit_train", "--root", cache)
    out = jcache("prune", "--root", cache, "--max-entries", "4").out
    assert "Removed" in out and "over the bound" in out
    assert "1 pinned" in out and "3 within the bounds" in out
    assert len(keys(cache)) == 4


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


def test_clear_needs_yes_where_nobody_can_be_asked(jcache: Jcache, cache: Path) -> None:
    """Off a terminal, clear without --yes is a usage error that removes nothing."""
    before = keys(cache)
    result = jcache("clear", "--root", cache)
    assert result.code == 2 and "--yes" in result.err and keys(cache) == before


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, True), ("\n", 1, True), ("y\n", 0, False)])
def test_clear_asks_on_a_terminal(cache: Path, answer: str, code: int, left: bool) -> None:
    """On a terminal, clear asks, and any answer but yes means no."""
    primary, secondary = pty.openpty()
    command = [sys.executable, "-m", "jcache", "clear", "--root", str(cache)]
    process = subprocess.Popen(command, stdin=secondary, stdout=secondary, stderr=secondary, env=clean_environment())
    os.close(secondary)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(primary, 1024)
    os.write(primary, answer.encode())
    assert process.wait(LIMIT_S) == code
    os.close(primary)
    assert bool(keys(cache)) is left


def test_clear_takes_a_kind(jcache: Jcache, cache: Path) -> None:
    """A kind limits which entries are cleared."""
    before = keys(cache)
    assert jcache("clear", "traces", "graphs", "--yes", "--root", cache).code == 0
    assert keys(cache) == before
    assert jcache("clear", "executables", "--yes", "--root", cache).code == 0
    assert not keys(cache)


def test_pins_outlive_prune_and_clear_until_unpinned(jcache: Jcache, cache: Path) -> None:
    """Pinned entries stay, and ls and show say so; once unpinned, they are removed."""
    key = next(k for k in keys(cache) if k.startswith("jit_train-"))
    assert jcache("pin", "jit_train", "--root", cache).out.split() == ["pinned", key]
    before = keys(cache)
    refused = jcache("prune", "--max-size", "0", "--root", cache)
    assert refused.code == 3 and "--max-size 0 B cannot be reached: pinned entries, and those" in refused.err
    assert keys(cache) == before
    jcache("prune", "--keep-last", "0", "--root", cache)
    jcache("clear", "--yes", "--root", cache)
    assert keys(cache) == {key}
    assert jcache("ls", "--json", "--root", cache).json["entries"][0]["pinned"] is True
    assert jcache("unpin", key, "--root", cache).code == 0
    assert jcache("clear", "--yes", "--root", cache).code == 0
    assert not keys(cache)


def test_a_pin_is_unpinned_whose_entry_is_gone(jcache: Jcache, cache: Path) -> None:
    """A pin whose entry is gone is unpinned by a prefix of its key; such pins do not count as entries."""
    key = next(k for k in keys(cache) if k.startswith("jit_train-"))
    for prefix in (key, "jit_train", key.partition("-")[2][:12]):
        (cache / f"{key}-cache").touch()
        jcache("pin", *keys(cache), "--root", cache)
        counted = jcache("info", "--json", "--root", cache).json["kinds"]["executables"]
        assert counted["pinned"] == counted["entries"] == len(keys(cache))
        (cache / f"{key}-cache").unlink()
        assert jcache("info", "--json", "--root", cache).json["kinds"]["executables"]["pinned"] == len(keys(cache))
        assert jcache("unpin", prefix, "--root", cache).out.split() == ["unpinned", key]
        again = jcache("unpin", prefix, "--root", cache)
        assert again.code == 1 and "No entry" in again.err
    assert jcache("unpin", "jit", "--root", cache).code == 1  # which is the beginning of several pins


def test_what_is_not_known_to_be_pinned_is_said(jcache: Jcache, cache: Path) -> None:
    """If pins are unknown, `show`, `ls`, `info` and `verify` say so, and not that nothing is pinned."""
    jcache("pin", "jit_train", "--root", cache)
    shutil.rmtree(cache / ".jcache" / "pins")  # as if an older jcache had pinned it
    (cache / ".jcache" / "ledger.sqlite3").write_bytes(b"damaged" * 1000)
    shown = jcache("show", "jit_train", "--root", cache)
    assert re.search(r"^pinned +unknown$", shown.out, re.MULTILINE)
    assert jcache("show", "jit_train", "--root", cache, "--json").json["pinned"] is None
    assert {one["pinned"] for one in jcache("ls", "--root", cache, "--json").json["entries"]} == {None}
    told = jcache("info", "--root", cache, "--json").json
    assert told["kinds"]["executables"]["pinned"] is None
    assert told["health"].startswith(
        "it is unknown which entries are pinned, so none is removed; `jcache verify --root "
    )
    for mend in ([], ["--repair"], []):
        verified = jcache("verify", *mend, "--json", "--root", cache)
        assert verified.code == 1 and "pins" in {one["damage"] for one in verified.json["findings"]}
        assert not jcache("info", "--root", cache, "--json").json["health"].startswith("ok")
    assert jcache("unpin", "--all", "--root", cache).code == 0
    assert jcache("verify", "--root", cache).code == 0
    assert jcache("info", "--root", cache, "--json").json["health"].startswith("ok")


def test_pinning_what_is_not_there_is_partly_done(jcache: Jcache, cache: Path) -> None:
    """Some keys known and some not is exit 3; none known is exit 1."""
    assert jcache("pin", "jit_train", "jit_nothing", "--root", cache).code == 3
    assert jcache("pin", "jit_nothing", "--root", cache).code == 1


def test_what_the_ledger_knew_goes_with_the_entry(jcache: Jcache, cache: Path) -> None:
    """An entry that comes back after it was pinned and cleared by hand is a new one only if jcache removed it."""
    jcache("pin", "jit_train", "--root", cache)
    saved = {p.name: p.read_bytes() for p in cache.glob("jit_train-*-cache")}
    jcache("unpin", "jit_train", "--root", cache)
    jcache("clear", "--yes", "--root", cache)
    for name, data in saved.items():
        (cache / name).write_bytes(data)
    assert jcache("show", "jit_train", "--root", cache, "--json").json["ledger"] == {}
