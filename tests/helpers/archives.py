"""Archives for tests: sound ones, and a way to make every other kind."""

import io
import tarfile
from collections.abc import Iterable

import zstandard

from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.shipping.archive import ArchiveReader, ArchiveWriter, item_name, neighbour_name, recompressors
from jcache.shipping.archive.manifest import Item, Manifest, XlaFile
from jcache.shipping.archive.manifest_codec import encode
from tests.helpers.entries import NOW, executable, key

XLA_FILE = "xla_gpu_per_fusion_autotune_cache_dir/x.pb"
TRAILER = b'{"omitted":[]}\n'


def item(number: int, data: bytes, kind: Kind = Kind.EXECUTABLES, name: str = "jit_step") -> Item:
    codec = "zstd" if kind is Kind.EXECUTABLES else None
    return Item(kind, key(number, name), len(data), digest(data), NOW, NOW + number, codec=codec)


class Sample:
    """A manifest, and the bytes that belong to it, by the members' names."""

    def __init__(
        self, entries: Iterable[tuple[Item, bytes]], neighbours: dict[str, bytes] | None = None, *, solid: bool = False
    ) -> None:
        entries = sorted(entries, key=lambda pair: pair[0][:2])
        beside = [(XlaFile(path, len(data), digest(data)), data) for path, data in sorted((neighbours or {}).items())]
        self.manifest = Manifest(
            jcache="0.1.0",
            root="/home/me/cache",
            directory="/home/me/cache/executables",
            solid=solid,
            recompressors=recompressors() if solid else (),
            items=tuple(listed for listed, _ in entries),
            neighbours=tuple(listed for listed, _ in beside),
        )
        self.contents = {item_name(listed): data for listed, data in entries}
        self.contents |= {neighbour_name(listed): data for listed, data in beside}

    def packed(self, *, signature: bytes | None = None, level: int | None = None) -> bytes:
        """The archive as jcache writes it."""
        stream = io.BytesIO()
        writer = ArchiveWriter(stream, solid=self.manifest.solid, level=level)
        writer.write_manifest(encode(self.manifest), signature)
        for name, data in self.contents.items():
            assert writer.write_member(name, len(data), [data])
        writer.close()
        return stream.getvalue()

    def members(self) -> list[tuple[str, bytes]]:
        """The members of its tar."""
        return [("manifest.json", encode(self.manifest)), *self.contents.items(), ("trailer.json", TRAILER)]


def sample(*, solid: bool = False) -> Sample:
    """Return an archive of three executables, one entry of each other kind, and a neighbour."""
    entries = [(item(number, data), data) for number, data in enumerate((executable(), executable(9), b"x" * 700))]
    entries += [(item(8, b"trace", Kind.TRACES), b"trace"), (item(9, b"", Kind.GRAPHS, "g" * 60), b"")]
    return Sample(entries, {XLA_FILE: b"tuned" * 300}, solid=solid)


def tar_of(members: Iterable[tuple[str | tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar of files, or of members of any type."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for info, data in members:
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def compressed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def contents_of(archive: bytes | io.BufferedIOBase) -> tuple[Manifest, dict[str, bytes], frozenset[tuple[str, str]]]:
    """Return everything that a reader gets from an archive."""
    stream = io.BytesIO(archive) if isinstance(archive, bytes) else archive
    reader = ArchiveReader(stream, name="a.tar.zst")  # type: ignore[arg-type]
    manifest = reader.head().manifest
    found = {}
    for member in reader.members():
        pieces = []
        while piece := member.read(1000):
            pieces.append(piece)
        found[member.name] = b"".join(pieces)
        assert len(found[member.name]) == member.size
    return manifest, found, reader.omitted
