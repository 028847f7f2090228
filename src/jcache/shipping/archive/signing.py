"""Signatures of manifests, made and checked as ``ssh-keygen -Y sign`` and ``-Y verify`` do (OpenSSH's PROTOCOL.sshsig).

Numbers are of 4 bytes, big-endian; a string is its length and its bytes::

    signature = "-----BEGIN SSH SIGNATURE-----" LF (base64 of blob, in lines of one length) LF
                "-----END SSH SIGNATURE-----" LF
    blob      = "SSHSIG" number(1) string(key) string(namespace) string(reserved) string(hash) string(proof)
    key       = string("ssh-ed25519") string(32 bytes)
    proof     = string("ssh-ed25519") string(64 bytes: Ed25519 of what is signed)
    signed    = "SSHSIG" string(namespace) string(reserved) string(hash) string(hash of the data)
    hash      = "sha512" or "sha256"

Only Ed25519 is taken: keys of 32 bytes, one way to sign, nothing to choose wrongly.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import InvalidValue, Untrusted
from jcache.shipping.archive.allowed_signers import read_allowed_signers

NAMESPACE: Final = "jcache-archive"
_MAGIC: Final = b"SSHSIG"
_ED25519: Final = b"ssh-ed25519"
_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"
_END: Final = b"-----END SSH SIGNATURE-----\n"
_WIDTH: Final = 70  # as ssh-keygen has it
_HASHES: Final = {b"sha512": hashlib.sha512, b"sha256": hashlib.sha256}
_MAX_SIGNATURE: Final = 64 << 10


class _Signature(NamedTuple):
    key: bytes
    namespace: bytes
    reserved: bytes
    hash: bytes
    proof: bytes


def sign(data: bytes, key_path: Path, namespace: str = NAMESPACE) -> bytes:
    """The armored signature of the data by an OpenSSH private key.

    Raises:
        InvalidValue: the file is not an unencrypted Ed25519 private key of OpenSSH.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = _private_key(key_path)
    if not isinstance(private, Ed25519PrivateKey):
        raise InvalidValue(f"{key_path} is no Ed25519 key: make one with `ssh-keygen -t ed25519`.")
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    claim = _Signature(_string(_ED25519) + _string(raw), namespace.encode(), b"", b"sha512", b"")
    proof = _string(_ED25519) + _string(private.sign(_signed(claim, data)))
    return _armored(_blob(claim._replace(proof=proof)), _WIDTH)


def verify(data: bytes, signature: bytes, allowed_signers: Path, namespace: str, now_ns: int) -> str:
    """The principals, as ``allowed_signers`` has them (see ssh-keygen(1)), of the key that made the signature.

    Args:
        data: what should have been signed.
        signature: armored.
        allowed_signers: file of principals and their keys.
        namespace: what the signature must be for.
        now_ns: nanoseconds since 1970, for keys that are valid for a time.

    Raises:
        Untrusted: the signature is not one of the data, or its key is not allowed to sign for this namespace now.
        InvalidValue: the file of allowed signers cannot be read, or a line of it is malformed.
    """
    signers = read_allowed_signers(allowed_signers)
    key = signed_by(data, signature, namespace)
    known = [signer for signer in signers if signer.key == key]
    if not known:
        digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
        raise Untrusted(
            f"The signature is by a key that {allowed_signers} does not list: SHA256:{digest}: add it there if you "
            "trust whose it is."
        )
    signer = next((signer for signer in known if signer.may_sign(namespace, now_ns)), None)
    if signer is None:
        raise Untrusted(
            f"{known[0].principals} may not sign for '{namespace}' now, as {allowed_signers} has it in line "
            f"{known[0].line}."
        )
    return signer.principals


def signed_by(data: bytes, signature: bytes, namespace: str) -> bytes:
    """The key that made the signature, whosever it is.

    Raises:
        Untrusted: it is not a signature of the data, for this namespace.
    """
    claim = _parsed(signature)
    if claim.namespace != namespace.encode():
        raise Untrusted(f"The signature is for {claim.namespace.decode(errors='replace')!r}, not for '{namespace}'.")
    _check_proof(claim, data)
    return claim.key


def _private_key(path: Path) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidValue(f"Cannot read the key {path}: {error.strerror or error}.") from error
    try:
        return serialization.load_ssh_private_key(data, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        if isinstance(error, TypeError) or "password-protected" in str(error):  # a ValueError in cryptography 42
            raise InvalidValue(
                f"The key {path} has a passphrase, which jcache does not ask for: sign with a key that has none, as "
                f"`ssh-keygen -t ed25519 -N '' -f FILE` makes one."
            ) from error
        raise InvalidValue(f"{path} is no private key of OpenSSH: make one with `ssh-keygen -t ed25519`.") from error


def _check_proof(claim: _Signature, data: bytes) -> None:
    """Raise Untrusted unless the key signed the data."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key, proof = _Reader(claim.key), _Reader(claim.proof)
    if (kind := key.string()) != _ED25519 or proof.string() != _ED25519:
        name = kind.decode("ascii", "replace")
        raise Untrusted(f"The signature is by a key of type {name!r}, and only ssh-ed25519 is taken.")
    if claim.hash not in _HASHES:
        raise Untrusted(f"The signature is over a hash named {claim.hash!r}, and only sha512 and sha256 are taken.")
    raw, made = key.string(), proof.string()
    key.end()
    proof.end()
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(made, _signed(claim, data))
    except (InvalidSignature, ValueError) as error:
        raise Untrusted("The manifest is not the one that was signed: get it anew from who made it.") from error


# The wire


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class _Reader:
    """Takes strings off a blob."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def string(self) -> bytes:
        length = int.from_bytes(self._data[:4], "big")
        if len(self._data) < 4 + length:
            raise Untrusted("The signature ends too early.")
        value, self._data = self._data[4 : 4 + length], self._data[4 + length :]
        return value

    def end(self) -> None:
        if self._data:
            raise Untrusted("The signature has something behind its end.")


def _blob(claim: _Signature) -> bytes:
    return _MAGIC + (1).to_bytes(4, "big") + b"".join(map(_string, claim))


def _signed(claim: _Signature, data: bytes) -> bytes:
    digest = _HASHES[claim.hash](data).digest()
    return _MAGIC + b"".join(map(_string, (claim.namespace, claim.reserved, claim.hash, digest)))


def _armored(blob: bytes, width: int) -> bytes:
    text = base64.b64encode(blob)
    lines = (text[i : i + width] + b"\n" for i in range(0, len(text), width))
    return b"".join((_BEGIN, *lines, _END))


def _parsed(signature: bytes) -> _Signature:
    """What a signature claims; it must be written in just the way that it has to be, so that every byte counts."""
    if len(signature) > _MAX_SIGNATURE or not signature.startswith(_BEGIN) or not signature.endswith(_END):
        raise Untrusted("The signature is not one of SSH, as `ssh-keygen -Y sign` makes them.")
    body = signature[len(_BEGIN) : -len(_END)]
    try:
        blob = base64.b64decode(body.replace(b"\n", b""), validate=True)
    except binascii.Error as error:
        raise Untrusted("The signature is not base64.") from error
    if not blob or _armored(blob, body.index(b"\n")) != signature:
        raise Untrusted("The signature is not written as `ssh-keygen -Y sign` writes them.")
    if blob[:10] != _MAGIC + (1).to_bytes(4, "big"):
        raise Untrusted("The signature is not one of version 1 of SSHSIG.")
    reader = _Reader(blob[10:])
    claim = _Signature(*(reader.string() for _ in _Signature._fields))
    reader.end()
    return claim
