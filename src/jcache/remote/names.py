"""Names of objects below the prefix of a store: the one table that spells them.

    v1/executables/<namespace>/<key>-cache     the bytes of an executable, as JAX stores them
    v1/traces/<key>-cache                      a sealed envelope, as in a root
    v1/graphs/<key>-cache
    v1/…/<key>-digest                          where the store keeps no metadata: the digest, written before the entry
    v1/manifests/<hash>.json                   what a push has stored: digests, makers; <hash>.json.sig, its signature
    v1/generations/<name>.jcache               an archive of `jcache push --as NAME`, never replaced
    v1/usage/<day>/<host>-<random>             which entries a host has used on a day, in batches
    v1/prune-lease                             who prunes now
    v1/claims/<namespace>/<key>                which executables hosts compile now, `jcache.runtime.remote_claims`
    v1/runs/<hash>                             which executables the last run of a command used; the hash is its words'

    namespace = <jaxlib> "_" <platform> "_" <device>, such as 0.10.2_cuda_9.0; unknown parts are "unknown"

Only executables have a namespace, since only they are of one jaxlib, platform and device: a plain JAX that is pointed
at ``<prefix>/v1/executables/<namespace>`` finds the names that it would write. The namespace is no part of the key, and
only says where to look: what an executable needs is hashed into its key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from jcache.errors import InvalidValue
from jcache.layout import ENTRY_SUFFIX, Kind, check_key, is_key

VERSION: Final = "v1"
DIGEST_SUFFIX: Final = "-digest"
UNKNOWN: Final = "unknown"
MANIFESTS: Final = f"{VERSION}/manifests/"
GENERATIONS: Final = f"{VERSION}/generations/"
USAGE: Final = f"{VERSION}/usage/"
LEASE: Final = f"{VERSION}/prune-lease"
CLAIMS: Final = f"{VERSION}/claims/"
RUNS: Final = f"{VERSION}/runs/"
MANIFEST_SUFFIX: Final = ".json"
SIGNATURE_SUFFIX: Final = ".sig"
_ARCHIVE_SUFFIX: Final = ".jcache"
_NOT_IN_NAMESPACES: Final = re.compile(r"[^A-Za-z0-9.+-]+")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9.+-]+(?:_[A-Za-z0-9.+-]+){2}")
_GENERATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


class EntryName(NamedTuple):
    """What the name of an object stands for.

    Attributes:
        kind, namespace, key: the entry; the namespace of traces and graphs is empty.
        is_digest: whether it is the object that holds the entry's digest.
    """

    kind: Kind
    namespace: str
    key: str
    is_digest: bool = False


def namespace_of(jaxlib: str | None, platform: str | None, device: str | None) -> str:
    """Return the namespace of executables.

    Args:
        jaxlib: the version that made them.
        platform: ``cpu``, ``cuda``, ``rocm``, ``tpu``.
        device: compute capability of a GPU, such as ``9.0`` or ``gfx942``; the model of another accelerator, ``cpu`` of
            a CPU. None, as for the others, if it is not known.
    """
    return "_".join(
        _NOT_IN_NAMESPACES.sub("-", part or "").strip("-") or UNKNOWN for part in (jaxlib, platform, device)
    )


def parts_of(namespace: str) -> tuple[str | None, str | None, str | None]:
    """Return jaxlib, platform and device of a namespace, None for unknown ones."""
    jaxlib, platform, device = (None if part == UNKNOWN else part for part in namespace.split("_"))
    return jaxlib, platform, device


def is_namespace(text: str) -> bool:
    """Return whether executables can be in a namespace."""
    return _NAMESPACE.fullmatch(text) is not None


def directory_of(kind: Kind, namespace: str = "") -> str:
    """Return what the names of the entries of a kind, and of a namespace if there is one, begin with."""
    return f"{VERSION}/{kind}/{namespace}/" if namespace else f"{VERSION}/{kind}/"


def entry_name(kind: Kind, namespace: str, key: str) -> str:
    """Return the name of an entry's object.

    Raises:
        InvalidValue: the key is none, or the namespace is not one of the kind.
    """
    if (kind is Kind.EXECUTABLES) != bool(namespace) or (namespace and not is_namespace(namespace)):
        raise InvalidValue(f"'{namespace}' is no namespace of {kind}.")
    return f"{directory_of(kind, namespace)}{check_key(key)}{ENTRY_SUFFIX}"


def claim_name(namespace: str, key: str) -> str:
    """Return the name of the object that says that an executable is being compiled; raise as `entry_name`."""
    name = entry_name(Kind.EXECUTABLES, namespace, key).removesuffix(ENTRY_SUFFIX)
    return CLAIMS + name.removeprefix(directory_of(Kind.EXECUTABLES))


def run_name(command: Sequence[str]) -> str:
    """Return the name of the object that says what the last run of a command used: SHA-256 of its words, NUL-joined."""
    return RUNS + hashlib.sha256("\0".join(command).encode(errors="surrogateescape")).hexdigest()


def digest_name(name: str) -> str:
    """Return the name of the object that holds the digest of the entry with a name."""
    return name.removesuffix(ENTRY_SUFFIX) + DIGEST_SUFFIX


def parse_name(name: str) -> EntryName | None:
    """Return what the name of an object stands for; None if it belongs to no entry."""
    version, _, rest = name.partition("/")
    kind_text, _, rest = rest.partition("/")
    if version != VERSION or kind_text not in set(Kind):
        return None
    kind = Kind(kind_text)
    namespace, _, file = rest.rpartition("/")
    if (kind is Kind.EXECUTABLES) != bool(namespace) or (namespace and not is_namespace(namespace)):
        return None
    for suffix in (ENTRY_SUFFIX, DIGEST_SUFFIX):
        key = file.removesuffix(suffix)
        if key != file and is_key(key):
            return EntryName(kind, namespace, key, suffix == DIGEST_SUFFIX)
    return None


def generation_of(name: str) -> str | None:
    """Return the generation that an object with a name holds; None if it holds none."""
    generation = name.removeprefix(GENERATIONS).removesuffix(_ARCHIVE_SUFFIX)
    return generation if _GENERATION.fullmatch(generation) and generation_name(generation) == name else None


def generation_name(name: str) -> str:
    """Return the name of the object that holds a generation.

    Raises:
        InvalidValue: the name is no word that every store takes.
    """
    if not _GENERATION.fullmatch(name):
        raise InvalidValue(
            f"'{name}' is no name of a generation: use letters, digits and . _ + -, as in nightly-2026-01-31."
        )
    return f"{GENERATIONS}{name}{_ARCHIVE_SUFFIX}"
