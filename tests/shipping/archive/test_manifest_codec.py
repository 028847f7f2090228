"""A manifest can be written in one way, and the decoder refuses all other bytes."""

import json
import tracemalloc
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import BadArchive, InvalidValue
from jcache.formats.digest import digest
from jcache.layout import AUTOTUNE_NAME, KERNELS_NAME, Kind
from jcache.shipping.archive import manifest_codec as module
from jcache.shipping.archive.manifest import Host, Item, Maker, Manifest, XlaFile
from jcache.shipping.archive.manifest_codec import decode, encode
from tests.helpers.clocks import lines_run
from tests.helpers.entries import NOW, key

OTHER = key(1, "z")
ITEM = Item(Kind.EXECUTABLES, key(1), 700, digest(b"2"), NOW, NOW + 5)
MANIFEST = Manifest(
    jcache="0.1.0", root="/r", directory="/r/executables", jax="0.10.2", jaxlib="0.10.2",
    host=Host(cpu="EPYC", gpus=("H200",)), makers=(Maker(platform="cpu", cpu_features=("+avx2", "-sha512")),),
    items=(ITEM._replace(maker=0, seconds=3.5, codec="zstd", sidecar=True),),
    neighbours=(XlaFile(f"{AUTOTUNE_NAME}/x.pb", 3, digest(b"3")),),
)  # fmt: skip

TWO = encode(replace(MANIFEST, items=(ITEM, ITEM._replace(key=OTHER))))

PRINTABLE: Any = {"codec": "utf-8", "exclude_categories": ("C", "Z"), "include_characters": " "}
TEXTS = st.text(st.characters(**PRINTABLE), max_size=30)
NAMES = st.text(st.characters(**PRINTABLE, exclude_characters="/"), min_size=1, max_size=30)
NUMBERS = st.integers(0, 2**63 - 1)
KEYS = st.builds(key, st.integers(0, 50), NAMES)
DIGESTS = st.binary(max_size=1).map(digest)
MAKERS = st.builds(
    Maker, platform=st.none() | TEXTS, jaxlib=st.none() | TEXTS, cpu_name=st.none() | TEXTS,
    compute_capability=st.none() | TEXTS, cpu_features=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
    abi_version=st.none() | st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple), cache_path=st.none() | TEXTS,
    xla_caches=st.sampled_from([None, "all", "xla_gpu_kernel_cache_file"]),
    xla_options=st.none() | st.integers(1, 2**4096 - 1).map(hex).map(lambda text: text[2:]),
    compression=st.sampled_from([None, "zstandard", "zlib"]),
)  # fmt: skip
ITEMS = st.builds(
    Item, st.sampled_from(Kind), KEYS, st.integers(0, 8 << 30), DIGESTS, NUMBERS, NUMBERS, sidecar=st.booleans(),
    pinned=st.booleans(), seconds=st.none() | st.floats(0, 1e10), origin=st.none() | TEXTS,
    parents=st.lists(KEYS, max_size=3).map(tuple), codec=st.sampled_from([None, "zstd", "zlib"]),
    portable=st.booleans(), maker=st.sampled_from([None, 0, 1]),
)  # fmt: skip
NEIGHBOURS = st.builds(
    XlaFile, st.lists(NAMES.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=3).map(
        lambda parts: "/".join((AUTOTUNE_NAME, *parts, "file"))
    ), st.integers(0, 9), DIGESTS,
)  # fmt: skip
MANIFESTS = st.builds(
    Manifest, jcache=TEXTS, root=TEXTS, directory=TEXTS, jax=st.none() | TEXTS, jaxlib=st.none() | TEXTS,
    host=st.builds(Host, cpu=st.none() | TEXTS, gpus=st.lists(TEXTS, max_size=2).map(tuple)), solid=st.booleans(),
    recompressors=st.just(()) | st.just((("zlib", "1.3"), ("zstd", "1.5.7"))),
    settings=st.just(()) | st.just((("keep_last", "7"), ("max_size", "20GiB"))) | st.just((("order", "cost"),)),
    makers=st.lists(MAKERS, min_size=2, max_size=3).map(tuple),
    items=st.lists(ITEMS, max_size=5, unique_by=itemgetter(0, 1)).map(
        lambda found: tuple(sorted(found, key=itemgetter(0, 1)))
    ),
    neighbours=st.lists(NEIGHBOURS, max_size=3, unique_by=lambda one: one.path).map(lambda found: tuple(sorted(found))),
)  # fmt: skip


def refusal(data: bytes) -> str:
    with pytest.raises(BadArchive) as caught:
        decode(data, name="a.tar.zst")
    message = str(caught.value)
    assert "a.tar.zst" in message
    assert message.endswith(".") and "\n" not in message and len(message) < 300
    return message


@pytest.mark.full
@settings(max_examples=60)
@given(MANIFESTS)
def test_manifests_round_trip(manifest: Manifest) -> None:
    """A manifest is decoded to what was encoded, in every field."""
    data = encode(manifest)
    assert decode(data) == manifest
    assert encode(decode(data)) == data


