"""The reader returns what the writer wrote, and refuses every other stream in one sentence."""

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from jcache.errors import BadArchive, Untrusted
from jcache.formats.compression import codec_of
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import Kind
from jcache.shipping.archive import ArchiveReader, ArchiveWriter, item_name, open_archive, recompressors
from jcache.shipping.archive.manifest import Item, Manifest
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
from tests.helpers.entries import NOW, key

MIB = 1 << 20
ROOT = Path(__file__).parents[3]


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


def test_names_and_sizes_that_need_a_pax_header() -> None:
    """Names up to 255 bytes and beyond ASCII are read by us and by others."""
    entries = [(item(n, b"x", name=name), b"x") for n, name in enumerate(("a" * 180, "λ→" * 20, "f (g, h)", "b" * 29))]
    made = Sample(entries)
    archive = made.packed()
    assert contents_of(archive)[1] == made.contents
    with tarfile.open(fileobj=io.BytesIO(inside(archive))) as tar:
        assert tar.getnames()[2:-1] == list(made.contents)


def test_members_can_be_passed_over_or_read_in_part() -> None:
    """Unread bytes of a member do not get into the next one, and a member that is over returns no bytes."""
    made = sample()
    reader = ArchiveReader(io.BytesIO(made.packed()))
    last = None
    for member in reader.members():
        assert last is None or last.read() == b""
        assert member.read(3) == made.contents[member.name][:3]
        last = member
    assert not reader.omitted


def test_what_comes_in_small_pieces_is_read() -> None:
    """Archives are read from pipes that return fewer bytes than requested."""
    made = sample()
    archive = made.packed()
    source, sink = os.pipe()

    def feed() -> None:
        with open(sink, "wb", buffering=0) as stream:
            for start in range(0, len(archive), 7):
                stream.write(archive[start : start + 7])

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(source, "rb", buffering=0) as stream:
        assert contents_of(stream)[1] == made.contents  # type: ignore[arg-type]
    feeder.join()


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


# Solid archives


def entries_of(*codecs: Codec) -> Iterator[tuple[bytes, str]]:
    content = random.Random(1).randbytes(20_000)
    for number, codec in enumerate(codecs):
        yield pack_executable(content + bytes([number]) + b"same" * 5000, number, codec), codec.value


def test_solid_archives_share_what_entries_share() -> None:
    """Entries that are compressed each for itself shrink to little more than one of them, and come back bit by bit."""
    data = list(entries_of(*[Codec.ZSTD, Codec.ZLIB] * 5))
    entries = [(item(n, stored)._replace(codec=codec), stored) for n, (stored, codec) in enumerate(data)]
    solid = Sample(entries, solid=True)
    assert len(solid.packed()) < 0.2 * len(tar_of([*solid.contents.items()]))
    assert contents_of(solid.packed())[1] == solid.contents


@pytest.mark.jax
def test_solid_archives_of_two_versions_of_a_model_take_three_fifths_of_a_tar(tmp_path: Path) -> None:
    """A solid archive of a transformer with four and with six layers has at most three fifths of a tar's size."""
    for layers in (4, 6):
        environment = {
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "JAX_PLATFORMS": "cpu",
        }  # fmt: skip
        program = [sys.executable, "tests/programs/transformer.py", str(layers)]
        subprocess.run(program, env=os.environ | environment, cwd=ROOT, check=True, capture_output=True)
    entries = []
    for path in tmp_path.glob("*-cache"):
        stored = path.read_bytes()
        of_it = Item(Kind.EXECUTABLES, path.name.removesuffix("-cache"), len(stored), digest(stored), NOW, NOW)
        entries.append((of_it._replace(codec=codec_of(stored)), stored))
    made = Sample(entries, solid=True)
    archive = made.packed()
    tar = subprocess.run(["tar", "-C", tmp_path, "-cf", "-", "."], capture_output=True, check=True).stdout
    print(f"{len(archive) / len(tar):.3f} of tar's bytes")
    assert len(archive) <= 0.6 * len(tar)
    assert contents_of(archive)[1] == made.contents


