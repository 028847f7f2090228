"""Sealed files that this process has verified are not verified again while they are the same."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from jcache import clock
from jcache.errors import DamagedEntry
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, seal
from jcache.store import mapped, verified_files
from jcache.store.mapped import MAPPED_FROM, open_sealed
from jcache.store.verified_files import identity_of, is_settled, recall, remember

SIZES = [100, verified_files.MAX_KEPT_BYTES + 1, MAPPED_FROM + 1]


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    verified_files.forget_all()
    yield
    verified_files.forget_all()


@pytest.fixture(name="path", params=SIZES)
def path_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "entry"
    data = seal(
        bytes(request.param), kind="graphs", name="f", key="k", build_seconds=1.0, created_ns=1, codec=Codec.NONE
    )
    path.write_bytes(data)
    return path


def opened(path: Path) -> bytes:
    return bytes(open_sealed(str(path), seen=os.lstat(path))[1])


def settle() -> None:
    """Wait until a file that was just written is older than the steps of change times."""
    time.sleep(0.1)


def test_a_file_that_is_the_same_is_verified_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload of a file that has not changed is not digested again, and each caller gets memory of his own."""
    settle()
    first = open_sealed(str(path), seen=os.lstat(path))
    monkeypatch.setattr(mapped, "digest", None)
    monkeypatch.setattr("jcache.formats.envelope._digest", None)
    second = open_sealed(str(path), seen=os.lstat(path), on_record=lambda: "unused")
    assert first[0] == second[0] and bytes(first[1]) == bytes(second[1])
    second[1][0] = 7
    assert first[1][0] == 0 and opened(path)[0] == 0


@pytest.mark.parametrize("keeps_times", [False, True])
def test_damage_after_a_check_is_found(path: Path, keeps_times: bool) -> None:
    """A file that was changed after a check is verified again, also where its modification time was put back."""
    settle()
    opened(path)
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    if keeps_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DamagedEntry):
        opened(path)


def test_a_file_that_was_just_written_is_not_remembered(path: Path) -> None:
    """A later change might not be seen by the change time of a file that is younger than a step of the clock."""
    status = os.lstat(path)
    header = open_sealed(str(path))[0]
    remember(str(path), status, status.st_ctime_ns + 1_000_000, header, b"")
    assert recall(str(path), status) is None
    settle()
    remember(str(path), status, clock.now_ns(), header, b"")
    assert recall(str(path), status) is not None


def test_change_times_without_fractions_settle_later() -> None:
    """Where a file system counts change times in seconds, a file must be two seconds old."""

    class Status:
        st_ctime_ns = 5_000_000_000

    assert not is_settled(Status(), 6_000_000_000)  # type: ignore[arg-type]
    assert is_settled(Status(), 7_200_000_000)  # type: ignore[arg-type]
    Status.st_ctime_ns = 5_000_000_001
    assert is_settled(Status(), 6_000_000_000)  # type: ignore[arg-type]
    Status.st_ctime_ns = 9_000_000_001
    assert not is_settled(Status(), 6_000_000_000)  # type: ignore[arg-type]


def test_files_are_verified_again_after_some_minutes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was verified is forgotten after ten minutes, and where the clock was set back."""
    settle()
    opened(path)
    status, now = os.lstat(path), clock.now_ns()
    assert recall(str(path), status) is not None
    for other_ns in (now + 601_000_000_000, now - 60_000_000_000):
        monkeypatch.setattr(clock, "now_ns", lambda other_ns=other_ns: other_ns)
        assert recall(str(path), status) is None


def test_only_some_files_are_remembered(path: Path) -> None:
    """The number of files that are remembered is bounded."""
    status, header = os.lstat(path), open_sealed(str(path))[0]
    settle()
    for number in range(300):
        remember(f"{path}{number}", status, clock.now_ns(), header, b"")
    assert recall(f"{path}0", status) is None and recall(f"{path}299", status) is not None


def test_the_digest_on_record_is_enough(tmp_path: Path) -> None:
    """A large file whose digest is on record is compared with that; a digest that differs says nothing."""
    path = tmp_path / "entry"
    made = seal(bytes(MAPPED_FROM), kind="graphs", name="f", key="k", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    path.write_bytes(made)
    asked: list[str] = []

    def on_record(text: str) -> str:
        asked.append(text)
        return text

    for text in (digest(made), "blake3:" + "0" * 64):
        assert bytes(open_sealed(str(path), on_record=partial(on_record, text))[1]) == bytes(MAPPED_FROM)
        verified_files.forget_all()
    assert len(asked) == 2
    path.write_bytes(made[:-1] + b"\1")
    with pytest.raises(DamagedEntry):
        open_sealed(str(path), on_record=lambda: digest(made))


def test_identities_tell_files_apart(path: Path, tmp_path: Path) -> None:
    """Another file, or another content, has another identity."""
    before = identity_of(os.lstat(path))
    (tmp_path / "other").write_bytes(path.read_bytes())
    assert identity_of(os.lstat(tmp_path / "other")) != before


def test_a_trace_is_not_remembered(tmp_path: Path) -> None:
    """A program loads it once, and a function that was dropped is to leave nothing."""
    path = tmp_path / "entry"
    path.write_bytes(
        seal(bytes(100), kind="traces", name="f", key="k", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    )
    old = os.lstat(path).st_ctime_ns + 10 * 10**9
    status, header = os.lstat(path), open_sealed(str(path))[0]
    remember(str(path), status, old, header, bytes(100))
    assert recall(str(path), status) is None
