"""The reader returns what the writer wrote, and refuses every other stream in one sentence."""

import gzip
import io
import random
import tarfile
from pathlib import Path

import pytest
import zstandard

from jcache.errors import BadArchive, Untrusted
from jcache.shipping.archive import ArchiveReader, open_archive
from jcache.shipping.archive.manifest_codec import encode
from tests.helpers.archives import (
    TRAILER,
    XLA_FILE,
    Sample,
    compressed,
    contents_of,
    item,
    sample,
    tar_of,
)
from tests.helpers.entries import key

MIB = 1 << 20


def refusal(archive: bytes) -> str:
    """Return the sentence with which an archive is refused."""
    with pytest.raises(BadArchive) as caught:
        contents_of(archive)
    message = str(caught.value)
    assert "a.tar.zst" in message
    assert message.endswith(".") and "\n" not in message and len(message) < 500
    return message


def packed(members: list[tuple[str | tarfile.TarInfo, bytes]]) -> bytes:
    return compressed(tar_of(members))


def inside(archive: bytes) -> bytes:
    """The tar."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(archive)


def info(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = size, kind, link
    return made


# What is written is read


@pytest.mark.parametrize("solid", [False, True])
@pytest.mark.parametrize("signature", [None, b"-----BEGIN SSH SIGNATURE-----\n"])
def test_what_is_written_is_read(solid: bool, signature: bytes | None) -> None:
    """Manifest, signature, every member's bytes and the trailer come back."""
    made = sample(solid=solid)
    archive = made.packed(signature=signature)
    assert contents_of(archive) == (made.manifest, made.contents, frozenset())
    head = ArchiveReader(io.BytesIO(archive)).head()
    assert head.manifest_size == len(encode(made.manifest))
    assert head.signature == signature


@pytest.mark.parametrize("repack", [gzip.compress, lambda tar: tar, lambda tar: zstandard.compress(tar, 19)])
def test_an_archive_in_other_compression_is_read(repack: object) -> None:
    """`zstd -d`, gzip and zstd with other options leave an archive an archive."""
    made = sample()
    tar = inside(made.packed())
    assert callable(repack)
    reader = open_archive(io.BytesIO(repack(tar)))
    assert isinstance(reader, ArchiveReader)
    assert [member.name for member in reader.members()] == list(made.contents)


def test_the_signature_can_be_checked_before_anything_is_made_of_the_manifest() -> None:
    """The signature can be checked first: a changed manifest is not parsed."""
    archive = packed([("manifest.json", b"touched"), ("manifest.json.sig", b"sig"), ("trailer.json", TRAILER)])

    def check(manifest: bytes, signature: bytes | None) -> None:
        raise Untrusted(f"{manifest!r}, {signature!r}")

    with pytest.raises(Untrusted, match=r"b'touched', b'sig'"):
        ArchiveReader(io.BytesIO(archive)).head(check)


# Entries that change meanwhile


# Solid archives


# Hostile archives


def first_name() -> str:
    return next(iter(sample().contents))


