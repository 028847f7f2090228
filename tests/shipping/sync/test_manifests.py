"""Manifests of a store come back as they were stored, with who signed them, and nothing else does."""

from pathlib import Path

import pytest

from jcache.errors import InvalidValue
from jcache.layout import Kind
from jcache.remote.client import Remote, open_remote
from jcache.shipping.archive.manifest import Item, Maker, Manifest
from jcache.shipping.sync.manifests import SignatureRule, namespace_of_made, read_manifests, write_manifest
from jcache.verify.signatures import sign
from tests.helpers.entries import NOW, key
from tests.helpers.signatures import allowed, needs_openssh, new_key, public


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return open_remote(f"file://{tmp_path}/store")


def manifest_of(number: int) -> Manifest:
    item = Item(Kind.TRACES, key(number), 5, f"blake3:{number:064x}", NOW, NOW)
    return Manifest(jcache="0", root="/r", directory="/r", items=(item,))


def test_they_come_back(remote: Remote) -> None:
    """Every manifest is read, once, and what is none is named."""
    for number in (1, 2, 1):
        write_manifest(remote, manifest_of(number))
    remote.transport.put("v1/manifests/00.json", b"{}", {}, replace=False)
    remote.transport.put("v1/manifests/notes", b"", {}, replace=False)
    found = read_manifests(remote)
    assert {stored.manifest.items[0].key for stored in found.usable} == {key(1), key(2)} and len(found.usable) == 2
    assert found.damaged == ("v1/manifests/00.json",) and not found.untrusted


def test_a_flipped_bit(remote: Remote, tmp_path: Path) -> None:
    """A manifest that is not as its name says is not believed."""
    file = tmp_path / "store" / write_manifest(remote, manifest_of(1))
    file.write_bytes(file.read_bytes().replace(b'"bytes":5', b'"bytes":6'))
    assert read_manifests(remote).usable == [] and len(read_manifests(remote).damaged) == 1


@needs_openssh
def test_signatures(remote: Remote, tmp_path: Path) -> None:
    """With allowed signers, only manifests that one of them has signed count."""
    mine, other = new_key(tmp_path / "mine"), new_key(tmp_path / "other")
    signers = allowed(tmp_path, f"me@here {public(mine)}")
    write_manifest(remote, manifest_of(1), lambda data: sign(data, mine))
    write_manifest(remote, manifest_of(2), lambda data: sign(data, other))
    write_manifest(remote, manifest_of(3))
    found = read_manifests(remote, SignatureRule(required=True, allowed_signers=signers))
    assert [(one.manifest.items[0].key, one.signer) for one in found.usable] == [(key(1), "me@here")]
    assert found.untrusted == 2 and len(read_manifests(remote).usable) == 3
    with pytest.raises(InvalidValue, match="--allowed-signers"):
        read_manifests(remote, SignatureRule(required=True))


@pytest.mark.parametrize(
    ("maker", "space"),
    [
        (Maker("cpu", "0.10.2", "znver3"), "0.10.2_cpu_cpu"),
        (Maker("cuda", "0.10.2", "znver3", compute_capability="9.0"), "0.10.2_cuda_9.0"),
        (Maker("tpu", None), "unknown_tpu_unknown"),
        (Maker(), "unknown_unknown_unknown"),
    ],
)
def test_namespaces(maker: Maker, space: str) -> None:
    """The namespace is what is on record; traces and graphs have none."""
    assert namespace_of_made(Kind.EXECUTABLES, maker) == space
    assert namespace_of_made(Kind.EXECUTABLES, None) == "unknown_unknown_unknown"
    assert namespace_of_made(Kind.GRAPHS, maker) == ""
