"""A generation is an archive under a name, stored once."""

from functools import partial
from pathlib import Path

import pytest

from jcache.errors import InvalidValue, OutOfReach, UnknownKey
from jcache.remote.client import Remote, open_remote
from jcache.remote.names import generation_name
from jcache.shipping.archive import ArchiveReader, open_archive
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.sync import generations
from jcache.shipping.sync.generations import (
    StoredGeneration,
    has_generation,
    open_generation,
    push_generation,
    remove_generations,
    signature_of,
    stored_generations,
)
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.signatures import read_signers, sign
from tests.helpers.imports import facts, populated
from tests.helpers.signatures import allowed, needs_openssh, new_key, public


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
        assert [(one.name, one.bytes) for one in stored_generations(remote)] == [("one", done.archive_bytes)]


def test_what_cannot_be(remote: Remote, tmp_path: Path) -> None:
    """An unknown generation, and one of nothing, are errors."""
    with pytest.raises(UnknownKey, match="has no generation two"):
        open_generation(remote, "two")
    with Store(create_root(tmp_path / "empty")) as store, pytest.raises(InvalidValue, match="nothing to store"):
        push_generation(store, remote, ExportRequest(), "two")


@pytest.mark.parametrize("first_bytes", [1 << 20, 100])
@needs_openssh
def test_who_has_signed(tmp_path: Path, first_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of an archive tells the key, or the principal of the allowed signers, however long it is."""
    monkeypatch.setattr(generations, "_FIRST_BYTES", first_bytes)
    mine, other = new_key(tmp_path / "mine"), new_key(tmp_path / "other")
    signers = read_signers(allowed(tmp_path, f"me@here {public(mine)}"))
    with Store(populated(tmp_path / "root")) as store, open_remote(f"file://{tmp_path}/store") as remote:
        push_generation(store, remote, ExportRequest(), "mine", partial(sign, key_path=mine))
        push_generation(store, remote, ExportRequest(), "other", partial(sign, key_path=other))
        push_generation(store, remote, ExportRequest(), "plain")
        for name, data in (("torn", b"not an archive"), ("empty", b"")):
            remote.transport.put(generation_name(name), data, {}, replace=False)
        remote.transport.put("v1/generations/notes.txt", b"", {}, replace=False)
        found = {one.name: one for one in stored_generations(remote)}
        told = {name: signature_of(remote, one, signers) for name, one in found.items()}
        assert told == {
            "mine": ("good", "me@here"), "other": ("bad", None), "plain": ("none", None), "torn": ("damaged", None),
            "empty": ("damaged", None),
        }  # fmt: skip
        for name in ("mine", "other"):
            state, signer = signature_of(remote, found[name], None)
            assert state == "good" and str(signer).startswith("SHA256:")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert signature_of(remote, found["mine"], signers) == ("unchecked", None)
        remove_generations(remote, ["mine", "torn"])
        assert {one.name for one in stored_generations(remote)} == {"other", "plain", "empty"}


def test_no_archive_is_read_whole_for_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an archive that cannot be read, however large it is, only the beginning is asked for."""
    monkeypatch.setattr(generations, "_FIRST_BYTES", 10)
    monkeypatch.setattr(generations, "_MOST_BYTES", 640)
    store = open_remote(f"file://{tmp_path}/store")
    asked: list[int] = []
    read = store.transport.start

    def start(name: str, size: int) -> bytes | None:
        asked.append(size)
        return read(name, size)

    monkeypatch.setattr(store.transport, "start", start)
    for size, state in ((640, "damaged"), (100_000, "unchecked")):
        store.transport.put(generation_name(f"of-{size}"), bytes(size), {}, replace=False)
        stored = StoredGeneration(f"of-{size}", size, 0)
        assert signature_of(store, stored, None).state == state and max(asked) == 640
