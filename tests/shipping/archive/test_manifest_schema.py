"""The fields of a manifest: which values they have, and how they are written."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jcache.formats.digest import digest
from jcache.layout import AUTOTUNE_NAME, KERNELS_NAME
from jcache.shipping.archive.manifest import Maker
from jcache.shipping.archive.manifest_codec import decode, encode
from tests.helpers.entries import digits, key
from tests.shipping.archive.test_manifest_codec import ITEM, MANIFEST, refusal


def edited(**changes: Any) -> bytes:
    """The bytes of the manifest with fields of its only item replaced, or removed where they are None."""
    lines = encode(MANIFEST).decode().split("\n")
    record = {name: value for name, value in (json.loads(lines[1]) | changes).items() if value is not None}
    lines[1] = json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def test_what_has_its_default_value_is_left_out() -> None:
    """Lines are as short as they can be, and there is one way to write each."""
    line = encode(replace(MANIFEST, items=(ITEM,))).split(b"\n")[1]
    assert json.loads(line).keys() == {"kind", "key", "bytes", "digest", "created_ns", "recency_ns"}


def test_what_cannot_be_printed_is_escaped() -> None:
    """Line feeds, escapes and bytes that are no text break neither the manifest nor a terminal."""
    text = "a\nb\x1b[31m\udcff"
    manifest = decode(encode(replace(MANIFEST, items=(ITEM._replace(origin=text),))))
    assert manifest.items[0].origin == "a\\nb\\x1b[31m\\udcff"


@pytest.mark.parametrize("path", ["/a\u3000b", "/a\xa0b", "/a\tb\nc", "/\u202e\x1b[31m", "c1", "/👨\u200d👩"])
def test_paths_stay_as_they_are(path: str) -> None:
    """JAX hashes each character of a directory, so each comes through; but for bytes that are no text."""
    makers = (Maker(cache_path=path),)
    items = (ITEM._replace(maker=0),)
    manifest = decode(encode(replace(MANIFEST, root=path, directory=path, makers=makers, items=items)))
    assert manifest.root == manifest.directory == manifest.makers[0].cache_path == path
    assert decode(encode(replace(MANIFEST, root="/a\udcff"))).root == "/a\\udcff"


def test_times_out_of_range_become_the_nearest() -> None:
    """A file of before 1970, or of after 2262, is shipped like any other."""
    manifest = decode(encode(replace(MANIFEST, items=(ITEM._replace(created_ns=-5, recency_ns=2**64),))))
    assert manifest.items[0].created_ns == 0
    assert manifest.items[0].recency_ns == 2**63 - 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key": "no-key"}, "key"),
        ({"key": f"a/b-{digits(1)}"}, "key"),
        ({"key": f"../x-{digits(1)}"}, "key"),
        ({"key": f"{'n' * 200}-{digits(1)}"}, "key"),
        ({"key": f"\udcff-{digits(1)}"}, "JSON"),
        ({"key": 7}, "key"),
        ({"kind": "programs"}, "'kind' is \"programs\", and should be one of executables, traces, graphs"),
        ({"kind": ["executables"]}, "kind"),
        ({"bytes": -1}, "number"),
        ({"bytes": 10**30}, "number"),
        ({"bytes": 10**4000}, "huge"),
        ({"bytes": 2**33 + 1}, "number"),
        ({"bytes": 1.0}, "number"),
        ({"bytes": True}, "number"),
        ({"bytes": "7"}, "number"),
        ({"created_ns": 2**63}, "number"),
        ({"digest": "0" * 64}, "digest"),
        ({"digest": "blake3:" + "0" * 63 + "G"}, "digest"),
        ({"digest": "blake3:" + "0" * 64 + "\n"}, "digest"),
        ({"digest": digest(b"1").upper()}, "digest"),
        ({"sidecar": 1}, "true or false"),
        ({"sidecar": False}, "default"),
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": 3}, "'seconds' is 3, and should be a number with a point"),
        ({"seconds": 1e300}, "seconds"),
        ({"seconds": float("nan")}, "JSON"),
        ({"seconds": float("inf")}, "JSON"),
        ({"origin": "x\x1b[2J"}, "printable"),
        ({"origin": "x" * 5000}, "at most 4096"),
        ({"parents": [[]]}, "key"),
        ({"parents": [key(1)] * 5000}, "at most 4096"),
        ({"parents": {}}, "list"),
        ({"codec": "none"}, "codec"),
        ({"maker": 1}, "maker"),
        ({"maker": -1}, "number"),
        ({"extra": 1}, "field"),
        ({"digest": None}, "lacks the field 'digest'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_values_that_are_none_are_refused(changes: dict[str, Any], reason: str) -> None:
    """Wrong types, numbers out of range and malformed keys are refused in one sentence with place, value and
    expected form.
    """
    message = refusal(edited(**changes))
    assert reason in message
    assert "line 2" in message or "the whole" in message
    assert not changes.keys() & {"bytes", "digest", "sidecar"} or key(1) in message or "JSON" in message


@pytest.mark.parametrize("path", ["/etc/passwd", "", "x", KERNELS_NAME + "/../x", AUTOTUNE_NAME + "//x", "./x"])
def test_neighbours_stay_in_xlas_places(path: str) -> None:
    """A neighbour's path leads below one of XLA's two names and nowhere else."""
    data = encode(MANIFEST).replace(f'"{AUTOTUNE_NAME}/x.pb"'.encode(), json.dumps(path).encode())
    assert "path" in refusal(data)