@pytest.mark.parametrize(
    "stored",
    [
        zstandard.compress(b"other level" * 500, 19),
        zstandard.ZstdCompressor(write_checksum=True).compress(b"checksum" * 500),
        zstandard.compress(b"x" * 500) + b"behind",
        zstandard.compress(b"x" * 500)[:-1],
        zstandard.compress(bytes(10 * MIB)),
        b"no codec",
        b"",
    ],
)
def test_what_would_not_come_back_is_stored_as_it_is(stored: bytes) -> None:
    """An entry that JAX did not compress as we do, or that is like a bomb, is left as it is in a solid archive."""
    made = Sample([(item(1, stored), stored)], solid=True)
    archive = made.packed()
    with tarfile.open(fileobj=io.BytesIO(inside(archive))) as tar:
        names = tar.getnames()
    assert names == ["manifest.json", "manifest.json.digest", *made.contents, "trailer.json"]
    assert contents_of(archive)[1] == made.contents


def test_another_version_of_the_library_is_refused_from_the_manifest() -> None:
    """A solid archive of another library version may not restore its bytes: it is refused with the version
    and a remedy.
    """
    made = sample(solid=True)
    assert made.manifest.recompressors == recompressors()
    old = Manifest(
        **{name: getattr(made.manifest, name) for name in Manifest.__slots__ if name != "recompressors"},
        recompressors=(("zlib", "1.0"), ("zstd", "1.0.1")),
    )
    members = [("manifest.json", encode(old)), *made.members()[1:]]
    message = refusal(packed([*members]))
    assert "zstd 1.0.1" in message and "--solid" in message


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


@pytest.mark.parametrize("name", [first_name(), "manifest.json", "trailer.json", f"xla/{XLA_FILE}"])
def test_members_twice_are_refused(name: str) -> None:
    """A second member of a name is never taken, right behind the first or later."""
    members = sample().members()
    position = next(at for at, (found, _) in enumerate(members) if found == name)
    for place in (position, len(members) - 1, len(members)):
        refusal(packed([*members[:place], members[position], *members[place:]]))


def test_members_that_lack_are_refused() -> None:
    """Every member in the manifest must be present, unless the trailer lists it as omitted."""
    members = sample().members()
    for position in range(len(members)):
        refusal(packed([*members[:position], *members[position + 1 :]]))
    assert "trailer.json" in refusal(packed([*members[:-1]]))


def test_members_out_of_order_are_refused() -> None:
    """The order is the manifest's."""
    members = sample().members()
    for position in range(len(members) - 1):
        swapped = [*members[:position], members[position + 1], members[position], *members[position + 2 :]]
        refusal(packed([*swapped]))


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

_BOMB = """
import resource, sys
from jcache.shipping.archive import ArchiveReader
from jcache.errors import BadArchive, Untrusted
from tests.proofs import archive_bombs
from jcache.shipping.archive import manifest
stream = getattr(archive_bombs, sys.argv[1])()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    reader = ArchiveReader(stream, name="a.tar.zst")
    for member in reader.members():
        while member.read():
            pass
    print("read")
except BadArchive as error:
    print("refused", error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("bomb", "mebibytes"),
    [
        ("zeros_in_an_entry", 24),
        ("zeros_in_a_manifest", 160),
        ("manifest_that_announces_terabytes", 16),
        ("window_of_a_gibibyte", 16),
        ("empty_frames_without_end", 16),
        ("empty_blocks_without_end", 16),
        ("skippable_frames_without_end", 16),
        ("a_skippable_frame_of_four_gibibytes", 16),
        ("ten_million_members", 16),
        ("pax_header_of_gigabytes", 16),
        ("long_name_of_gigabytes", 16),
        ("headers_without_a_member", 16),
        ("deep_manifest", 32),
        ("manifest_of_lines", 160),
        ("padding_without_end", 24),
        ("gzip_of_zeros", 24),
        ("empty_gzip_members_without_end", 16),
        ("trailer_of_empty_lists", 16),
        ("content_for_a_small_entry", 160),
    ],
)
def test_bombs_are_refused_in_bounded_memory(bomb: str, mebibytes: int) -> None:
    """Archives that would fill memory, or never end, are refused at the cost of a few pieces and a window."""
    done = subprocess.run(
        [sys.executable, "-c", _BOMB, bomb],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=ROOT,
    )
    outcome, kibibytes = done.stdout.splitlines()
    assert outcome.startswith("refused")
    assert int(kibibytes) < mebibytes * 1024


def test_what_we_write_is_never_taken_for_a_bomb() -> None:
    """Entries of nothing but zeros come through, since the writer fills up where so much in so little looks wrong."""
    data = bytes(100 * MIB)
    made = Sample([(item(1, data, Kind.GRAPHS), data)])
    archive = made.packed()
    assert len(archive) < len(data) / 400
    assert contents_of(archive)[1] == made.contents
    assert subprocess.run(["zstd", "-t"], input=archive, capture_output=True, check=False).returncode == 0


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
