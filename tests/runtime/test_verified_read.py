"""No changed, torn or foreign entry is served, and a sound one is on record after its first read."""

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.runtime.events import EventKind
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.ledger import UNVERIFIED
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from tests.helpers.entries import add, key
from tests.helpers.executable_caches import DATA, OTHER, Caches, age, change, entry_of
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture
from tests.helpers.waiting import tick


def copied(root: Root, to: Path) -> Root:
    """A copy of a root as ``cp -a`` makes it."""
    subprocess.run(["cp", "-a", str(root.path), str(to)], check=True)
    return open_root(to)


@pytest.mark.parametrize("known", [True, False], ids=["by this process", "by the ledger"])
@pytest.mark.parametrize("position", [0, 5, len(DATA) // 2, -1])
def test_a_changed_entry_is_not_served(native: Root, caches: Caches, known: bool, position: int) -> None:
    """An entry with a flipped bit is a miss and goes to quarantine, and the put in the same call stores it again."""
    cache = caches(native)
    cache.put(key(1), DATA)
    if not known:
        cache.close()
        cache = caches(native)
    change(entry_of(native, key(1)), position)
    assert cache.get(key(1)) is None
    (record,) = Quarantine(native).records()
    assert record.key == key(1)
    cache.put(key(1), OTHER)
    assert cache.get(key(1)) == caches(native).get(key(1)) == OTHER
    assert caches.count(cache, EventKind.DAMAGED) == 1
    assert len(caches.said) == 1 and "quarantine" in caches.said[0]


@pytest.mark.parametrize("data", [b"", DATA[:3], DATA[:-1], DATA + b"x", b"garbage"])
def test_a_torn_entry_of_jax_is_not_served(native: Root, caches: Caches, data: bytes) -> None:
    """An unknown one goes to quarantine when it is old; a young one may be in the making, and is only a miss."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), data)
    cache = caches(native)
    assert cache.get(key(1)) is None and path.exists() and caches.said == []
    age(path)
    assert cache.get(key(1)) is None and not path.exists()
    assert caches.count(cache, EventKind.DAMAGED) == 1
    path.write_bytes(DATA)
    assert cache.get(key(1)) == DATA


@pytest.mark.parametrize("platforms", [None, {"cpu"}, {"cpu", "tpu"}])
def test_random_bytes_in_a_sound_frame_are_not_served(native: Root, platforms: set[str] | None) -> None:
    """Random bytes go to quarantine, unless the program has a device whose programs jcache cannot read."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), pack_executable(os.urandom(999), 1, Codec.ZSTD))
    age(path)
    known = None if platforms is None else frozenset(platforms)
    cache = ExecutableCache(native, warn=lambda _: None, platforms=lambda: known)
    served = cache.get(key(1)) is not None
    assert served == path.exists() == ("tpu" in (platforms or ()))
    cache.close()


def test_what_was_seen_once_is_on_record(plain: Root, caches: Caches) -> None:
    """An entry that JAX wrote is recorded at the first hit, so that a change of it is found by another process."""
    path = add(plain.directory(Kind.EXECUTABLES), key(1), DATA)
    cache = caches(plain)
    assert cache.get(key(1)) == DATA
    cache.close()
    change(path)
    assert caches(plain).get(key(1)) is None


def test_an_entry_written_anew_is_served(plain: Root, caches: Caches) -> None:
    """JAX evicted it and compiled it again: other bytes under the same key are no damage."""
    cache = caches(plain)
    cache.put(key(1), DATA)
    tick()
    path = entry_of(plain, key(1))
    path.unlink()
    path.write_bytes(OTHER)
    assert cache.get(key(1)) == OTHER
    assert caches.count(cache, EventKind.DAMAGED) == 0


def test_another_process_replaced_it(native: Root, caches: Caches) -> None:
    """The ledger is asked again before bytes that this process does not know are called damaged."""
    cache, other = caches(native), caches(native)
    cache.put(key(1), DATA)
    cache.flush()
    entry_of(native, key(1)).unlink()
    other.put(key(1), OTHER)
    other.flush()
    assert cache.get(key(1)) == OTHER and caches.said == []


@pytest.mark.parametrize("before", [False, True], ids=["at once", "after a hit"])
@pytest.mark.parametrize("as_what", ["root", "read-only"])
def test_damage_in_a_copied_root(native: Root, caches: Caches, tmp_path: Path, before: bool, as_what: str) -> None:
    """The digests that were copied with the entries count for the copies: none that is changed there is served."""
    cache = caches(native)
    cache.put(key(1), DATA)
    cache.put(key(2), DATA)
    cache.close()
    there = copied(native, tmp_path / "copy")
    if before:
        reader = caches(there)
        assert reader.get(key(1)) == DATA
        reader.close()
    change(entry_of(there, key(1)))
    cache = caches(there) if as_what == "root" else caches(create_root(tmp_path / "mine"), read_only=[there])
    assert cache.get(key(1)) is None and cache.get(key(2)) == DATA
    assert len(caches.said) == 1 and "damaged" in caches.said[0]


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_an_entry_of_another_program_is_not_served(native: Root, caches: Caches, cpu_entries: JaxEntries) -> None:
    """At the first read, the module's name is compared with the key, as in `jcache verify`."""
    (native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache").write_bytes(cpu_entries.bytes("jit_named_step"))
    age(entry_of(native, key(1)))
    cache = caches(native)
    assert cache.get(key(1)) is None
    assert "jit_named_step" in caches.said[0]


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
@pytest.mark.parametrize("how", ["imported", "copied with the root"])
def test_a_digest_from_elsewhere_says_nothing(
    how: str, native: Root, caches: Caches, cpu_entries: JaxEntries, tmp_path: Path
) -> None:
    """Bytes of another program under a key are not served, even with their digest; right ones are checked
    once and served.
    """
    (right,) = cpu_entries.directory.glob("jit_named_step-*-cache")
    forged = "jit_another-" + "0" * 64
    with closing(Store(native)) as store:
        for name in (right.name.removesuffix("-cache"), forged):
            store.put(Kind.EXECUTABLES, name, right.read_bytes())
    for path in native.directory(Kind.EXECUTABLES).glob("*-cache"):
        age(path)
    if how == "imported":
        with closing(Store(native)) as store:
            known = store.ledger.known(Kind.EXECUTABLES)
            store.ledger.record([each._replace(checks=UNVERIFIED) for each in known.values()])
    root = native if how == "imported" else copied(native, tmp_path / "copy")
    for _ in range(2):
        cache = caches(root)
        assert cache.get(right.name.removesuffix("-cache")) == right.read_bytes()
        assert cache.get(forged) is None
        cache.close()
        assert len(caches.said) == 1 and "jit_named_step" in caches.said[0]
    with closing(Store(root)) as store:
        (left,) = store.ledger.known(Kind.EXECUTABLES, [right.name.removesuffix("-cache")]).values()
        assert left.checks == CHECKS_VERSION and left.origin == "put"