def test_a_manifest_is_json_with_a_line_for_each_entry() -> None:
    """Any JSON reader reads it, and any tool that reads lines finds an entry in one."""
    data = encode(MANIFEST)
    record = json.loads(data)
    assert record["schema_version"] == 2
    assert record["items"][0]["key"] == key(1)
    assert [line for line in data.decode().splitlines() if key(1) in line] == [
        json.dumps(record["items"][0], separators=(",", ":"))
    ]
    assert list(record) == sorted(record)
    assert data.endswith(b"}\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"items": (ITEM, ITEM)},
        {"items": (ITEM._replace(key=key(1, "z")), ITEM)},
        {"items": (ITEM._replace(maker=1),)},
        {"items": (ITEM._replace(key="../../x"),)},
        {"items": (ITEM._replace(bytes=-1),)},
        {"neighbours": (XlaFile("../x", 3, digest(b"3")),)},
        {"neighbours": (XlaFile(KERNELS_NAME, 3, digest(b"3")), XlaFile(f"{KERNELS_NAME}/x", 3, digest(b"3")))},
        {"recompressors": (("zstd", "1"), ("zlib", "1"))},
        {"settings": (("order", "lru"), ("keep_last", "1"))},
        {"settings": (("order", "lru"), ("order", "cost"))},
        {"settings": (("max_size", "much"),)},
        {"settings": (("places", "/"),)},
        {"settings": (("preset", "balanced"),)},
        {"settings": (("colour", "red"),)},
    ],
)
def test_a_manifest_that_would_be_refused_is_not_written(changes: dict[str, Any]) -> None:
    """Entries that are not sorted or twice there, and values out of range, are an error at the writing end."""
    with pytest.raises(InvalidValue, match="cannot be written"):
        encode(replace(MANIFEST, **changes))


@pytest.mark.parametrize(
    "line",
    [
        b'{"bytes":1,"bytes":2}',
        b'{ "bytes":1}',
        b'{"bytes":01}',
        b'{"bytes":NaN}',
        b'{"bytes":1e3}',
        b'{"bytes":"\\u0061"}',
        b'{"bytes":"\\ud800"}',
        b'{"bytes":"\xff"}',
        b'{"bytes":' + b"9" * 4500 + b"}",
        b'{"bytes":' + b"[" * 100_000,
        b'{"bytes":' + b'{"a":' * 100_000,
        b"{}",
        b"{",
        b"{" + b" " * (2 << 20),
    ],
    ids=lambda line: line[:30].decode("latin-1"),
)
def test_json_that_is_not_canonical_is_refused(line: bytes) -> None:
    """Keys twice, blanks, NaN, escapes, depth and length: whatever a JSON reader might take in more than one way."""
    lines = encode(MANIFEST).split(b"\n")
    lines[1] = line
    assert "digits" not in refusal(b"\n".join(lines))  # nothing of what Python itself says


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"\x00" * 1000,
        b"x\n" * 1_000_000,
        encode(MANIFEST)[:-1],
        encode(MANIFEST) + b"\n",
        encode(MANIFEST) + encode(MANIFEST),
        encode(MANIFEST).replace(b"\n]", b",\n]", 1),
        TWO.replace(b",\n{", b"\n{"),
        TWO.replace(OTHER.encode(), key(1).encode()),
        encode(MANIFEST).replace(b'"solid":false', b'"solid":0'),
        encode(MANIFEST).replace(b'"root":', b'"toor":'),
        encode(MANIFEST).replace(b'"cpu":"EPYC",', b""),
        encode(MANIFEST).replace(b'"makers":[', b'"bakers":['),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    """Empty bytes, other JSON, two manifests, wrong commas, unknown fields and repeated entries are refused."""
    refusal(data)


def test_another_version_is_named() -> None:
    """A manifest of a later jcache is refused by its version, whatever else has changed in it."""
    data = encode(MANIFEST).replace(b'"schema_version":2', b'"novelty":{},"schema_version":7')
    assert "version 7" in refusal(data)


def test_any_changed_byte_changes_the_manifest_or_is_refused() -> None:
    """A manifest has only one form: two different texts never mean the same."""
    data = encode(MANIFEST)
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            try:
                other = decode(bytes(changed))
            except BadArchive:
                continue
            assert other != MANIFEST
            assert encode(other) == changed


def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds before the entries are kept."""
    items = tuple(sorted(ITEM._replace(key=key(number)) for number in range(20)))
    data = encode(replace(MANIFEST, items=items))
    monkeypatch.setattr(module, "MAX_ENTRIES", 15)
    assert "more than" in refusal(data)
    with pytest.raises(InvalidValue):
        encode(replace(MANIFEST, items=items))


def large(count: int) -> bytes:
    items = tuple(sorted(ITEM._replace(key=key(number), origin="program") for number in range(count)))
    return encode(replace(MANIFEST, items=items))


def test_a_large_manifest_is_read_in_few_steps() -> None:
    """The number of steps grows linearly with the lines, and is small enough for a million of them."""
    few, many = (lines_run(partial(decode, large(count)), at_most=10**7) for count in (500, 2000))
    assert (many - few) / 1500 < 150


@pytest.mark.full
def test_a_large_manifest_is_read_in_little_memory() -> None:
    """A line takes less than 2 KiB."""
    count = 20_000
    data = large(count)
    tracemalloc.start()
    try:
        decode(data)
        assert tracemalloc.get_traced_memory()[1] < count * 2048
    finally:
        tracemalloc.stop()
