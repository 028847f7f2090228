"""A tar is read member by member, to its end and no further."""

import gzip
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.helpers.archives import tar_of
from tests.helpers.entries import executable, key
from tests.shipping.archive.test_plain_tar import directory_fixture as directory_fixture, member, read, refusal


def test_links_and_sparse_files_of_gnu_tar_are_refused(directory: Path) -> None:
    """Links and sparse files of the real tar are refused in both formats; its other formats are read."""
    entry = next(directory.glob("jit_f*-cache"))
    (directory / "hard").hardlink_to(entry)
    tar = ["tar", "-C", str(directory), "-cf", "-"]
    assert "hard link" in refusal(subprocess.run([*tar, "."], capture_output=True, check=True).stdout)
    assert "hard" in read(subprocess.run([*tar, "--hard-dereference", "."], capture_output=True, check=True).stdout)
    (directory / "hard").unlink()
    with (directory / "holes").open("wb") as file:
        file.truncate(1 << 20)
    for form in ("gnu", "pax"):
        sparse = subprocess.run([*tar, "-S", f"--format={form}", "."], capture_output=True, check=True).stdout
        assert "sparse" in refusal(sparse)


def test_every_truncation_is_refused(directory: Path) -> None:
    """A tar that is truncated anywhere, compressed or not, is refused."""
    tar = tar_of([(f"{key(1)}-cache", executable()), ("x" * 200, b"y" * 600)])[:-8192]
    end = len(tar.rstrip(b"\0"))
    for length in range(min(len(tar), (end + 511) // 512 * 512 + 1024)):
        refusal(tar[:length])
    for archive in (gzip.compress(tar), zstandard.compress(tar)):
        for length in range(len(archive)):
            refusal(archive[:length])


def test_many_members_are_refused_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts every header, of directories too."""
    monkeypatch.setattr("jcache.shipping.archive.tar_reader.MAX_MEMBERS", 50)
    members: list[tuple[str | tarfile.TarInfo, bytes]] = [member(f"d{n}", tarfile.DIRTYPE) for n in range(60)]
    assert "more than 50 members" in refusal(tar_of(members))
