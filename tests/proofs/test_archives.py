"""Whatever becomes of an archive: it is read as it was, or refused; no other exception, no byte that is not promised.

Short here, as in CI; `pytest tests/proofs/test_archives.py --full` makes 24,000 mutations, of the compressed bytes, of
the tar inside, of the manifest and of signed archives. JCACHE_SEED, which a failing test prints, repeats a run.
"""

import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from jcache.errors import BadArchive, Untrusted
from jcache.formats.digest import digest
from jcache.shipping.archive import ArchiveReader, PlainTarReader, open_archive
from jcache.shipping.archive.manifest_codec import decode, encode
from jcache.verify.signatures import sign, verify
from tests.helpers.archives import Sample, compressed, sample, tar_of
from tests.helpers.signatures import allowed, needs_openssh, new_key, public
from tests.proofs.test_fuzz import mutate

FULL, SHORT = 6000, 150


def inside(archive: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(archive)


def blocks_swapped(data: bytes, chance: random.Random) -> bytes:
    """Two blocks in each other's place, or one doubled or gone: sound pieces in a wrong order."""
    blocks = [data[start : start + 512] for start in range(0, len(data), 512)]
    first, second = chance.randrange(len(blocks)), chance.randrange(len(blocks))
    action = chance.randrange(3)
    if action == 0:
        blocks[first], blocks[second] = blocks[second], blocks[first]
    elif action == 1:
        blocks.insert(first, blocks[second])
    else:
        del blocks[first : first + 1 + chance.randrange(3)]
    return b"".join(blocks)


def rechecked(tar: bytes) -> bytes:
    """Return the tar with the right checksums in all headers, so that their fields are read."""
    blocks = [tar[start : start + 512] for start in range(0, len(tar), 512)]
    for number, block in enumerate(blocks):
        if block[257:262] == b"ustar" and len(block) == 512:
            total = sum(block) - sum(block[148:156]) + 8 * 32
            blocks[number] = block[:148] + b"%06o\0 " % total + block[156:]
    return b"".join(blocks)


def outcome(archive: bytes, made: Sample) -> str:
    """How reading ends; whole members have the bytes that their own manifest promises, and nothing else is raised."""
    try:
        reader = open_archive(io.BytesIO(archive), name="a.tar.zst")
        if isinstance(reader, PlainTarReader):
            for plain in reader.members():
                assert ".." not in plain.path.split("/") and not plain.path.startswith("/")
                plain.read()
            return "plain"
        head = reader.head()
        wholes = members_of(reader)
    except BadArchive as error:
        return sentence(error)
    if head.manifest != made.manifest:
        return "another manifest"
    assert all(made.contents[name] == data for name, data in wholes.items())
    accounted = {name for name in made.contents if name in wholes}
    return "the same" if accounted == made.contents.keys() else "damaged entries"


def sentence(error: BadArchive) -> str:
    """Assert that a text is one sentence."""
    assert str(error).endswith(".") and str(error).isprintable()
    return "refused"


def members_of(reader: ArchiveReader) -> dict[str, bytes]:
    """The members that are as promised."""
    wholes = {}
    for member in reader.members():
        pieces = []
        while piece := member.read(4096):
            pieces.append(piece)
        data = b"".join(pieces)
        if digest(data) == member.entry.digest:
            wholes[member.name] = data
    return wholes


@pytest.mark.parametrize("solid", [False, True])
@pytest.mark.parametrize("level", ["stream", "tar", "headers", "blocks"])
def test_mutations_are_refused_or_change_nothing(level: str, solid: bool, full: bool, chance: random.Random) -> None:
    """After mutations of the stream or the tar, even with right checksums, an archive is refused or read unchanged."""
    made = sample(solid=solid)
    archive = made.packed(signature=b"sig\n")
    tar = inside(archive)
    others = [archive, tar, tar_of([("x" * 120, b"y")])]
    change: dict[str, Callable[[], bytes]] = {
        "stream": lambda: mutate(archive, chance, others),
        "tar": lambda: compressed(mutate(tar, chance, others)),
        "headers": lambda: compressed(rechecked(mutate(tar, chance, others))),
        "blocks": lambda: blocks_swapped(tar, chance),
    }
    counts: dict[str, int] = {}
    for _ in range((FULL if full else SHORT) // 2):
        changed = change[level]()
        ended = outcome(changed, made)
        counts[ended] = counts.get(ended, 0) + 1
    print(level, counts)
    assert counts.get("refused", 0) > 0


def test_mutated_manifests_are_refused_or_say_what_they_say(full: bool, chance: random.Random) -> None:
    """A mutated manifest that is accepted encodes to the bytes that were read."""
    data = encode(sample().manifest)
    for _ in range(FULL if full else SHORT):
        changed = mutate(data, chance, [data, b'{"a":[', b"1e999", b'"\\ud800"'])
        try:
            manifest = decode(changed)
        except BadArchive as error:
            sentence(error)
            continue
        assert encode(manifest) == changed


@needs_openssh
def test_mutated_signed_archives_are_untrusted_or_the_same(tmp_path: Path, full: bool, chance: random.Random) -> None:
    """Only the signed manifest is accepted, whatever changes in manifest, signature and members."""
    key = new_key(tmp_path / "key")
    signers = allowed(tmp_path, f"me {public(key)}")
    made = sample()
    manifest = encode(made.manifest)
    signed = manifest, sign(manifest, key)
    tar = inside(made.packed(signature=signed[1]))

    def check(data: bytes, signature: bytes | None) -> None:
        if signature is None:
            raise Untrusted("It is not signed.")
        if (data, signature) != signed:  # ssh-keygen need not say each time that these pass
            verify(data, signature, signers)

    for _ in range(FULL if full else SHORT):
        changed = rechecked(mutate(tar, chance, [tar]))
        try:
            reader = open_archive(io.BytesIO(changed))
            head = reader.head(check) if isinstance(reader, ArchiveReader) else None
        except (BadArchive, Untrusted):
            continue
        assert head is None or head.manifest_size == len(manifest)
