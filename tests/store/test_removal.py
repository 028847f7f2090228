"""Taking entries out, one by one."""

import os
from pathlib import Path

import pytest

from jcache.entry import Entry
from jcache.layout import Kind, Root
from jcache.store import file_tree, files
from jcache.store.directories import Directories, opened
from jcache.store.policy import Plan, Reason, Verdict, Verdicts
from jcache.store.removal import Removal, foresee, removing, set_aside_xla, unlink, xla_size
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, digits, key


def listed(number: int, *, sidecar: bool = True, legacy: bool = False) -> Entry:
    a_key = digits(number) if legacy else key(number)
    return Entry(Kind.EXECUTABLES, a_key, 100, NOW, NOW, sidecar, legacy)


def run(root: Root, *victims: Verdict, pins: set[tuple[Kind, str]] | None = None) -> Removal:
    removal = Removal(Verdicts.of(victims))
    assert len(list(removing(root, enumerate(victims), removal, pins or set()))) == len(victims)
    return removal


def test_the_entry_goes_before_its_sidecar(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry is ever without its sidecar during a removal, since that would stop a bounded JAX."""
    add(plain.path, key(1), used_ns=NOW)
    order: list[str] = []
    real = files.remove

    def remove(name: str, *, directory: int) -> int | None:
        order.append(name[-6:])
        return real(name, directory=directory)

    monkeypatch.setattr(files, "remove", remove)
    with Directories(plain) as directories:
        assert unlink(plain, listed(1), directories) == 108
    assert order == ["-cache", "-atime"]


def test_a_legacy_entry_has_no_sidecar(plain: Root) -> None:
    """Its one file goes, and nothing of the same key with a suffix."""
    (plain.path / digits(1)).write_bytes(b"123")
    (plain.path / f"{digits(1)}-atime").write_bytes(b"foreign")
    with Directories(plain) as directories:
        assert unlink(plain, listed(1, legacy=True), directories) == 3
    assert [p.name for p in plain.path.iterdir()] == [f"{digits(1)}-atime"]


def test_what_is_already_gone(plain: Root) -> None:
    """A missing entry is distinguished from an empty one, and its leftover sidecar is removed."""
    (plain.path / f"{key(1)}-atime").write_bytes(b"12345678")
    add(plain.path, key(2), 0)
    removal = run(plain, *(Verdict(listed(i), Reason.CLEARED) for i in (1, 2)))
    assert [e.key for e in removal.gone] == [key(1)]
    assert [e.key for e in removal.removed] == [key(2)]
    assert removal.bytes == 0
    assert list(plain.path.iterdir()) == []


def test_a_sidecar_that_is_no_file(plain: Root) -> None:
    """If the sidecar is a directory, the entry is still removed."""
    add(plain.path, key(1))
    (plain.path / f"{key(1)}-atime").mkdir()
    removal = run(plain, Verdict(listed(1), Reason.SPACE))
    assert [e.key for e in removal.removed] == [key(1)]
    assert removal.bytes == 100


@pytest.mark.parametrize("reason", Reason)
def test_use_since_the_plan_saves_an_entry(plain: Root, reason: Reason) -> None:
    """Unless it is cleared or named, or legacy: no later JAX uses that."""
    add(plain.path, key(1), used_ns=NOW + 1)
    removal = run(plain, Verdict(listed(1), reason))
    saved = reason not in (Reason.CLEARED, Reason.LEGACY, Reason.NAMED)
    assert [v.reason for v in removal.kept] == ([Reason.USED_MEANWHILE] if saved else [])
    assert (plain.path / f"{key(1)}-cache").exists() is saved


def test_a_damaged_sidecar_is_no_use(plain: Root) -> None:
    """Bytes that are no time do not keep an entry for ever."""
    add(plain.path, key(1))
    (plain.path / f"{key(1)}-atime").write_bytes(b"\xff" * 8)
    assert run(plain, Verdict(listed(1), Reason.AGE)).removed


def test_a_pin_since_the_plan_saves_an_entry(plain: Root) -> None:
    """A pin made after the plan saves an entry of that kind, unless the plan knew the pin."""
    for i in (1, 2, 3):
        add(plain.path, key(i), used_ns=NOW)
    pins = {(Kind.EXECUTABLES, key(1)), (Kind.TRACES, key(2)), (Kind.EXECUTABLES, key(3))}
    victims = [listed(1), listed(2), listed(3)._replace(pinned=True)]
    removal = run(plain, *(Verdict(entry, Reason.CLEARED) for entry in victims), pins=pins)
    assert [(v.entry.key, v.entry.pinned, v.reason) for v in removal.kept] == [(key(1), True, Reason.PINNED)]


@pytest.mark.parametrize("spared_by", ["use", "pin", "failure", "nothing"])
def test_what_goes_with_a_trace_stays_with_it(plain: Root, monkeypatch: pytest.MonkeyPatch, spared_by: str) -> None:
    """If a trace was used or pinned after the plan, or cannot be removed, its program stays as well."""
    for i in (1, 2):
        add(plain.path, key(i), used_ns=NOW + (spared_by == "use" and i == 1))
    if spared_by == "failure":
        monkeypatch.setattr("jcache.store.removal.unlink", lambda *_: Path("/proc/1/no such").stat())
    victims = [Verdict(listed(1), Reason.SPACE), Verdict(listed(2), Reason.WITH_TRACE)]
    removal = Removal(Verdicts.of(victims))
    pins = {(Kind.EXECUTABLES, key(1))} if spared_by == "pin" else set()
    assert len(list(removing(plain, enumerate(victims), removal, pins, {key(2): key(1)}))) == 2
    assert (plain.path / f"{key(2)}-cache").exists() is (spared_by != "nothing")
    assert [v.reason for v in removal.kept if v.entry.key == key(2)] == [Reason.NEEDED] * (spared_by != "nothing")


def test_what_cannot_be_removed_is_told(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure has its reason, and the other entries are removed."""
    for i in (1, 2):
        add(plain.path, key(i), used_ns=NOW)
    real = os.unlink

    def refuse(path: str, *, dir_fd: int) -> None:
        if key(1) in path:
            raise PermissionError(1, "Operation not permitted")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    removal = run(plain, *(Verdict(listed(i), Reason.CLEARED) for i in (1, 2)))
    assert [(f.entry.key, f.reason) for f in removal.failures] == [(key(1), "Operation not permitted")]
    assert [e.key for e in removal.removed] == [key(2)]
    assert sorted(p.name for p in plain.path.iterdir()) == [f"{key(1)}-atime", f"{key(1)}-cache"]


def test_what_is_foreseen_is_what_is_removed(plain: Root) -> None:
    """The same entries and the same bytes, sidecars included, and nothing is touched."""
    add(plain.path, key(1), used_ns=NOW)
    add(plain.path, key(2))
    victims = tuple(Verdict(listed(i, sidecar=i == 1), Reason.CLEARED) for i in (1, 2))
    foreseen = foresee(Plan(Verdicts.of(victims)))
    assert len(list(plain.path.iterdir())) == 3
    assert foreseen == run(plain, *victims) and foreseen.bytes == 208


def test_the_size_of_xla_s_sub_caches_is_what_is_removed(plain: Root, beyond: Path) -> None:
    """XLA's two sub-caches count with everything in them; a link is neither counted nor removed."""
    assert xla_size(plain) == 0
    (plain.path / "xla_gpu_per_fusion_autotune_cache_dir" / "a").mkdir(parents=True)
    (plain.path / "xla_gpu_per_fusion_autotune_cache_dir" / "a" / "x.pb").write_bytes(b"12345")
    (plain.path / "xla_gpu_kernel_cache_file").symlink_to(beyond / "precious")
    assert xla_size(plain) == 5
    with opened(plain, plain.path) as directory:
        aside = list(set_aside_xla(directory))
        assert sum(file_tree.remove_tree(name, directory=directory) for name in aside) == 5


def test_sidecars_that_a_killed_removal_has_left(plain: Root) -> None:
    """Sidecars that a killed removal left go with the next prune, except young ones: the sidecar precedes its entry."""
    add(plain.path, key(1), used_ns=NOW)
    for number in (2, 3):
        (plain.path / f"{key(number)}-atime").write_bytes(NOW.to_bytes(8, "little"))
    os.utime(plain.path / f"{key(2)}-atime", ns=(NOW, NOW))
    with Store(plain) as store:
        store.maintenance.execute(Plan(kept=Verdicts.of([Verdict(listed(1), Reason.PINNED)])))
    assert sorted(plain.path.glob("*-atime")) == sorted(plain.path / f"{key(number)}-atime" for number in (1, 3))


def test_setting_aside_is_a_rename(plain: Root, beyond: Path) -> None:
    """XLA's sub-caches are renamed at once; other programs take the renamed ones for temporary files."""
    (plain.path / "xla_gpu_per_fusion_autotune_cache_dir").mkdir()
    (plain.path / "xla_gpu_kernel_cache_file").symlink_to(beyond / "precious")
    with opened(plain, plain.path) as directory:
        (aside,) = set_aside_xla(directory)
    assert aside.startswith(".jcache-tmp-")
    assert (plain.path / aside).is_dir()
    assert (plain.path / "xla_gpu_kernel_cache_file").is_symlink()
