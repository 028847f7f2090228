"""Addresses of stores: parse a URL, and print it without passwords and signatures."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from jcache.errors import InvalidValue
from jcache.text import masked

OBJECT_STORES: Final = ("s3", "gs", "az", "file")
WEB: Final = ("http", "https")
BAZEL: Final = "bazel+"  # before http or https: bazel-remote, which stores bytes under their digests
SCHEMES: Final = (*OBJECT_STORES, *WEB, *(BAZEL + scheme for scheme in WEB))
_QUOTED: Final = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "%?#@"})


class Address(NamedTuple):
    """The address of a store.

    Attributes:
        scheme: one of `SCHEMES`.
        host: bucket, container or host with its port; empty for ``file``.
        path: prefix of the objects' names, without slashes around it; of ``file`` an absolute path.
        user, password: credentials in the URL, which are never printed.
        query: the query of an HTTP address, such as a signature, which every request repeats and nobody prints.
    """

    scheme: str
    host: str
    path: str
    user: str | None = None
    password: str | None = None
    query: str = ""

    def __str__(self) -> str:
        path = (self.path if self.scheme == "file" else f"/{self.path}" if self.path else "").translate(_QUOTED)
        return f"{self.scheme}://{self.host}{path}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    @property
    def is_web(self) -> bool:
        """Whether it is plain HTTP, which cannot list."""
        return self.scheme.removeprefix(BAZEL) in WEB


def parse_address(text: str) -> Address:
    """Return the address that a URL gives.

    Raises:
        InvalidValue: it is no URL of a store.
    """
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise InvalidValue(f"'{masked(text)}' is no URL: write one like s3://bucket/prefix.") from None
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES or "://" not in text:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise InvalidValue(f"'{masked(text)}' is no address of a store: it begins with none of {known}.")
    _check(text, scheme, parts)
    path = unquote(parts.path)
    path = path.rstrip("/") or "/" if scheme == "file" else "/".join(filter(None, path.split("/")))
    host = parts.netloc.rpartition("@")[2]
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    return Address(scheme, host, path, user, password, parts.query)


def check_can_sign(address: Address) -> None:
    """Raise InvalidValue if signatures cannot be required of a store, since it cannot list what was signed."""
    if address.is_web:
        raise InvalidValue(
            f"Signatures cannot be required of {address}, which is plain HTTP and cannot list the manifests that are "
            "signed: name the store behind it."
        )


def _check(text: str, scheme: str, parts: SplitResult) -> None:
    """Raise InvalidValue if a part of a URL is missing, or is one that its scheme does not have."""
    shown = masked(text)
    is_web = scheme.removeprefix(BAZEL) in WEB
    if scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path):
        raise InvalidValue(f"'{shown}' names no file: write file:// and an absolute path, with three slashes.")
    if scheme != "file" and not parts.hostname:
        raise InvalidValue(f"'{shown}' names no {'host' if is_web else 'bucket'}: write {scheme}://NAME/PREFIX.")
    if parts.fragment or (not is_web and (parts.query or parts.username is not None)):
        raise InvalidValue(
            f"'{shown}' has parts that {scheme}:// does not take: credentials and endpoints come from the environment."
        )
    if scheme != "file" and "@" in text.split("://", 1)[1].removeprefix(parts.netloc):
        raise InvalidValue(f"'{shown}' has an @ behind its host: write %40, and in a password also %2F, %3F and %23.")
    path = unquote(parts.path)
    is_odd = not text.isprintable() or not path.isprintable() or (scheme != "file" and "\\" in path)
    if is_odd or {".", ".."} & set(path.split("/")):
        raise InvalidValue(f"'{shown}' is no address of a store: its path has characters or parts that no name has.")
