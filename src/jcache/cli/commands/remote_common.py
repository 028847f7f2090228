"""What `jcache push`, `pull` and `sync` share: the URL, the selection, and what they say when they end early."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from jcache.admin.fields import FIELDS
from jcache.admin.filters import Filter, parse_filter
from jcache.admin.selection import Selection
from jcache.cli import INTERRUPTED, output
from jcache.cli.options import kinds_of
from jcache.errors import InvalidValue, JcacheError
from jcache.shipping.exporter.selection import ExportRequest
from jcache.store.remote_entries import VARIABLE
from jcache.text import is_url
from jcache.units import parse_age

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[URL] [KEY]...",
        help="The store (s3://, gs://, az://, file://, http(s):// or bazel+http(s)://; by default $JCACHE_REMOTE), and "
        "the keys of the entries, or beginnings of keys that no other key shares; by default, all entries.",
    ),
]
UrlArgument = Annotated[
    str | None, typer.Argument(metavar="[URL]", help="The store, as for push; by default $JCACHE_REMOTE.")
]
UsedSinceOption = Annotated[
    str | None, typer.Option("--used-since", metavar="AGE", help="Only entries used within this time, such as 7d.")
]
RunOption = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="Only entries that this recorded run used; 'last' is the last one."),
]


class StoreWords(NamedTuple):
    """The words of a command line: the store's URL, and what is behind it."""

    url: str
    words: tuple[str, ...]


def named(words: Sequence[str] | None) -> StoreWords:
    """Return the URL among some words, or the default one, and the other words.

    Raises:
        InvalidValue: there is no URL.
    """
    first, rest = (words or [""])[0], tuple(words or ())
    if is_url(first):
        return StoreWords(first, rest[1:])
    url = os.environ.get(VARIABLE, "")
    if not url:
        what = f"'{first}' is no URL" if first else "No store is named"
        raise InvalidValue(f"{what}: write one, such as s3://bucket/prefix or file:///path, or set {VARIABLE}.")
    return StoreWords(url, rest)


def filters_of(texts: list[str] | None, used_since: str | None) -> tuple[Filter, ...]:
    """Return the filters of a command line."""
    since = () if used_since is None else (Filter(FIELDS["used"], "<=", parse_age(used_since)),)
    return (*map(parse_filter, texts or ()), *since)


def request_of(
    keys: Sequence[str], kind: list[str] | None, filters: tuple[Filter, ...], run: str | None
) -> ExportRequest:
    """Return the selection of entries of a root."""
    return ExportRequest(selection=Selection(kinds=kinds_of(kind), filters=filters), keys=tuple(keys), run=run)


@contextmanager
def telling_progress(done: str, count: Callable[[], int], again: str) -> Iterator[None]:
    """Print, when a command ends early, how many entries it has dealt with, completely.

    Args:
        done: what was done with them, such as ``pushed``.
        count: returns how many.
        again: the command, which adds the rest.
    """
    try:
        yield
    except (JcacheError, KeyboardInterrupt) as error:
        number = count()
        if number or isinstance(error, KeyboardInterrupt):
            entries = output.count(number, "entry is", "entries are")
            output.message(f"{entries} {done} so far, completely; the same {again} again adds the rest.")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        raise
