"""Stores that tests make, and the entries in them."""

from jcache.layout import Kind, Root
from jcache.store.store import Store
from tests.helpers.entries import files_of

EXECUTABLES = Kind.EXECUTABLES


def bounded(root: Root, bound: int) -> Store:
    """Return a store under a bound."""
    return Store(root, max_bytes=bound, lock_timeout=60)


def pin(root: Root, *keys: str) -> None:
    """Pin executables."""
    with Store(root) as store:
        store.pins.add((EXECUTABLES, k) for k in keys)


def shelf(root: Root) -> dict[str, int]:
    """Return the bytes of the executables, by their keys."""
    return files_of(root.directory(EXECUTABLES))
