"""A generation is an archive under a name, stored once."""

from pathlib import Path

import pytest

from jcache.errors import InvalidValue, OutOfReach, UnknownKey
from jcache.remote.client import Remote
from jcache.shipping.archive import ArchiveReader, open_archive
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.sync.generations import generation_names, has_generation, open_generation, push_generation
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.imports import facts, populated


def test_it_comes_back(remote: Remote, tmp_path: Path) -> None:
    """The archive is read as it was stored, and nobody replaces it."""
    root = populated(tmp_path / "root")
    with Store(root) as store:
        assert not has_generation(remote, "one") and not has_generation(remote, "not/a name")
        assert push_generation(store, remote, ExportRequest(), "one", dry_run=True).entries == 12
        assert not has_generation(remote, "one")
        done = push_generation(store, remote, ExportRequest(), "one")
        with pytest.raises(OutOfReach, match="has a generation one already"):
            push_generation(store, remote, ExportRequest(), "one")
    reader = open_archive(open_generation(remote, "one"))
    assert isinstance(reader, ArchiveReader) and done.archive_bytes > 0
    assert {(item.kind, item.key) for item in reader.head().manifest.items} == set(facts(root))
    if remote.can_list:
        assert generation_names(remote) == ["one"]


def test_what_cannot_be(remote: Remote, tmp_path: Path) -> None:
    """An unknown generation, and one of nothing, are errors."""
    with pytest.raises(UnknownKey, match="has no generation two"):
        open_generation(remote, "two")
    with Store(create_root(tmp_path / "empty")) as store, pytest.raises(InvalidValue, match="nothing to store"):
        push_generation(store, remote, ExportRequest(), "two")
