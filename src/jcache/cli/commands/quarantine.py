"""`jcache quarantine`: list, restore and drop entries that `verify --repair` or `import --replace` has moved there."""

import os
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from jcache import clock
from jcache.cli import output
from jcache.cli.options import JsonOption, QuietOption, RootOption, VerboseOption, completing, open_store
from jcache.cli.progress import progress
from jcache.cli.reports.removal_report import PARTLY
from jcache.errors import InvalidValue, JcacheError
from jcache.findings import Damage
from jcache.layout import short_key
from jcache.store import files
from jcache.store.quarantine import Quarantine
from jcache.store.quarantine_record import QuarantineRecord
from jcache.store.roots import choose_path, open_root
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_age, format_size, parse_age, rfc3339
from jcache.verify.repair import damage_of, restore

_ACTIONS = ("list", "restore", "drop")


def complete_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids in the quarantine of the chosen root that begin with a text."""
    try:
        root = open_root(choose_path(ctx.params.get("root"), os.environ))
        return [record.id for record in Quarantine(root).records() if record.id.startswith(incomplete)]
    except Exception:  # noqa: BLE001  completion prints candidates or nothing, never an error
        return []


ActionArgument = Annotated[
    str, typer.Argument(metavar="[list|restore|drop]", help="What to do.", autocompletion=completing(_ACTIONS))
]
WhichArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID|KEY]...",
        help="Ids or keys, or beginnings of them that no other one shares.",
        autocompletion=complete_ids,
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Restore or drop all entries.")]
OlderThanOption = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="AGE", help="Only entries that are in quarantine for longer than this, such as 30d."
    ),
]
ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="Restore an entry although its key exists again; the other one goes to quarantine."),
]


def quarantine(
    action: ActionArgument = "list",
    which: WhichArgument = None,
    root: RootOption = None,
    all_: AllOption = False,
    older_than: OlderThanOption = None,
    replace: ReplaceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """List, restore or drop the entries that `verify --repair` or `import --replace` moved to quarantine.

    With --all or --older-than, only sound entries are restored. A damaged or stale
    entry is restored only if it is named, with a warning. Drop removes for good.

    Example: jcache quarantine drop --older-than 30d
    """
    _check_arguments(action, named=bool(which), every=all_, bounded=bool(older_than), replace=replace)
    with open_store(root) as store:
        place = Quarantine(store.root)
        records = _select(place, which, older_than)
        if action == "list":
            _list(store, records, json=json, quiet=quiet, verbose=verbose)
            return 0
        failures: list[str] = []
        doing = progress(records, "restoring" if action == "restore" else "dropping")
        carry_out = partial(_restore, named=bool(which), replace=replace) if action == "restore" else _drop
        done = [
            record for record in doing if _is_done(partial(carry_out, store, place, record), action, record, failures)
        ]
        verb = "restored" if action == "restore" else "dropped"
        if json:
            done_json = [_as_json(record) for record in done]
            output.as_json({"root": str(store.root.path), verb: done_json, "failed": failures})
        elif not quiet:
            for record in done:
                output.data(f"{verb} {record.key}, {format_size(record.bytes)}")
        for failure in failures:
            output.error(failure)
        return 0 if not failures else PARTLY if done else 1


def _check_arguments(action: str, *, named: bool, every: bool, bounded: bool, replace: bool) -> None:
    """Raise InvalidValue if the arguments do not go together."""
    if action not in _ACTIONS:
        raise InvalidValue(f"'{action}' is not an action of quarantine: choose from {', '.join(_ACTIONS)}.")
    if action != "list" and not (named or every or bounded):
        raise InvalidValue(f"{action} needs entries: name ids or keys, or give --all or --older-than.")
    if replace and action != "restore":
        raise InvalidValue(f"--replace is an option of restore: {action} replaces nothing.")
    if named and every:
        raise InvalidValue("--all selects every entry: name ids or keys, or give --all, not both.")


def _select(place: Quarantine, which: list[str] | None, older_than: str | None) -> list[QuarantineRecord]:
    records = list({r.id: r for r in map(place.find, which)}.values()) if which else place.records()
    if older_than is None:
        return records
    before = clock.now_ns() - parse_age(older_than)
    return [record for record in records if record.quarantined_ns < before]


def _is_done(carry_out: Callable[[], None], action: str, record: QuarantineRecord, failures: list[str]) -> bool:
    """Carry out an action on one entry and return whether it succeeded; a failure is added to the list of failures."""
    try:
        with files.refusal(f"{action} {record.key}"):
            carry_out()
    except JcacheError as error:
        if error.exit_code != 1:
            raise
        failures.append(str(error))
        return False
    return True


def _restore(store: Store, place: Quarantine, record: QuarantineRecord, *, named: bool, replace: bool) -> None:
    """Restore an entry; a damaged or stale entry only if the command line names it."""
    damage = damage_of(store, place, record)
    what = "stale" if record.damage is Damage.STALE else "damaged"
    if damage is not None and not named:
        anyway = command(f"quarantine restore {record.id}", store.root.path)
        raise JcacheError(
            f"{record.key} stays in quarantine, since it is {what}: {damage} `{anyway}` restores it anyway."
        )
    restore(store, place, record, damage=damage, replace=replace)
    if damage is not None:
        again = command("verify --repair", store.root.path)
        output.warning(
            f"{record.key} was restored although it is {what}: {damage} `{again}` moves damaged entries to quarantine."
        )


def _drop(store: Store, place: Quarantine, record: QuarantineRecord) -> None:
    """Remove an entry for good."""
    del store
    place.drop(record)


def _list(store: Store, records: list[QuarantineRecord], *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        output.as_json({"root": str(store.root.path), "quarantine": [_as_json(record) for record in records]})
    elif quiet:
        for record in records:
            output.data(record.id)
    elif not records:
        output.data("Nothing is in quarantine")
    else:
        now = clock.now_ns()
        columns = [("id", "left"), ("key", "left"), ("bytes", "right"), ("since", "right"), ("damage", "left")]
        columns += [("evidence", "wrap")] if verbose else []
        rows = [
            (
                record.id,
                record.key if verbose else short_key(record.key),
                format_size(record.bytes),
                format_age(now - record.quarantined_ns),
                record.damage.replace("_", " "),
                *([record.evidence] if verbose else []),
            )
            for record in records
        ]
        output.rich(output.table(columns, rows))
        output.data(f"{output.count(len(records), 'entry', 'entries')}, {format_size(sum(r.bytes for r in records))}")


def _as_json(record: QuarantineRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "kind": record.kind,
        "key": record.key,
        "bytes": record.bytes,
        "damage": record.damage,
        "evidence": record.evidence,
        "digest": record.digest,
        "expected_digest": record.expected,
        "quarantined": rfc3339(record.quarantined_ns),
    }
