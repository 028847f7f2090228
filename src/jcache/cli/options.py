"""Options that several commands share, their completion, and opening the store that they name."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Annotated

import typer

from jcache.cli.stores import store_of
from jcache.errors import InvalidValue
from jcache.layout import FileKind, Kind, Root, member, parse_kind
from jcache.store.roots import choose_path, open_root
from jcache.store.store import Store
from jcache.text import is_url, masked


def completing(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function for `autocompletion` that returns the choices that begin with a text."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


complete_kinds = completing(Kind)


def complete_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return at most 200 keys of the chosen root that begin with a text and are not on the command line yet.

    The list always holds the last of all matching keys, in order, so that the shell, which inserts the common
    beginning of the candidates, never inserts more than the common beginning of all matching keys.
    """
    given = ctx.params.get("keys") or ()
    try:
        root = ctx.params.get("root")
        chosen = open_root(choose_path(root and os.path.expandvars(root), os.environ))
        keys = sorted({key for kind in Kind for key in _keys(chosen, kind, incomplete) if key not in given})
    except Exception:  # noqa: BLE001  completion prints candidates or nothing, never an error
        return []
    return keys if len(keys) <= 200 else keys[:199] + keys[-1:]


def _keys(root: Root, kind: Kind, beginning: str) -> Iterator[str]:
    """Yield keys by file names alone: no entry is opened, and nothing is written."""
    if not root.layout.follows_jax:
        from jcache.store.listing import list_root

        yield from (key for key in list_root(root, kind).columns.keys if key.startswith(beginning))
        return
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root.directory(kind)) as items:
        for item in items:
            if item.name.startswith(beginning):
                what, key = member(item.name)
                if what in (FileKind.ENTRY, FileKind.LEGACY) and item.is_file(follow_symlinks=False):
                    yield key


KEYS_HELP = "Keys as `ls` prints them, or beginnings of keys or of hashes that no other key shares."
_ROOT_HELP = (
    "Cache directory (root): one that jcache made, or one that JAX fills; by default $JCACHE_DIR, then "
    "$JAX_COMPILATION_CACHE_DIR, then jcache in the user's cache directory."
)
RootOption = Annotated[str | None, typer.Option("--root", metavar="DIR", help=_ROOT_HELP)]
RootOrStoreOption = Annotated[
    str | None, typer.Option("--root", metavar="DIR", help=f"{_ROOT_HELP} Or the URL of a store.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: bytes as integers, times as RFC 3339.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print less.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print more.")]
KindsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kind", metavar="KIND", help="Only entries of this kind; may be repeated.", autocompletion=complete_kinds
    ),
]
KeysArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY]...", help=KEYS_HELP, autocompletion=complete_keys)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Remove without a question.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Print what would be done, and change nothing.")]
GenerationsOption = Annotated[
    bool,
    typer.Option(
        "--generations", help="In a store: the generations, which are the archives that `push --as NAME` has stored."
    ),
]
XlaOption = Annotated[bool, typer.Option("--xla", help="Remove XLA's own sub-caches (autotune, kernels) as well.")]


def is_remote(root: str | None) -> bool:
    """Return whether ``--root`` is the URL of a store."""
    return root is not None and is_url(root)


def refuse_options(url: str | None, **given: object) -> None:
    """Raise InvalidValue if an option was given that a store does not have.

    Args:
        url: value of ``--root``, the URL of a store.
        given: the options' values, by their names.
    """
    if wrong := [f"--{name.replace('_', '-')}" for name, value in given.items() if value]:
        raise InvalidValue(f"{wrong[0]} works on a cache directory, and {masked(str(url))} is a store: leave it out.")


def open_store(root: str | None) -> AbstractContextManager[Store]:
    """Return a context that opens the store of the chosen root, as `store_of` does.

    Args:
        root: value of ``--root``.

    Raises:
        NoCacheHere: the directory does not exist or is not a cache.
        InvalidValue: the root or ``$JCACHE_LOCK_TIMEOUT`` is not a valid value.
    """
    return store_of(open_root(choose_path(root, os.environ)))


def kinds_of(texts: list[str] | None) -> tuple[Kind, ...]:
    """Return the named kinds, or all kinds if none is named."""
    return tuple(dict.fromkeys(parse_kind(text) for text in texts)) if texts else tuple(Kind)
