"""`jcache pin` and `jcache unpin`: entries that prune and clear keep."""

from collections.abc import Callable
from typing import Annotated

import typer

from jcache.cli import output
from jcache.cli.options import (
    KEYS_HELP,
    JsonOption,
    KeysArgument,
    QuietOption,
    RootOption,
    complete_keys,
    open_store,
)
from jcache.cli.reports.removal_report import PARTLY
from jcache.errors import InvalidValue, LedgerUnavailable, UnknownKey
from jcache.layout import Kind
from jcache.store.lookup import find_entry, find_pins
from jcache.store.store import Store

Name = tuple[Kind, str]


def pin(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help=KEYS_HELP, autocompletion=complete_keys)],
    root: RootOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Protect entries from prune and clear.

    Example: jcache pin jit_train_step-6002a7e7
    """
    with open_store(root) as store:
        names, failures = _found(lambda key: [_entry(store, key)], keys)
        if names:
            store.pins.add(names)
        return _report(store, "pinned", [key for _, key in names], failures, json=json, quiet=quiet)


def unpin(
    keys: KeysArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Unpin all entries.")] = False,
    root: RootOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Let prune and clear remove entries again.

    Example: jcache unpin jit_train_step-6002a7e7
    """
    if bool(keys) == every:
        raise InvalidValue("unpin needs entries: name keys, or give --all, not both.")
    with open_store(root) as store:
        if every:
            gone = sorted(key for _, key in store.pins.clear())
            return _report(store, "unpinned", gone, [], json=json, quiet=quiet)
        names, failures = _found(lambda key: _pins(store, key) or [_entry(store, key)], keys or [])
        if names:
            store.pins.remove(names)
        return _report(store, "unpinned", [key for _, key in names], failures, json=json, quiet=quiet)


def _entry(store: Store, key: str) -> Name:
    entry = find_entry(store, key)
    return entry.kind, entry.key


def _pins(store: Store, key: str) -> list[Name]:
    """Return the pins that a key names; their entries may no longer exist."""
    try:
        return find_pins(store, key)
    except LedgerUnavailable:
        return []


def _found(find: Callable[[str], list[Name]], keys: list[str]) -> tuple[list[Name], list[str]]:
    """Return the entries or pins that the keys name, and an error message for each key that names none."""
    found: list[Name] = []
    failures: list[str] = []
    for key in keys:
        try:
            found += find(key)
        except UnknownKey as error:
            failures.append(str(error))
    return found, failures


def _report(store: Store, done: str, keys: list[str], failures: list[str], *, json: bool, quiet: bool) -> int:
    if json:
        output.as_json({"root": str(store.root.path), done: keys, "unknown": failures})
    elif not quiet:
        for key in keys:
            output.data(f"{done} {key}")
    for failure in failures:
        output.error(failure)
    return 0 if not failures else PARTLY if keys else 1
