"""The store that `jcache run --remote` asks for what a root lacks. This module does not need Typer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.cli import output
from jcache.cli.stores import remote_signers
from jcache.errors import InvalidValue
from jcache.runtime.checked_reads import GetPlatforms, OpenRemote
from jcache.store.remote_entries import SIGNERS_VARIABLE, VARIABLE, RemoteEntries

if TYPE_CHECKING:
    from jcache.verify.signatures import Signers


class AskedStore(NamedTuple):
    """The store that a program asks.

    Attributes:
        opens: opens it for the reads of a program without jcache; None for no store.
        variables: the environment variables that name it for a program with jcache.
    """

    opens: OpenRemote | None = None
    variables: Mapping[str, str] = {}


AS_IN_ENVIRONMENT: Final = AskedStore()  # for programs with jcache alone


def asked_store(
    remote: str | None = None, *, require_signature: bool = False, allowed_signers: str | None = None
) -> AskedStore:
    """Return the store that the options of `jcache run` name, or else the environment.

    Raises:
        InvalidValue: the options name none, or one of which signatures cannot be required; or a package is missing.
    """
    url = os.environ.get(VARIABLE, "") if remote is None else remote
    signers = remote_signers(allowed_signers, required=require_signature)
    opens = opener_of(url, is_default=remote is None and allowed_signers is None, signers=signers)
    return AskedStore(opens, {VARIABLE: url, SIGNERS_VARIABLE: "" if signers is None else str(signers)})


def opener_of(url: str, *, is_default: bool, signers: Path | None = None) -> OpenRemote | None:
    """Return what opens the store at a URL for the reads of a program; None for no URL.

    Args:
        url: the URL; empty for none.
        is_default: whether it comes from the environment: then the program runs without it if it cannot be used.
        signers: file of those whose entries may be used; None for everybody's.

    Raises:
        InvalidValue: it is no URL of a store, or a package is not installed; or the signers cannot be required.
    """
    if not url:
        return None
    try:
        allowed = _checked(url, signers)
    except InvalidValue as error:
        if not is_default:
            raise
        output.warning(f"{error} The program runs without it.")
        return None

    def opens(platforms: GetPlatforms, namespace: Callable[[], str], warn: Callable[[str], object]) -> RemoteEntries:
        from jcache.runtime.remote_tier import RemoteTier

        return RemoteTier(url, signers=allowed, platforms=platforms, namespace=namespace, warn=warn)

    return opens


def _checked(url: str, signers: Path | None) -> Signers | None:
    """Return the signers of a file; raise InvalidValue as `opener_of`."""
    from jcache.remote import open_remote
    from jcache.remote.address import check_can_sign
    from jcache.verify.signatures import read_signers

    remote = open_remote(url)
    if signers is None:
        return None
    check_can_sign(remote.address)
    return read_signers(signers)
