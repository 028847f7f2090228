"""What a writer writes: the same bytes for the same entries, which common programs list and unpack."""

import io
import subprocess
from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.shipping.archive import ArchiveWriter, bounded_source, item_name
from jcache.shipping.archive.manifest_codec import encode
from tests.helpers.archives import (
    XLA_FILE,
    Sample,
    contents_of,
    item,
    sample,
)
from tests.helpers.zstd_program import needs_zstd
from tests.shipping.archive.test_reader import MIB


def test_an_archive_of_nothing_is_one() -> None:
    """An archive without entries has a manifest and a trailer."""
    made = Sample([])
    assert contents_of(made.packed()) == (made.manifest, {}, frozenset())


@pytest.mark.parametrize("solid", [False, True])
def test_the_same_entries_give_the_same_bytes(solid: bool) -> None:
    """An archive does not depend on the time, the user, the machine or the pieces in which bytes arrive."""
    made = sample(solid=solid)
    stream = io.BytesIO()
    writer = ArchiveWriter(stream, solid=solid)
    writer.write_manifest(encode(made.manifest))
    for name, data in made.contents.items():
        writer.write_member(name, len(data), [data[:10], b"", data[10:]])
    writer.close()
    assert stream.getvalue() == made.packed() == made.packed()
    assert writer.written == len(stream.getvalue())


@needs_zstd
@pytest.mark.parametrize("solid", [False, True])
def test_zstd_and_tar_list_and_unpack_an_archive(tmp_path: Path, solid: bool) -> None:
    """`zstd -d | tar t` shows the members, the manifest first, and `tar x` gives the stored bytes."""
    made = sample(solid=solid)
    (tmp_path / "a.tar.zst").write_bytes(made.packed())
    listing = subprocess.run(
        "zstd -dc a.tar.zst | tar tv", shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = listing.stdout.splitlines()
    assert not listing.stderr
    assert all(line.startswith("-rw-r--r-- 0/0 ") for line in lines)
    names = [line.split(maxsplit=5)[5] for line in lines]
    assert names[:2] == ["manifest.json", "manifest.json.digest"] and names[-1] == "trailer.json"
    assert [name.removesuffix(".zstd-content") for name in names[2:-1]] == list(made.contents)
    if not solid:
        subprocess.run("zstd -dc a.tar.zst | tar x", shell=True, cwd=tmp_path, check=True)
        assert all((tmp_path / name).read_bytes() == data for name, data in made.contents.items())


@pytest.mark.parametrize("solid", [False, True])
@pytest.mark.parametrize("chunks", [[], [b"short"], [b"x" * 5000], [b"x" * 10] * 500])
def test_an_entry_that_changed_is_there_with_its_size_and_omitted(solid: bool, chunks: list[bytes]) -> None:
    """An entry that got shorter or longer is filled or cut to its size, and the trailer names it."""
    made = sample(solid=solid)
    changed = made.manifest.items[1]
    stream = io.BytesIO()
    writer = ArchiveWriter(stream, solid=solid)
    writer.write_manifest(encode(made.manifest))
    for name, data in made.contents.items():
        is_changed = name == item_name(changed)
        assert writer.write_member(name, len(data), chunks if is_changed else [data]) is not is_changed
    writer.close([(changed.kind, changed.key)])
    _, found, omitted = contents_of(stream.getvalue())
    assert omitted == {("executables", changed.key)}
    assert {name for name in found if found[name] != made.contents[name]} == {item_name(changed)}


def test_entries_that_vanished_are_absent_and_omitted() -> None:
    """The trailer names all members that vanished, neighbours included."""
    made = sample()
    gone = {(one.kind.value, one.key) for one in made.manifest.items} | {("xla", XLA_FILE)}
    stream = io.BytesIO()
    writer = ArchiveWriter(stream)
    writer.write_manifest(encode(made.manifest))
    writer.close(gone)
    assert contents_of(stream.getvalue()) == (made.manifest, {}, frozenset(gone))


@pytest.mark.full
@needs_zstd
@pytest.mark.parametrize("buffer", [1 << 10, 32 << 10, 1 << 20])
def test_what_we_write_is_never_taken_for_a_bomb(monkeypatch: pytest.MonkeyPatch, buffer: int) -> None:
    """Entries of nothing but zeros come through, since the writer fills up where so much in so little looks wrong,
    however few bytes a reader takes at once.
    """
    monkeypatch.setattr(bounded_source, "_BUFFER_BYTES", buffer)
    data = bytes(100 * MIB)
    made = Sample([(item(1, data, Kind.GRAPHS), data)])
    archive = made.packed()
    assert len(archive) < len(data) / 400
    assert contents_of(archive)[1] == made.contents
    assert subprocess.run(["zstd", "-t"], input=archive, capture_output=True, check=False).returncode == 0
