"""`jcache pin` and `jcache unpin`: what prune and clear must keep."""

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from jcache import clock
from jcache.cli import output
from jcache.cli.options import JsonOption, QuietOption, RootOption, complete_keys, open_store
from jcache.cli.removal_report import PARTLY
from jcache.entry import Entry
from jcache.errors import UnknownKey
from jcache.ledger import Known
from jcache.store import Store

KeysArgument = Annotated[
    list[str],
    typer.Argument(metavar="KEY...", help="Keys, or unambiguous beginnings of them.", autocompletion=complete_keys),
]


def pin(keys: KeysArgument, root: RootOption = None, json: JsonOption = False, quiet: QuietOption = False) -> int:
    """Keep entries whatever prune and clear are told.

    Example: jcache pin jit_train_step-6002a7e7
    """

    def record(store: Store, entries: Iterable[Entry]) -> None:
        now = clock.now_ns()
        store.ledger.record(Known(e.kind, e.key, pinned_ns=now) for e in entries)

    return _change(keys, root, "pinned", record, json=json, quiet=quiet)


def unpin(keys: KeysArgument, root: RootOption = None, json: JsonOption = False, quiet: QuietOption = False) -> int:
    """Let prune and clear remove entries again.

    Example: jcache unpin jit_train_step-6002a7e7
    """

    def record(store: Store, entries: Iterable[Entry]) -> None:
        store.ledger.unpin((e.kind, e.key) for e in entries)

    return _change(keys, root, "unpinned", record, json=json, quiet=quiet)


def _change(
    keys: list[str],
    root: str | None,
    done: str,
    record: Callable[[Store, Iterable[Entry]], None],
    *,
    json: bool,
    quiet: bool,
) -> int:
    found: list[Entry] = []
    failures: list[str] = []
    with open_store(root) as store:
        for key in keys:
            try:
                found.append(store.find(key))
            except UnknownKey as error:
                failures.append(str(error))
        if found:
            record(store, found)
        if json:
            output.as_json({"root": str(store.root.path), done: [e.key for e in found], "unknown": failures})
        elif not quiet:
            for entry in found:
                output.data(f"{done} {entry.key}")
    for failure in failures:
        output.error(failure)
    return 0 if not failures else PARTLY if found else 1
