"""Files beside the entries: sidecars, temporary files, legacy entries, and names that make JAX's put fail."""

import os
import time
from pathlib import Path

import pytest

from jcache.findings import Damage, Finding, Remedy
from jcache.layout import Kind, Root
from jcache.store.listing import read_listing
from jcache.verify.neighbours import CLOCK_TOLERANCE_NS, check_neighbours, is_clock_behind
from tests.helpers.entries import DAY, NOW, SECOND, add, executable, key

GRACE = 60 * SECOND


def around(directory: Path, now_ns: int = NOW) -> dict[str, Finding]:
    """The findings by the names of their files."""
    return {f.path.name: f for f in check_neighbours(read_listing(Kind.EXECUTABLES, directory), now_ns, GRACE)}


def damages(directory: Path, now_ns: int = NOW) -> dict[str, Damage]:
    return {name: finding.damage for name, finding in around(directory, now_ns).items()}


def left(path: Path, age_ns: int) -> Path:
    path.write_bytes(b"half")
    os.utime(path, ns=(NOW - age_ns, NOW - age_ns))
    return path


def test_a_directory_in_order(tmp_path: Path) -> None:
    """Entries with sidecars, the lock, XLA's caches and unknown files are all in order."""
    add(tmp_path, key(1), 10, used_ns=NOW, written_ns=NOW)
    (tmp_path / ".lockfile").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "xla_gpu_per_fusion_autotune_cache_dir").mkdir()
    assert damages(tmp_path) == {}
    assert damages(tmp_path / "none") == {}


def test_a_sidecar_is_missed_only_where_there_was_a_bound(tmp_path: Path) -> None:
    """An unbounded JAX writes no sidecars, so a missing one is a finding only if a lock file shows a bounded JAX."""
    add(tmp_path, key(1), 10)
    assert damages(tmp_path) == {}
    (tmp_path / ".lockfile").touch()
    finding = around(tmp_path)[f"{key(1)}-atime"]
    assert (finding.damage, finding.remedy, finding.key) == (Damage.MISSING_SIDECAR, Remedy.MAKE_SIDECAR, key(1))


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (b"", Damage.SIDECAR_SIZE),
        (b"1234567", Damage.SIDECAR_SIZE),
        (b"123456789", Damage.SIDECAR_SIZE),
        (b"\xff" * 8, Damage.SIDECAR_FUTURE),
        ((NOW + CLOCK_TOLERANCE_NS + DAY).to_bytes(8, "little"), Damage.SIDECAR_FUTURE),
        ((NOW + CLOCK_TOLERANCE_NS).to_bytes(8, "little"), None),
        ((NOW - DAY).to_bytes(8, "little"), None),
        (bytes(8), None),
    ],
)
def test_what_a_sidecar_says(tmp_path: Path, data: bytes, damage: Damage | None) -> None:
    """A sidecar must have eight bytes and a time that is not in the future, within the tolerance of clocks."""
    add(tmp_path, key(1), 10, written_ns=NOW - DAY)
    (tmp_path / f"{key(1)}-atime").write_bytes(data)
    assert list(damages(tmp_path).values()) == ([] if damage is None else [damage])


def test_a_sidecar_of_the_very_time_of_the_file(tmp_path: Path) -> None:
    """A sidecar with the time of its file is sound, since adopting an entry writes this time."""
    add(tmp_path, key(1), 10, used_ns=NOW - DAY, written_ns=NOW - DAY)
    assert damages(tmp_path) == {}


@pytest.mark.parametrize("what", ["directory", "link"])
def test_a_sidecar_that_is_no_file(tmp_path: Path, beyond: Path, what: str) -> None:
    """A directory or link in a sidecar's place is a finding, and not followed."""
    add(tmp_path, key(1), 10, written_ns=NOW)
    path = tmp_path / f"{key(1)}-atime"
    path.mkdir() if what == "directory" else path.symlink_to(beyond / "precious")
    assert damages(tmp_path) == {path.name: Damage.NOT_A_FILE}


def test_a_sidecar_without_an_entry(tmp_path: Path) -> None:
    """Repair removes a sidecar without an entry, if it has not changed since."""
    (tmp_path / f"{key(1)}-atime").write_bytes(bytes(8))
    finding = around(tmp_path)[f"{key(1)}-atime"]
    assert (finding.damage, finding.remedy) == (Damage.ORPHANED_SIDECAR, Remedy.REMOVE)
    assert finding.stamp is not None and finding.stamp.bytes == 8


@pytest.mark.parametrize("name", [".jcache-tmp-0123", "_temp_0123", ".jcache-tmp-xla-0123"])
@pytest.mark.parametrize(("age_ns", "found"), [(GRACE + 1, True), (GRACE - 1, False), (0, False), (-DAY, False)])
def test_temporary_files_are_damage_once_they_are_old(tmp_path: Path, name: str, age_ns: int, found: bool) -> None:
    """A writer that is alive gets on with its file within the grace period."""
    left(tmp_path / name, age_ns)
    assert damages(tmp_path) == ({name: Damage.TEMPORARY} if found else {})


def test_advice_names_the_root(native: Root) -> None:
    """The directory of executables in a jcache root is no root: what a command is to be given is the root."""
    directory = native.directory(Kind.EXECUTABLES)
    (directory / key(1)).write_bytes(executable())
    assert around(directory)[key(1)].advice == f"jcache prune --legacy --root {native.path}"


def test_legacy_entries_are_notes(tmp_path: Path) -> None:
    """Legacy entries are no damage; a note names the command that removes them."""
    (tmp_path / key(1)).write_bytes(executable())
    finding = around(tmp_path)[key(1)]
    assert (
        finding.damage is Damage.LEGACY
        and finding.is_note
        and finding.advice == f"jcache prune --legacy --root {finding.path.parent}"
    )


def test_names_that_stop_jax(tmp_path: Path) -> None:
    """A name that ends in -cache and is no entry makes every bounded put of jax <= 0.11.1 fail, so the advice is to
    move it.
    """
    (tmp_path / "model-cache").touch()
    (tmp_path / "pip-cache").mkdir()
    found = around(tmp_path)
    assert {f.damage for f in found.values()} == {Damage.BLOCKING} and found.keys() == {"model-cache", "pip-cache"}
    assert all(f.remedy is Remedy.BY_HAND and f.advice and str(f.path) in f.advice for f in found.values())


@pytest.mark.parametrize("what", ["directory", "link", "FIFO"])
def test_what_has_an_entrys_name_and_is_none_is_found(tmp_path: Path, beyond: Path, what: str) -> None:
    """A directory, link or FIFO named like an entry is found like any other name that is none."""
    path = tmp_path / f"{key(1)}-cache"
    if what == "directory":
        path.mkdir()
    elif what == "link":
        path.symlink_to(beyond / "precious")
    else:
        os.mkfifo(path)
    assert path.name in damages(tmp_path)


def test_a_clock_that_is_behind() -> None:
    """The clock is behind if it is earlier than jcache's installation, or than most times; a few times may be wrong."""
    today = time.time_ns()
    ago = today - 3650 * DAY
    assert is_clock_behind([ago + 3649 * DAY], ago)
    assert not is_clock_behind([today + 3650 * DAY], today) and not is_clock_behind([today - DAY], today)
    assert is_clock_behind([today + DAY] * 10, today) and not is_clock_behind(
        [today + DAY] * 10 + [today - DAY] * 10, today
    )
    assert not is_clock_behind([], ago)
