"""What lies beside the entries, in groups."""

from pathlib import Path

from jcache.admin.api import info
from jcache.layout import Kind, Root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.command_line import LEGACY, Jcache, entry_files
from tests.helpers.entries import NOW, add, executable, key


def test_a_mixed_directory_is_counted_part_by_part(jcache: Jcache, cache: Path) -> None:
    """Legacy entries, XLA's sub-caches, orphaned sidecars, temporary and foreign files each have their line."""
    entries = len(entry_files(cache))
    sidecars = len(list(cache.glob("*-atime")))  # old JAX writes one to every cache
    (cache / ("jit_old-" + "0" * 64)).write_bytes(LEGACY)
    (cache / ("1" * 64)).write_bytes(LEGACY)
    (cache / ("sha256-" + "3" * 64)).write_bytes(b"a layer of an image")
    (cache / "xla_gpu_per_fusion_autotune_cache_dir" / "hash").mkdir(parents=True)
    (cache / "xla_gpu_per_fusion_autotune_cache_dir" / "hash" / "a.pb").write_bytes(b"x" * 30)
    (cache / "xla_gpu_kernel_cache_file").write_bytes(b"x" * 40)
    (cache / ("jit_gone-" + "2" * 64 + "-atime")).write_bytes(b"x" * 8)
    (cache / "_temp_jit_half").write_bytes(b"x" * 50)
    (cache / "notes.txt").write_bytes(b"x" * 60)
    info = jcache("info", "--root", cache, "--json").json
    found = {name: (group["files"], group["bytes"]) for name, group in info["neighbours"].items()}
    assert found == {
        "autotune": (1, 30),
        "kernels": (1, 40),
        "legacy": (2, 2 * len(LEGACY)),
        "sidecars": (sidecars, 8 * sidecars),
        "orphans": (1, 8),
        "temporary": (1, 50),
        "unknown": (2, 79),
        "quarantine": (0, 0),
        "state": (0, 0),
    }
    assert info["neighbours"]["unknown"]["names"] == ["notes.txt", "sha256-" + "3" * 64]
    assert info["kinds"]["executables"]["entries"] == entries
    text = jcache("info", "--root", cache).out
    assert "notes.txt" in text and "XLA autotune" in text and "--legacy" in text


def test_what_lies_beside_the_executables_of_a_root_is_told(native: Root, plain: Root) -> None:
    """JAX by itself stores in a root's directory if that is its cache directory; jcache does not look there."""
    for root in (native, plain):
        add(root.directory(Kind.EXECUTABLES), key(1), executable(), written_ns=NOW)
        assert info(root.path).health.startswith("ok")
        add(root.path, key(2), executable(), used_ns=NOW)
        add(root.path, key(3), executable(), used_ns=NOW)
    health = info(native.path).health
    assert (
        health.startswith(f"2 executables lie in {native.path} itself") and f"jcache env --root {native.path}" in health
    )
    assert info(plain.path).health.startswith("ok")
    with Store(native) as store:
        assert not verify(store, VerifyRequest(grace_ns=0)).findings
        assert [notice for notice in store.notices if "2 executables lie in" in notice]
    (native.directory(Kind.EXECUTABLES) / "mine-cache").touch()
    assert info(native.path).health.startswith("'mine-cache' is no entry")
