"""Checks before an import writes anything."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from jcache.errors import CannotWrite
from jcache.layout import Kind, Root
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer.archive_import import plan_import
from jcache.shipping.importer.preflight import check_writable
from tests.helpers.entries import key
from tests.shipping.importer.test_archive_import import archive_of


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive for which the disk has no room, of bytes or of files, is refused before the root is made."""
    manifest, _ = archive_of((Kind.EXECUTABLES, key(1)))
    target = Root(tmp_path / "none" / "yet", plain=False)
    forecast = judge(manifest, Machine(), target.directory(Kind.EXECUTABLES), {})
    for disk in ((1, 10, 10), (10**9, 10, 1)):
        fields = dict(zip(("f_bavail", "f_files", "f_favail"), disk, strict=True), f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _, fields=fields: SimpleNamespace(**fields))
        with pytest.raises(CannotWrite, match=r"no room for the import: .*(64.0 MiB are to stay free|takes 1 more)"):
            plan_import(manifest, target, forecast)
    assert not target.path.exists()


@pytest.mark.parametrize("kind", Kind)
def test_the_place_of_a_directory_must_be_free_or_a_directory(native: Root, tmp_path: Path, kind: Kind) -> None:
    """A root that does not exist can be made; a link or a file in the place of a directory is refused by name."""
    check_writable(Root(tmp_path / "new" / "root", plain=False), Kind)
    check_writable(native, Kind)
    directory = native.directory(kind)
    if directory.is_dir():
        directory.rmdir()
    directory.symlink_to(tmp_path)
    with pytest.raises(CannotWrite, match=f"{directory} is a symbolic link to {tmp_path}, which is not followed"):
        check_writable(native, [kind])
    directory.unlink()
    directory.touch()
    with pytest.raises(CannotWrite, match=f"{directory} is no directory: move it away"):
        check_writable(native, [kind])


def test_a_root_may_be_a_link(native: Root, tmp_path: Path) -> None:
    """The root itself may lie elsewhere; a link to nothing is refused."""
    (tmp_path / "link").symlink_to(native.path)
    check_writable(Root(tmp_path / "link", plain=False), Kind)
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CannotWrite, match="is a symbolic link"):
        check_writable(Root(tmp_path / "lost", plain=False), Kind)