HOSTILE: dict[str, tuple[tarfile.TarInfo | str, bytes]] = {
    "parent": ("../evil", b"x"),
    "parent inside": ("executables/../../evil", b"x"),
    "absolute": ("/tmp/evil", b"x"),
    "no key": ("executables/evil", b"x"),
    "another key": (f"executables/{key(77)}-cache", b"x"),
    "symbolic link": (info("executables/link", kind=tarfile.SYMTYPE, link="/etc/passwd"), b""),
    "symbolic link named as an entry": (info(first_name(), kind=tarfile.SYMTYPE, link="/etc/passwd"), b""),
    "hard link": (info(first_name(), kind=tarfile.LNKTYPE, link="manifest.json"), b""),
    "character device": (info(first_name(), kind=tarfile.CHRTYPE), b""),
    "block device": (info(first_name(), kind=tarfile.BLKTYPE), b""),
    "FIFO": (info(first_name(), kind=tarfile.FIFOTYPE), b""),
    "directory": (info("elsewhere", kind=tarfile.DIRTYPE), b""),
    "directory that leads elsewhere": (info("xla/../../evil/", kind=tarfile.DIRTYPE), b""),
    "directory in the place of an entry": (info(first_name(), kind=tarfile.DIRTYPE), b""),
    "directory with a size": (info("executables", 1, kind=tarfile.DIRTYPE), b"x"),
    "sparse": (info(first_name(), 1, kind=tarfile.GNUTYPE_SPARSE), b"x"),
    "contiguous": (info("executables/evil", 1, kind=tarfile.CONTTYPE), b"x"),
    "unknown type": (info(first_name(), 1, kind=b"Z"), b"x"),
    "another manifest": ("manifest.json", b"{}"),
    "a terminal's escapes": ("executables/\x1b[2J", b"x"),
    "larger than listed": (info(first_name(), 5000), b"x" * 5000),
    "smaller than listed": (info(first_name(), 1), b"x"),
    "nameless": (info("", 1), b"x"),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("place", [1, 2, -1])
def test_hostile_members_are_refused(what: str, place: int) -> None:
    """Names that lead elsewhere, links, devices, FIFOs, unknown members and wrong sizes are refused at every
    position.
    """
    members: list[tuple[str | tarfile.TarInfo, bytes]] = [*sample().members()]
    members.insert(place if place > 0 else len(members), HOSTILE[what])
    message = refusal(packed(members))
    assert message.isprintable()


def test_directories_of_members_are_passed_over() -> None:
    """An archive that was unpacked and packed again with its directories is read as the archive."""
    members: list[tuple[str | tarfile.TarInfo, bytes]] = [*sample().members()]
    plain = contents_of(packed(members))
    for name in ("executables/", f"xla/{XLA_FILE.rpartition('/')[0]}"):
        members.insert(1, (info(name, kind=tarfile.DIRTYPE), b""))
    assert contents_of(packed(members)) == plain


@pytest.mark.parametrize(
    "trailer",
    [
        b"",
        b"{}",
        b"null",
        b'{"omitted":[]}',
        b'{"omitted":[]}\n\n',
        b'{"omitted":{}}\n',
        b'{"omitted":[["executables"]]}\n',
        b'{"omitted":[["executables","other"]]}\n',
        b'{"omitted":[["executables",7]]}\n',
        f'{{"omitted":[["xla","{XLA_FILE}"],["xla","{XLA_FILE}"]]}}\n'.encode(),
        b"[" * 5000,
        b'{"omitted":[' + b"[]," * 500_000,
    ],
    ids=lambda trailer: trailer[:30].decode(),
)
def test_trailers_that_do_not_follow_the_manifest_are_refused(trailer: bytes) -> None:
    """A trailer with other JSON, unknown or repeated entries, deep nesting or a large size is refused."""
    assert "trailer.json" in refusal(packed([*sample().members()[:-1], ("trailer.json", trailer)]))


@pytest.mark.full
def test_every_truncation_is_refused() -> None:
    """Wherever the stream ends, of the compressed bytes or of the tar inside."""
    made = sample()
    archive = made.packed(signature=b"sig")
    for length in range(len(archive)):
        refusal(archive[:length])
    tar = inside(archive)
    for length in range(0, len(tar), 149):
        refusal(tar[:length])
        refusal(compressed(tar[:length]))
        refusal(gzip.compress(tar, 1)[: length // 20])


@pytest.mark.parametrize(
    "garbage", [b"x", b"\0", b"\0" * 4, b"garbage" * 1000, b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"]
)
def test_garbage_behind_the_end_is_refused(garbage: bytes) -> None:
    """Behind the zstd frame and behind the tar's end."""
    archive = sample().packed()
    tar = inside(archive)
    refusal(archive + garbage)
    if garbage.strip(b"\0"):
        refusal(compressed(tar + garbage))
        refusal(tar + garbage)
        refusal(gzip.compress(tar) + garbage)
    refusal(archive + archive)
    refusal(compressed(tar + tar))
    refusal(compressed(tar) + compressed(tar))


def test_padding_as_tar_makes_it_is_taken() -> None:
    """Zeros behind the end, as tar fills its records, but not without end."""
    made = sample()
    tar = inside(made.packed())
    assert contents_of(compressed(tar + bytes(10240)))[1] == made.contents
    refusal(compressed(tar + bytes(32 * MIB)))


def test_frames_may_be_several() -> None:
    """Several frames, as pzstd and `cat` make them, and skippable frames between them are read."""
    made = sample()
    tar = inside(made.packed())
    skipped = b"\x53\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"skipped"
    archive = skipped + compressed(tar[:700]) + compressed(b"") + skipped + zstandard.compress(tar[700:])
    assert contents_of(archive)[1] == made.contents
    assert "follows its trailer.json" in refusal(archive + skipped)


@pytest.mark.parametrize("archive", [b"", b"x", b"hello world" * 100, b"BZh9" + b"x" * 600, b"PK\x03\x04"])
def test_what_is_no_archive_is_refused(archive: bytes) -> None:
    """Empty streams, text and other formats are refused."""
    refusal(archive)
    with pytest.raises(BadArchive):
        list(open_archive(io.BytesIO(archive)).members())


# Bombs, in bounded memory and time


def test_a_manifest_that_promises_more_than_its_file_can_hold_is_refused_at_once(tmp_path: Path) -> None:
    """The size of a file is known, so that the ratio is refused before any payload."""
    made = Sample([(item(1, b"x")._replace(bytes=2**33), b"x")])
    path = tmp_path / "a.tar.zst"
    path.write_bytes(packed([*made.members()]))
    with path.open("rb") as stream, pytest.raises(BadArchive, match="claim to hold"):
        ArchiveReader(stream).head()


def test_a_manifest_that_changed_on_the_way_is_refused() -> None:
    """Whichever bit of it, signed or not; one without a digest, as they were made before, is read."""
    made = sample()
    data = bytearray(inside(made.packed()))
    start = data.index(b'{"directory":')
    chance = random.Random(5)
    header = data.index(b"manifest.json.digest")
    length = len(bytes(data[start:header]).rstrip(b"\0"))
    for _ in range(200):
        at, bit = start + chance.randrange(length), 1 << chance.randrange(8)
        data[at] ^= bit
        with pytest.raises(BadArchive):
            contents_of(zstandard.compress(bytes(data)))
        data[at] ^= bit
    without = data[:header] + data[header + 1024 :]
    assert contents_of(zstandard.compress(bytes(without)))[1] == made.contents
