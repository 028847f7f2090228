"""URLs are parsed, and never printed with what is secret in them."""

import pytest
from hypothesis import given, strategies as st

from jcache.errors import InvalidValue
from jcache.remote.address import Address, parse_address
from jcache.text import is_url, masked


@pytest.mark.parametrize(
    ("url", "address", "text"),
    [
        ("s3://bucket/a//b/", Address("s3", "bucket", "a/b"), "s3://bucket/a/b"),
        ("GS://bucket", Address("gs", "bucket", ""), "gs://bucket"),
        ("file:///var/x/", Address("file", "", "/var/x"), "file:///var/x"),
        ("s3://b/a%3Fb%2523", Address("s3", "b", "a?b%23"), "s3://b/a%3Fb%2523"),
        ("file:///a%20b", Address("file", "", "/a b"), "file:///a b"),
        ("http://h:8080/x", Address("http", "h:8080", "x"), "http://h:8080/x"),
        ("https://u:p%40@h/x?sig=S", Address("https", "h", "x", "u", "p@", "sig=S"), "https://h/x"),
        ("bazel+https://h/i", Address("bazel+https", "h", "i"), "bazel+https://h/i"),
    ],
)
def test_urls(url: str, address: Address, text: str) -> None:
    """Each part of a URL is found, and the text has no credentials."""
    assert parse_address(url) == address and str(address) == text and repr(address) == f"Address({text!r})"
    assert is_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/x", "s3:", "s3:///x", "s3:bucket", "file://host/x", "file://", "http://", "http://h:port/x", "bucket",
        "s3://key:secret@bucket/x", "s3://bucket/x?endpoint=y", "s3://bucket/x#y", "s3://bucket/../x", "s3://b/a\nb",
        "http://[::1/x", "s3://bucket/%2e%2e/x", "s3://b/a%0Ab", "s3://b/a\\b", "",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_store(url: str) -> None:
    """It is refused in one sentence."""
    with pytest.raises(InvalidValue) as caught:
        parse_address(url)
    assert str(caught.value).endswith(".") and "secret" not in str(caught.value)


def test_paths_are_no_addresses() -> None:
    """A directory is a directory, whatever is in its name."""
    assert not any(map(is_url, ("/a/b", "a:b", "~/x", "./s3://x", "C:\\x")))


@given(user=st.text("ab:%@#?/ ", max_size=5), secret=st.text("xyz@#?", min_size=1, max_size=6), query=st.booleans())
def test_secrets_are_never_printed(user: str, secret: str, query: bool) -> None:
    """Whatever the password has in it, neither an address nor an error shows it."""
    secret = f"S3CRET{secret}"
    url = f"https://h/x?sig={secret}" if query else f"https://{user}:{secret}@h/x"
    try:
        text = str(parse_address(url))
    except InvalidValue as error:
        text = str(error)
    assert "S3CRET" not in text and "S3CRET" not in masked(f"cannot read {url}")
