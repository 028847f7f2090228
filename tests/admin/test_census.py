"""A root in numbers."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from jcache.admin.census import Census, KindCensus, take_census
from jcache.admin.neighbour_groups import Group
from jcache.errors import CannotWrite
from jcache.formats.envelope import Codec
from jcache.layout import Kind, Root
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.entries import DAY, NOW, add, digits, executable, key, tree

AUTOTUNE = "xla_gpu_per_fusion_autotune_cache_dir"


def census(root: Root, **environment: str) -> Census:
    with Store(root) as store:
        return take_census(store, environment)


def jax_0_4_14(directory: Path) -> None:
    """jax 0.4.14 to 0.4.16: no name, no suffix."""
    (directory / digits(1)).write_bytes(executable(1, Codec.ZLIB))
    (directory / digits(2)).write_bytes(executable(2))
    (directory / f"_temp_{digits(3)}").write_bytes(b"half")


def jax_0_4_29(directory: Path) -> None:
    """jax 0.4.17 to 0.4.30: a name, no suffix."""
    (directory / key(4)).write_bytes(executable(1))
    (directory / key(5)).write_bytes(executable(1, Codec.ZLIB))
    (directory / f"_temp_{key(6)}").write_bytes(b"half")


def jax_0_5_0(directory: Path) -> None:
    """jax 0.4.31 to 0.5.0: a suffix, always a sidecar, and the lock."""
    for i in (7, 8):
        add(directory, key(i), executable(i), used_ns=NOW + i)
    (directory / ".lockfile").touch()


def jax_0_5_1(directory: Path) -> None:
    """jax 0.5.1 on without a bound: no sidecar; and XLA's sub-caches."""
    for i in (9, 10):
        add(directory, key(i), executable(i, Codec.ZLIB), written_ns=NOW - i)
    (directory / AUTOTUNE / "a1b2").mkdir(parents=True)
    (directory / AUTOTUNE / "a1b2" / "x.pb").write_bytes(b"12345")
    (directory / AUTOTUNE / "y.pb").write_bytes(b"1")
    (directory / "xla_gpu_kernel_cache_file").write_bytes(b"123")


LAYOUTS = [jax_0_4_14, jax_0_4_29, jax_0_5_0, jax_0_5_1]


def bytes_of(directory: Path) -> int:
    return sum(p.lstat().st_size for p in directory.rglob("*") if p.is_file() and not p.is_symlink())


def parts(counted: Census) -> int:
    """Bytes of the kinds and neighbours together."""
    return sum(k.bytes for k in counted.kinds.values()) + sum(g.bytes for g in counted.neighbours.values())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_jax_s_directory(plain: Root, layout: Callable[[Path], None]) -> None:
    """The files of any jax since 0.4.14 are a root, and its total is the size of all of them."""
    layout(plain.path)
    assert open_root(plain.path) == plain
    assert census(plain).total_bytes == bytes_of(plain.path)


@pytest.mark.usefixtures("access_times_kept")
def test_all_of_them_mixed(plain: Root) -> None:
    """Each number is exact, even with mixed layouts, codecs, sidecars and foreign files."""
    for layout in LAYOUTS:
        layout(plain.path)
    (plain.path / "notes.txt").write_text("mine")
    (plain.path / "model-cache").write_bytes(b"12")
    (plain.path / "models").mkdir()
    (plain.path / "models" / "large").write_bytes(b"x" * 1000)
    (plain.path / f"{key(20)}-atime").write_bytes(b"12345678")
    (plain.path / ".jcache").mkdir()
    (plain.path / ".jcache" / "history").write_bytes(b"1234567")
    sizes = {i: len(executable(i)) for i in (7, 8)} | {i: len(executable(i, Codec.ZLIB)) for i in (9, 10)}
    counted = census(plain)
    assert counted.kinds == {
        Kind.EXECUTABLES: KindCensus(4, sum(sizes.values()), 2, NOW - 10, NOW + 8, 0, None),
        Kind.TRACES: KindCensus(0, 0, 0, None, None, 0, None),
        Kind.GRAPHS: KindCensus(0, 0, 0, None, None, 0, None),
    }
    legacy = sum((plain.path / name).stat().st_size for name in (digits(1), digits(2), key(4), key(5)))
    assert counted.neighbours == {
        "autotune": Group(2, 6, (AUTOTUNE,)),
        "kernels": Group(1, 3, ("xla_gpu_kernel_cache_file",)),
        "legacy": Group(4, legacy, tuple(sorted([digits(1), digits(2), key(4), key(5)]))),
        "sidecars": Group(2, 16),
        "orphans": Group(1, 8, (f"{key(20)}-atime",)),
        "temporary": Group(2, 8, tuple(sorted([f"_temp_{digits(3)}", f"_temp_{key(6)}"]))),
        "unknown": Group(3, 6, ("model-cache", "models", "notes.txt")),
        "quarantine": Group(),
        "state": Group(1, 7),
    }
    assert counted.total_bytes == parts(counted) == bytes_of(plain.path) - 1000


