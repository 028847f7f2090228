"""The store that `jcache run --remote` asks for what a root lacks. This module does not need Typer."""

from collections.abc import Callable

from jcache.cli import output
from jcache.errors import InvalidValue
from jcache.runtime.checked_reads import GetPlatforms, OpenRemote
from jcache.store.remote_entries import RemoteEntries


def opener_of(url: str, *, is_default: bool) -> OpenRemote | None:
    """Return what opens the store at a URL for the reads of a program; None for no URL.

    Args:
        url: the URL; empty for none.
        is_default: whether it comes from the environment: then the program runs without it if it is no URL of a store.

    Raises:
        InvalidValue: it is no URL of a store, or a package is not installed.
    """
    if not url:
        return None
    from jcache.remote import open_remote

    try:
        open_remote(url)
    except InvalidValue as error:
        if not is_default:
            raise
        output.warning(f"{error} The program runs without it.")
        return None

    def opens(platforms: GetPlatforms, namespace: Callable[[], str], warn: Callable[[str], object]) -> RemoteEntries:
        from jcache.runtime.remote_tier import RemoteTier

        return RemoteTier(url, platforms=platforms, namespace=namespace, warn=warn)

    return opens
