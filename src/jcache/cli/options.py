"""The options that commands share, and how they open a root."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Annotated

import typer

from jcache.layout import Kind, Member, Root, member, parse_kind
from jcache.store.directories import follow_roots_once
from jcache.store.listing import list_root
from jcache.store.roots import choose_path, open_root
from jcache.store.store import Store


def complete_kinds(incomplete: str) -> list[str]:
    """Kinds that begin like this."""
    return [kind for kind in Kind if kind.startswith(incomplete)]


def complete_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of the chosen root that begin like this and were not given yet, at most 200.

    The last one is always among them, so that what all have in common is what all of the root's have in common.
    """
    given = ctx.params.get("keys") or ()
    try:
        root = ctx.params.get("root")
        chosen = open_root(choose_path(root and os.path.expandvars(root), os.environ))
        keys = sorted({key for kind in Kind for key in _keys(chosen, kind, incomplete) if key not in given})
    except Exception:  # noqa: BLE001  a shell that completes wants candidates or silence
        return []
    return keys if len(keys) <= 200 else keys[:199] + keys[-1:]


def _keys(root: Root, kind: Kind, beginning: str) -> Iterator[str]:
    """Keys by the names alone: no entry is opened or looked at, and nothing is written."""
    if not root.layout.follows_jax:
        yield from (key for key in list_root(root, kind).columns.keys if key.startswith(beginning))
        return
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root.directory(kind)) as items:
        for item in items:
            if item.name.startswith(beginning):
                what, key = member(item.name)
                if what in (Member.ENTRY, Member.LEGACY) and item.is_file(follow_symlinks=False):
                    yield key


RootOption = Annotated[
    str | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="Root or JAX cache directory; else $JCACHE_DIR, $JAX_COMPILATION_CACHE_DIR, the user's cache directory.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: bytes as integers, times as RFC 3339.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print less.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print more.")]
KindsOption = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Only this kind; may be repeated.", autocompletion=complete_kinds),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Print the same plan and change nothing.")]
XlaOption = Annotated[bool, typer.Option("--xla", help="Remove XLA's own sub-caches (autotune, kernels) as well.")]


def open_store(root: str | None) -> AbstractContextManager[Store]:
    """The store of the chosen root, as `store_of` gives it.

    Raises:
        NoCacheHere: there is none.
        InvalidValue: the root, or ``$JCACHE_LOCK_TIMEOUT``, cannot be read.
    """
    return store_of(open_root(choose_path(root, os.environ)))


@contextmanager
def store_of(root: Root) -> Iterator[Store]:
    """The store of a root for a command, and, once that is done, warnings of what was gone on without."""
    from jcache.cli.output import message, warning
    from jcache.store.locking import timeout_in

    follow_roots_once()
    timeout = timeout_in(os.environ)
    said: set[str] = set()

    def waiting(text: str) -> None:
        """Says once whom we wait for, however many batches the work has."""
        if not said:
            said.add(text)
            message(text)

    with Store(root, lock_timeout=timeout, waiting=waiting) as store:
        yield store
    for notice in store.notices:
        warning(notice)


def kinds_of(texts: list[str] | None) -> tuple[Kind, ...]:
    """The kinds that were named, or all."""
    return tuple(dict.fromkeys(parse_kind(text) for text in texts)) if texts else tuple(Kind)