def test_kinds_of_a_plain_and_a_native_root(plain: Root, native: Root) -> None:
    """All three kinds are counted in both layouts; other files at the top of a native root are unknown."""
    for root in (plain, native):
        for n, kind in enumerate(Kind, 1):
            for i in range(n):
                add(root.directory(kind), key(i), 10 * n, used_ns=NOW + i)
        counted = census(root)
        assert [(c.entries, c.bytes, c.sidecars) for c in counted.kinds.values()] == [
            (1, 10, 1),
            (2, 40, 2),
            (3, 90, 3),
        ]
        assert counted.neighbours["unknown"] == Group()
    (native.path / "notes").write_bytes(b"123")
    add(native.path, key(5), 50)
    (native.path / "link").symlink_to("/")
    names = tuple(sorted(["notes", "link", f"{key(5)}-cache"], key=lambda n: (not n.endswith("-cache"), n)))
    assert census(native).neighbours["unknown"] == Group(3, 53, names)


def test_totals_are_sums(plain: Root, chance: random.Random) -> None:
    """The total is exactly the sum over kinds and neighbours, whatever the root contains."""
    (plain.path / "traces-v1").mkdir()
    names = ["-cache", "-atime", "", "-old", "-cache.bak"]
    for i in range(200):
        suffix = chance.choice(names)
        data = b"12345678" if suffix == "-atime" else b"x" * chance.randrange(1, 500)
        directory = chance.choice([plain.path, plain.path / "traces-v1"])
        (directory / (key(i % 60) + suffix)).write_bytes(data)
    counted = census(plain)
    assert counted.total_bytes == parts(counted) == bytes_of(plain.path)


def test_the_disk(plain: Root) -> None:
    """Free space is the part that the user may use; with the used part it adds up to the size that `df` shows."""
    counted = census(plain)
    assert counted.disk_bytes <= shutil.disk_usage(plain.path).total
    assert 0 < counted.disk_free_bytes <= counted.disk_bytes


@pytest.mark.parametrize(
    ("text", "cap"),
    [("", None), ("-1", None), ("0", 0), ("1000", 1000), ("1GB", None), ("٣", None), ("9" * 5000, None)],
)
def test_the_cap(plain: Root, text: str, cap: int | None) -> None:
    """JAX's own bound is the cap; -1 and texts that are no number mean no cap."""
    assert census(plain, JAX_COMPILATION_CACHE_MAX_SIZE=text).kinds[Kind.EXECUTABLES].cap == cap


def test_health(plain: Root) -> None:
    """One line names the most harmful problem and its command; without a problem it says that all is well."""
    add(plain.path, key(1))
    assert census(plain).health == "ok (never verified)"
    (plain.path / key(2)).write_bytes(executable())
    assert f"`jcache prune --legacy --root {plain.path}`" in census(plain).health
    for i in range(30):
        (plain.path / f"a file {i:02}").touch()
    (plain.path / "model-cache").touch()
    assert "'model-cache' is no entry" in census(plain).health
    bounded = census(plain, JAX_COMPILATION_CACHE_MAX_SIZE="1000")
    assert bounded.health.startswith("1 of 1 executables have no -atime")
    (plain.path / ".lockfile").touch()
    assert census(plain).health.startswith("1 of 1 executables have no -atime")


def test_what_vanishes_meanwhile(native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone between listing and stat is not counted, and is no failure."""
    (native.path / "gone").touch()
    real = os.scandir

    class Vanishing:
        def __init__(self, path: Path) -> None:
            self.items = list(real(path))

        def __enter__(self) -> "list[os.DirEntry[str]]":
            for item in self.items:
                if item.name == "gone":
                    os.unlink(item.path)
            return self.items

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Vanishing)
    assert census(native).neighbours["unknown"] == Group()


def test_a_census_is_frozen(plain: Root) -> None:
    """Neither the numbers nor the tables of a census can be changed."""
    counted = census(plain)
    for table in (counted.kinds, counted.neighbours):
        assert not hasattr(table, "__setitem__") and not hasattr(table, "clear")
    with pytest.raises(FrozenInstanceError):
        counted.total_bytes = 0  # type: ignore[misc]


def test_what_was_gone_on_without(plain: Root, tmp_path: Path) -> None:
    """A directory of entries that is a link is not counted, and a notice says so."""
    add(tmp_path / "elsewhere", key(1))
    plain.directory(Kind.GRAPHS).symlink_to(tmp_path / "elsewhere")
    counted = census(plain)
    assert counted.kinds[Kind.GRAPHS].entries == 0
    (notice,) = counted.notices
    assert "graphs-v1 is a symbolic link, which is not followed" in notice


def test_a_disk_that_does_not_answer(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system refuses to tell about the disk, `CannotWrite` names the directory and the reason."""

    def stale(_path: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(shutil, "disk_usage", stale)
    with pytest.raises(CannotWrite, match=rf"Cannot read {plain.path}: Stale file handle"):
        census(plain)


def test_counting_changes_nothing(plain: Root) -> None:
    """A census of a small root writes not a byte."""
    for layout in LAYOUTS:
        layout(plain.path)
    os.utime(plain.path, ns=(NOW - DAY, NOW - DAY))
    before = tree(plain.path.parent)
    census(plain)
    assert tree(plain.path.parent) == before
    assert os.stat(plain.path).st_mtime_ns == NOW - DAY
