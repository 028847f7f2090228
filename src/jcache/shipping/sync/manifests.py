"""Manifests in a store: what pushes know of the entries that they have stored. They are never changed.

    v1/manifests/<hash>.json       the bytes of an archive's manifest (`jcache.shipping.archive.manifest_codec`), named
                                   by their digest
    v1/manifests/<hash>.json.sig   the signature of these bytes, stored before them

A reader believes a manifest's digests as far as it believes whoever may write to the store, or the signer. Entries that
are in none are told by their names and their objects' metadata alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jcache.errors import BadArchive, Untrusted
from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.remote.client import Remote
from jcache.remote.names import MANIFEST_SUFFIX, MANIFESTS, SIGNATURE_SUFFIX, namespace_of
from jcache.remote.transfer import in_parallel
from jcache.shipping.archive.manifest import Maker, Manifest
from jcache.shipping.archive.manifest_codec import decode, encode
from jcache.shipping.importer.archive_import import check_signers, check_trust

_CPU = "cpu"


class SignatureRule(NamedTuple):
    """Whose signatures a reader asks for.

    Attributes:
        required: whether entries without a signature are left out.
        allowed_signers: file of the principals who may sign; None for no demand.
    """

    required: bool = False
    allowed_signers: Path | None = None

    @property
    def applies(self) -> bool:
        """Whether unsigned entries are left out."""
        return self.required or self.allowed_signers is not None


class StoredManifest(NamedTuple):
    """A manifest of a store.

    Attributes:
        name: name of its object.
        manifest: the manifest.
        signer: the principal who signed it; None if that was not asked for.
    """

    name: str
    manifest: Manifest
    signer: str | None = None


@dataclass(slots=True)
class Manifests:
    """The manifests of a store that can be used.

    Attributes:
        usable: the manifests, the oldest first.
        untrusted: number of manifests without the signature that is asked for.
        damaged: names of objects that are no manifests.
    """

    usable: list[StoredManifest]
    untrusted: int = 0
    damaged: tuple[str, ...] = ()


def namespace_of_made(kind: Kind, maker: Maker | None) -> str:
    """Return the namespace of an entry that a maker has made; empty for traces and graphs."""
    if kind is not Kind.EXECUTABLES:
        return ""
    maker = maker or Maker()
    device = maker.compute_capability or (_CPU if maker.platform == _CPU else None)
    return namespace_of(maker.jaxlib, maker.platform, device)


def write_manifest(remote: Remote, manifest: Manifest, sign: Callable[[bytes], bytes] | None = None) -> str:
    """Store a manifest with its signature, if there is to be one, and return the name of its object.

    Raises:
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
    """
    data = encode(manifest)
    name = f"{MANIFESTS}{digest(data).partition(':')[2]}{MANIFEST_SUFFIX}"
    if sign is not None:
        remote.transport.put(name + SIGNATURE_SUFFIX, sign(data), {}, replace=True)
    remote.transport.put(name, data, {}, replace=False)
    return name


def read_manifests(remote: Remote, rule: SignatureRule | None = None) -> Manifests:
    """Return the manifests of a store that lists.

    Args:
        remote: the store.
        rule: whose signatures count; None for no demand.

    Raises:
        RemoteUnavailable, RemoteDenied: as in `write_manifest`.
        InvalidValue: signers are asked for, and their file cannot be read or is not named.
        JcacheError: ssh-keygen, which checks signatures, is missing or too old.
    """
    rule = rule or SignatureRule()
    check_signers(required=rule.required, allowed_signers=rule.allowed_signers)
    objects = [one for batch in remote.transport.objects(MANIFESTS) for one in batch]
    names = [one.name for one in sorted(objects, key=lambda one: (one.written_ns, one.name))]
    wanted = [name for name in names if name.endswith(MANIFEST_SUFFIX)]
    found, damaged = Manifests([]), list[str]()
    for name, fetched in in_parallel(remote.transport.get, wanted):
        if fetched is None:
            continue
        try:
            signer = _signer(remote, name, fetched.data, rule) if rule.applies else None
            found.usable.append(StoredManifest(name, _decoded(name, fetched.data), signer))
        except Untrusted:
            found.untrusted += 1
        except BadArchive:
            damaged.append(name)
    found.damaged = tuple(damaged)
    return found


def _decoded(name: str, data: bytes) -> Manifest:
    if f"{MANIFESTS}{digest(data).partition(':')[2]}{MANIFEST_SUFFIX}" != name:
        raise BadArchive(f"{name} does not have the digest in its name.")
    return decode(data, name=name)


def _signer(remote: Remote, name: str, data: bytes, rule: SignatureRule) -> str | None:
    """Return who has signed a manifest; raise Untrusted if nobody has who counts."""
    signature = remote.transport.get(name + SIGNATURE_SUFFIX)
    told = None if signature is None else signature.data
    return check_trust(data, told, required=True, allowed_signers=rule.allowed_signers).signer
