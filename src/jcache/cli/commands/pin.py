"""`jcache pin` and `jcache unpin`: what prune and clear must keep."""

from typing import Annotated

import typer

from jcache.cli import output
from jcache.cli.options import JsonOption, QuietOption, RootOption, complete_keys, open_store
from jcache.cli.reports.removal_report import PARTLY
from jcache.entry import Entry
from jcache.errors import InvalidValue, UnknownKey
from jcache.store.store import Store

KeysArgument = Annotated[
    list[str],
    typer.Argument(metavar="KEY...", help="Keys, or unambiguous beginnings of them.", autocompletion=complete_keys),
]

OptionalKeysArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY", help="Keys, or unambiguous beginnings of them.", autocompletion=complete_keys),
]


def pin(keys: KeysArgument, root: RootOption = None, json: JsonOption = False, quiet: QuietOption = False) -> int:
    """Keep entries whatever prune and clear are told.

    Example: jcache pin jit_train_step-6002a7e7
    """
    with open_store(root) as store:
        found, failures = _found(store, keys)
        names = [(entry.kind, entry.key) for entry in found]
        if names:
            store.pins.add(names)
        return _report(store, "pinned", [key for _, key in names], failures, json=json, quiet=quiet)


def unpin(
    keys: OptionalKeysArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Unpin everything that is pinned.")] = False,
    root: RootOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Let prune and clear remove entries again.

    Example: jcache unpin jit_train_step-6002a7e7
    """
    if bool(keys) == every:
        raise InvalidValue("unpin needs to know what to unpin: name keys, or --all, and not both.")
    with open_store(root) as store:
        if every:
            gone = sorted(key for _, key in store.pins.clear())
            return _report(store, "unpinned", gone, [], json=json, quiet=quiet)
        found, failures = _found(store, keys or [])
        names = [(entry.kind, entry.key) for entry in found]
        if names:
            store.pins.remove(names)
        return _report(store, "unpinned", [key for _, key in names], failures, json=json, quiet=quiet)


def _found(store: Store, keys: list[str]) -> tuple[list[Entry], list[str]]:
    """The entries that are meant, and a sentence for each key that means none."""
    found: list[Entry] = []
    failures: list[str] = []
    for key in keys:
        try:
            found.append(store.find(key))
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
