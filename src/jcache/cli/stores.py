"""Open the store of a root for a command and tell what goes wrong with it, and find who may sign a store's entries."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jcache.cli.output import message, warning
from jcache.errors import InvalidValue
from jcache.layout import Root
from jcache.store.directories import follow_roots_once
from jcache.store.locking import timeout_in
from jcache.store.remote_entries import SIGNERS_VARIABLE
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


def remote_signers(option: str | None, *, required: bool) -> Path | None:
    """Return the file of those whose entries of a store may be taken; None for everybody's.

    Args:
        option: value of ``--allowed-signers``; without it, the environment names the file.
        required: whether ``--require-signature`` is given.

    Raises:
        InvalidValue: one of the options is given, and no file is named.
    """
    text = os.environ.get(SIGNERS_VARIABLE, "") if option is None else option
    if not text and (required or option is not None):
        raise InvalidValue(
            f"--require-signature needs a list of signers: name a file with --allowed-signers or in {SIGNERS_VARIABLE}."
        )
    return Path(os.path.abspath(os.path.expanduser(text))) if text else None
