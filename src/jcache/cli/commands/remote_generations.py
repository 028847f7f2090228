"""What `jcache ls --generations` and `jcache rm --generations` do: list and remove what `push --as NAME` has stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jcache import clock
from jcache.cli import output
from jcache.cli.options import is_remote
from jcache.cli.progress import progress
from jcache.cli.stores import remote_signers
from jcache.errors import InvalidValue, UnknownKey
from jcache.remote.client import open_existing
from jcache.shipping.sync.generations import (
    ArchiveSignature,
    StoredGeneration,
    remove_generations,
    signature_of,
    stored_generations,
)
from jcache.text import command, masked
from jcache.units import format_age, format_size, rfc3339
from jcache.verify.signatures import read_signers

_SHOWN: Final = {"none": "nobody", "bad": "no allowed signer", "damaged": "damaged", "unchecked": "not checked"}
_COLUMNS: Final = [("generation", "left"), ("size", "right"), ("age", "right"), ("signed by", "fold")]


def store_url(root: str | None, **others: object) -> str:
    """Return the URL that ``--root`` gives; raise InvalidValue if it is none, or another option was given.

    Args:
        root: value of ``--root``.
        others: the values of the options that are about entries, by their names.
    """
    if root is None or not is_remote(root):
        raise InvalidValue("--generations needs a store: name one by --root, such as s3://bucket/prefix.")
    if wrong := [f"--{name}" for name, value in others.items() if value]:
        raise InvalidValue(f"{wrong[0]} selects entries, and --generations lists archives: leave one of them out.")
    return root


def ls(url: str, *, json: bool, quiet: bool) -> None:
    """List the generations of a store, the oldest first: size, age and who has signed them."""
    file = remote_signers(None, required=False)
    signers = None if file is None else read_signers(file)
    with open_existing(url) as remote:
        found = stored_generations(remote)
        if quiet:
            for one in found:
                output.data(one.name)
            return
        told = [(one, signature_of(remote, one, signers)) for one in progress(found, "reading generations")]
    if json:
        output.as_json({"root": str(remote), "generations": [_as_json(*each) for each in told]})
        return
    if not told:
        output.message("No generations.")
        return
    now_ns = clock.now_ns()
    rows = [
        (one.name, format_size(one.bytes), format_age(max(now_ns - one.written_ns, 0)),
         signature.signer or _SHOWN[signature.state])
        for one, signature in told
    ]  # fmt: skip
    output.rich(output.table(_COLUMNS, rows))
    total = format_size(sum(one.bytes for one in found))
    output.message(f"{output.count(len(found), 'generation', 'generations')}, {total}")


def _as_json(one: StoredGeneration, signature: ArchiveSignature) -> dict[str, Any]:
    return {
        "name": one.name,
        "bytes": one.bytes,
        "stored": rfc3339(one.written_ns),
        "signature": signature.state,
        "signed_by": signature.signer,
    }


def rm(url: str, names: Sequence[str], *, yes: bool, dry_run: bool, json: bool, quiet: bool) -> int:
    """Remove generations of a store by their names; return the exit code.

    Raises:
        UnknownKey: there is no generation of a name; then none is removed.
        InvalidValue: no name is given, or there is no terminal on which to ask.
    """
    if not names:
        lists = command("ls --generations", masked(url))
        raise InvalidValue(f"rm --generations needs the names of generations, as `{lists}` lists them.")
    with open_existing(url) as remote:
        there = {one.name: one for one in stored_generations(remote)}
        if unknown := [name for name in names if name not in there]:
            raise UnknownKey(f"{remote} has no generation {unknown[0]}. Nothing was removed.")
        victims = [there[name] for name in dict.fromkeys(names)]
        size = sum(one.bytes for one in victims)
        what = f"{output.count(len(victims), 'generation', 'generations')} ({format_size(size)})"
        if not (yes or dry_run):
            if not output.is_terminal():
                raise InvalidValue(f"rm would remove {what}: confirm with --yes.")
            if not output.confirm(f"Remove {what} of {remote}: {', '.join(one.name for one in victims)}?"):
                output.message("Nothing was removed.")
                return 1
        if not dry_run:
            remove_generations(remote, [one.name for one in victims])
    if json:
        removed = [{"name": one.name, "bytes": one.bytes} for one in victims]
        output.as_json({"root": str(remote), "dry_run": dry_run, "removed": removed, "freed_bytes": size})
    elif not quiet:
        for one in victims:
            output.data(f"  {one.name}, {format_size(one.bytes)}")
        output.data(f"{'Would remove' if dry_run else 'Removed'} {what}")
    return 0
