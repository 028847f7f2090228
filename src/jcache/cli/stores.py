"""Open the store of a root for a command, and tell what goes wrong with it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from jcache.cli.output import message, warning
from jcache.layout import Root
from jcache.store.directories import follow_roots_once
from jcache.store.locking import timeout_in
from jcache.store.store import Store


@contextmanager
def store_of(root: Root) -> Iterator[Store]:
    """Open the store of a root for a command; afterwards, print a warning for each part of it that failed."""
    follow_roots_once()
    timeout = timeout_in(os.environ)
    printed: set[str] = set()

    def waiting(text: str) -> None:
        """Print once per command that it waits for a lock, although it may lock many times."""
        if not printed:
            printed.add(text)
            message(text)

    with Store(root, lock_timeout=timeout, waiting=waiting) as store:
        yield store
    for notice in store.notices:
        warning(notice)


def bound_variables(root: Root) -> dict[str, str]:
    """Return the environment variables for the bound that files set; print a warning for each fault in the files."""
    from jcache.configuration.files import for_program, variables

    found, faults = for_program(root, os.environ)
    for fault in faults:
        warning(fault)
    return variables(found)
