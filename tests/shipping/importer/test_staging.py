"""Files that are written and not visible yet."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import TEMPORARY_PREFIX, Kind
from jcache.shipping.importer import write_behind
from jcache.shipping.importer.outcome import ImportOutcome
from jcache.store.roots import create_root
from tests.helpers.entries import add, key
from tests.helpers.imports import facts
from tests.shipping.importer.test_archive_import import archive_of, brought


@pytest.mark.parametrize("page", [100, 4 << 20], ids=["in many pieces", "whole"])
@pytest.mark.parametrize("replace", [False, True])
def test_named_temporaries(tmp_path: Path, replace: bool, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without nameless files, an import uses temporary names."""
    opened = os.open
    monkeypatch.setattr(write_behind, "_PAGE_BYTES", page)

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refusing)
    target = create_root(tmp_path / "b")
    manifest, datas = archive_of(*((Kind.EXECUTABLES, key(n)) for n in range(3)))
    add(target.directory(Kind.EXECUTABLES), manifest.items[0].key, b"other")
    datas[1] = b"wrong" + datas[1]
    imported = brought(target, manifest, datas, replace=replace)
    assert list(imported.outcomes.values()).count(ImportOutcome.NEW) == 1
    monkeypatch.undo()
    there = facts(target)[Kind.EXECUTABLES, manifest.items[0].key].data
    assert there == (datas[0] if replace else b"other")
    assert not [path for path in target.path.rglob("*") if TEMPORARY_PREFIX in path.name]
