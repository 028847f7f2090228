"""Failures of stores as errors of jcache: one sentence each, without credentials and without the store's own text."""

from __future__ import annotations

from typing import Final

from jcache.errors import InvalidValue, JcacheError, NoCacheHere, OutOfReach, RemoteDenied, RemoteUnavailable
from jcache.remote.address import Address

_TEXTS: Final = (  # of obstore's errors, which name neither status nor cause otherwise
    (("NoSuchBucket", "ContainerNotFound", "bucket does not exist"), NoCacheHere, "there is no such bucket"),
    (("kind: Timeout", "timed out", "TimedOut"), RemoteUnavailable, "it did not answer in time"),
    (("kind: Connect", "error trying to connect"), RemoteUnavailable, "no connection could be made"),
    (("kind: Body", "kind: Decode", "NoContentRange", "UnexpectedEof", "unexpected EOF", "ended early"),
     RemoteUnavailable, "its answer broke off"),
    (("kind: Request",), RemoteUnavailable, "the connection broke"),
    (("service account file", "pem file", "Invalid RSA key"),
     RemoteDenied, "the credentials in the environment cannot be read"),
    (("InvalidAccessKeyId", "SignatureDoesNotMatch", "status: 401"), RemoteDenied, "it knows no such credentials"),
    (("status: 403", "AccessDenied", "Permission denied", "PermissionDenied"), RemoteDenied, "it does not allow that"),
    (("Received redirect", "status: 301", "status: 307"), RemoteUnavailable, "the bucket is in another region"),
    (("169.254.169.254", "metadata endpoint", "MissingCredentials", "No credentials"),
     RemoteDenied, "no credentials were found in the environment"),
    (("No space left", "StorageFull"), RemoteUnavailable, "it is full"),
    (("Read-only file system",), RemoteDenied, "it is read-only"),
    (("File name too long",), OutOfReach, "the name of an entry is too long for its files"),
    (("Not a directory", "File exists", "No such file or directory"), RemoteUnavailable, "no directory can be there"),
)  # fmt: skip
_ADVICE: Final[dict[type[JcacheError], str]] = {
    NoCacheHere: "make it, or name another URL",
    RemoteDenied: "check the credentials in the environment, and what they allow",
    RemoteUnavailable: "check the address, or try again later",
    InvalidValue: "name the store behind it",
    OutOfReach: "leave such entries out, as by --filter 'name!=NAME', or name another URL",
}


def failure(address: Address, doing: str, error: BaseException) -> JcacheError:
    """Return the error of jcache for one of obstore's.

    Args:
        address: address of the store.
        doing: what was not done, such as ``read from``.
        error: the library's error.
    """
    text = str(error)
    for signs, kind, reason in _TEXTS:
        if any(sign in text for sign in signs):
            return failed(address, doing, reason, kind)
    status = text.partition("status: ")[2].partition(",")[0].strip()
    return failed(address, doing, f"it answers {status}" if status.isdecimal() else "the request failed")


def failed(address: Address, doing: str, reason: str, kind: type[JcacheError] = RemoteUnavailable) -> JcacheError:
    """Return an error that says what could not be done with a store, why, and what to do."""
    is_denied_directory = kind is RemoteDenied and address.scheme == "file"
    advice = "check the permissions of the directory" if is_denied_directory else _ADVICE[kind]
    return kind(f"Cannot {doing} {address}: {reason}; {advice}.")
