"""`jcache pin` and `unpin`."""

import os
import re
import shutil
from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.store.ledger import Known, Ledger
from tests.helpers.command_line import Jcache, keys


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


@pytest.mark.full
def test_the_ledger_s_damage_is_told_and_pins_are_not_lost_silently(jcache: Jcache, cache: Path) -> None:
    """Pins are kept beside the ledger; while those that it held are not known, nothing is removed."""
    jcache("pin", "jit_train", "--root", cache)
    ledger = cache / ".jcache" / "ledger.sqlite3"
    Ledger(ledger).record([Known(Kind.EXECUTABLES, "jit_f-" + 64 * "0", seconds=1.0)])
    os.truncate(ledger, 5000)
    assert "damaged" in jcache("info", "--root", cache).err
    for _ in range(2):
        assert jcache("prune", "--keep-last", "0", "--root", cache).code == 0
        assert len(list(cache.glob("*-cache"))) == 1
    shutil.rmtree(cache / ".jcache" / "pins")  # as if an older jcache had pinned it
    for _ in range(2):
        refused = jcache("prune", "--keep-last", "0", "--root", cache)
        assert refused.code == 1 and "jcache unpin --all" in refused.err and len(list(cache.glob("*-cache"))) == 1
    assert jcache("unpin", "--all", "--root", cache).code == 0
    assert jcache("prune", "--keep-last", "0", "--root", cache).code == 0
    assert not list(cache.glob("*-cache"))
