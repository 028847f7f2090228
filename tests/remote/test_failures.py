"""Errors of a library become a sentence each, without its own text."""

import pytest

from jcache.errors import JcacheError, NoCacheHere, OutOfReach, RemoteDenied, RemoteUnavailable
from jcache.remote.address import parse_address
from jcache.remote.failures import failure

HERE = parse_address("s3://bucket/x")


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("<Code>NoSuchBucket</Code>", NoCacheHere, "there is no such bucket"),
        ("kind: Timeout,\n", RemoteUnavailable, "it did not answer in time"),
        ("kind: Connect,\n", RemoteUnavailable, "no connection could be made"),
        ("<AWSAccessKeyId>AKIA</AWSAccessKeyId> SignatureDoesNotMatch", RemoteDenied, "it knows no such credentials"),
        ("status: 403,", RemoteDenied, "it does not allow that"),
        ("inner: Status {\n status: 503,\n", RemoteUnavailable, "it answers 503"),
        ("File name too long (os error 36)", OutOfReach, "the name of an entry is too long for its files"),
        ("AKIA something new", RemoteUnavailable, "the request failed"),
    ],
)
def test_reasons(text: str, kind: type[JcacheError], reason: str) -> None:
    """The error says where, why and what to do, and nothing that a store or a library has written."""
    error = failure(HERE, "read from", OSError(text))
    assert type(error) is kind and str(error).startswith(f"Cannot read from s3://bucket/x: {reason}; ")
    assert "AKIA" not in str(error) and str(error).endswith(".")


def test_directories_have_no_credentials() -> None:
    """Whoever may not write to a directory is told to look at its permissions, and what is in its place."""
    here = parse_address("file:///x/y")
    assert str(failure(here, "write to", OSError("Read-only file system"))).endswith("permissions of the directory.")
    assert "no directory can be there" in str(failure(here, "write to", OSError("Not a directory (os error 20)")))
