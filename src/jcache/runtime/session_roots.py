"""Choose and open the roots of a session: the one that is read and written, and the read-only ones."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jcache.errors import CannotWrite, InvalidValue, NoCacheHere
from jcache.jax_internals import cache_hook, config
from jcache.layout import Kind, Root
from jcache.runtime.overrides import DIRECTORY, set_by_program
from jcache.runtime.settings import EnableRequest, Write
from jcache.runtime.warn import warn_once
from jcache.store import files
from jcache.store.remote_entries import SIGNERS_VARIABLE, VARIABLE, RemoteEntries
from jcache.store.roots import choose_path, create_root, open_own, open_root, wants_plain


class StoreBehind(NamedTuple):
    """The store behind the roots of a session.

    Attributes:
        url: its URL; empty if there is none.
        signers: file of those whose entries may be used; None for everybody's.
    """

    url: str
    signers: Path | None


class SessionRoots:
    """The roots of a request to `jcache.enable`.

    Args:
        request: the arguments of `jcache.enable`.
        warn: receives a sentence on each root that cannot be used as requested.

    Attributes:
        configured: the directory that JAX was configured with at construction; None if there was none.
        is_unwritable: whether the root cannot be written.
        behind: the store behind the roots.
    """

    def __init__(self, request: EnableRequest, warn: Callable[[str], object]) -> None:
        self.configured = config.directory()
        self.is_unwritable = False
        self.behind = store_behind(request)
        self._request = request
        self._warn = warn
        self._is_set_by_program = set_by_program(DIRECTORY) is not None

    def path(self) -> Path:
        """Return the path of the root.

        Raises:
            NoCacheHere: there is no usable path.
        """
        if self._request.root is None and not os.environ.get("JCACHE_DIR") and self._is_set_by_program:
            return choose_path(str(self.configured), os.environ, source=f"{DIRECTORY}, which the program has set")
        return choose_path(self._request.root, self._environment(), source="root")

    def open(self) -> Root | None:
        """Return the root, and make it if it does not exist; warn and return None if it cannot be used."""
        try:
            path = self.path()
            plain = wants_plain(self._request.root, self._environment())
            try:
                root = create_root(path, plain=plain)
                self._check_writable(root)
            except CannotWrite as error:
                self._warn(f"{error} Programs run, but none is stored.")
                self.is_unwritable = True
                root = open_root(path) if path.is_dir() else Root(path, plain=plain)
        except NoCacheHere as error:
            self._warn(f"{error} JAX is unchanged.")
            return None
        directory = root.directory(Kind.EXECUTABLES)
        if not root.plain and directory.is_symlink():
            self._warn(
                f"{directory} is a symbolic link, which is not followed: name its target as root. JAX is unchanged."
            )
            return None
        return root

    def open_read_only(self) -> Iterator[Root]:
        """Yield the read-only roots; warn of each that cannot be read."""
        for text in self._request.read_only:
            try:
                yield open_own(choose_path(text, os.environ, source="read_only"))
            except NoCacheHere as error:
                self._warn(f"{error} It is not read.")

    def open_remote(self, note: Callable[[str], object]) -> RemoteEntries | None:
        """Return the store behind the roots, None if there is none; warn if it cannot be used.

        Args:
            note: receives what it means that this program also writes to the store, if it does.
        """
        url, signers = self.behind
        if not url:
            return None
        try:
            from jcache.runtime.remote_tier import RemoteTier
            from jcache.verify.signatures import read_signers

            tier = RemoteTier(
                url,
                writes=self._request.remote_write,
                signers=None if signers is None else read_signers(signers),
                platforms=cache_hook.platforms,
                warn=partial(warn_once, (VARIABLE, url)),
            )
            if self._request.remote_write and signers is not None:
                note(f"What this program stores in {tier} has no signature, and no program that requires one uses it.")
            elif self._request.remote_write:
                note(
                    f"This program runs code that it reads from {tier}, and it can write there. Who can write there "
                    "can run code in all programs that read: let few jobs write, and give the others read-only "
                    "credentials."
                )
            return tier
        except InvalidValue as error:
            self._warn(f"{error} No store is used.")
            return None

    def may_write(self) -> bool:
        """Return whether this process stores executables and traces."""
        return self._request.write is Write.ALL or cache_hook.process_index() == 0

    def _environment(self) -> Mapping[str, str]:
        """Return the environment, in which the configured directory replaces JAX's own variable."""
        if self.configured is None:
            return os.environ
        return ChainMap({DIRECTORY.upper(): str(self.configured)}, os.environ)

    def _check_writable(self, root: Root) -> None:
        if self.may_write():
            directory = root.directory(Kind.EXECUTABLES)
            with files.refusal(f"write to {directory}"):
                directory.mkdir(exist_ok=True)
                os.unlink(files.create_temporary(str(directory)))


def store_behind(request: EnableRequest) -> StoreBehind:
    """Return the store that was requested, else the one that the environment names, and the same for its signers."""
    url = os.environ.get(VARIABLE, "") if request.remote is None else request.remote
    signers = os.environ.get(SIGNERS_VARIABLE, "") if request.remote_signers is None else request.remote_signers
    return StoreBehind(url, Path(os.path.expanduser(signers)) if signers else None)
