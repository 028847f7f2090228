"""Records of runs and modules in a root: private, bounded, and never in the way."""

import os
from pathlib import Path

import pytest

from jcache.errors import InvalidValue
from jcache.layout import Root
from jcache.store import run_records
from jcache.store.run_records import (
    KEYS,
    MODULES,
    OFF,
    add_record,
    forget_records,
    read_module,
    read_records,
    record_mode,
    secret_of,
)
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify


def test_a_record_comes_back(native: Root) -> None:
    """Records come back, the oldest first, and a module by its hash; a later record of the same run replaces it."""
    add_record(native, "20260102T000000Z-b", {"run": 2}, {})
    add_record(native, "20260101T000000Z-a", {"run": 1}, {"ab12": b"module"})
    add_record(native, "20260102T000000Z-b", {"run": 3}, {"ab12": b"module"})
    assert read_records(native) == [{"run": 1}, {"run": 3}]
    assert read_module(native, "ab12") == b"module"
    assert read_module(native, "cd34") is None and read_module(native, "../records/secret") is None
    with Store(native) as store:
        assert not verify(store, VerifyRequest(grace_ns=0)).findings


def test_files_are_private(native: Root) -> None:
    """Records, modules and the secret can be read by their owner alone, whatever the umask is."""
    before = os.umask(0)
    try:
        add_record(native, "r", {}, {"ab": b""})
        secret_of(native)
    finally:
        os.umask(before)
    files = [path for path in (*native.records.iterdir(), *native.modules.iterdir()) if path.is_file()]
    assert len(files) == 3 and all(path.stat().st_mode & 0o777 == 0o600 for path in files)


def test_the_secret_stays(native: Root) -> None:
    """A root has one secret; a damaged one is replaced."""
    secret = secret_of(native)
    assert len(secret) == 32 and secret_of(native) == secret
    (native.records / "secret").write_bytes(b"short")
    assert len(secret_of(native)) == 32 and secret_of(native) != secret


def test_the_oldest_go(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound the modules that no recent run missed go first, and the secret never does."""
    monkeypatch.setattr(run_records, "_MAX_MODULES_BYTES", 2000)
    secret = secret_of(native)
    for number in range(5):
        add_record(native, f"run{number}", {}, {f"a{number}": os.urandom(600)})
        os.utime(native.modules / f"a{number}.zst", ns=(number, number))
    add_record(native, "again", {}, {"a2": b"is there", "b": os.urandom(600)})
    kept = {path.stem for path in native.modules.iterdir()}
    assert kept == {"a2", "b", "a4"}
    forget_records(native)
    assert read_records(native) == [] and not list(native.modules.iterdir()) and secret_of(native) == secret


def test_damage_is_passed_over(native: Root) -> None:
    """Damaged, huge and foreign files are no records, and no module."""
    add_record(native, "b", {"good": True}, {"ab": b"module"})
    (native.records / "a.zst").write_bytes(b"no zstd")
    (native.records / "c.zst").write_bytes((native.records / "b.zst").read_bytes()[:-3])
    (native.records / "d.zst").symlink_to(native.records / "b.zst")
    (native.records / "e.zst").mkdir()
    (native.modules / "ab.zst").write_bytes(b"no zstd")
    assert read_records(native) == [{"good": True}]
    assert read_module(native, "ab") is None


@pytest.mark.parametrize("name", ["records", "modules"])
def test_a_link_is_not_followed(native: Root, beyond: Path, name: str) -> None:
    """Where a directory of the state is a link, nothing is written through it."""
    native.state.mkdir(exist_ok=True)
    before = sorted(beyond.rglob("*"))
    (native.state / name).symlink_to(beyond)
    with pytest.raises(OSError, match=r"."):
        add_record(native, "r", {}, {"ab": b""})
    assert sorted(beyond.rglob("*")) == before


def test_the_mode(native: Root) -> None:
    """Modules are kept on a local file system unless the variable says otherwise; another value is refused."""
    assert record_mode(native, {}) in (KEYS, MODULES)
    for mode in (OFF, KEYS, MODULES):
        assert record_mode(native, {"JCACHE_RECORD": mode}) == mode
    with pytest.raises(InvalidValue, match="JCACHE_RECORD is 'all': set off, keys or modules, or unset it"):
        record_mode(native, {"JCACHE_RECORD": "all"})
