"""`jcache show`: all details of one entry."""

import re
from typing import Annotated, Any, Final

import typer

from jcache import clock
from jcache.admin.facts import facts_of
from jcache.cli import output
from jcache.cli.options import JsonOption, RootOption, VerboseOption, complete_keys, open_store
from jcache.cli.reports import lineage_tree
from jcache.cli.reports.entry_table import as_json, seconds_text
from jcache.entry import Entry
from jcache.errors import DamagedEntry
from jcache.formats.compression import codec_of
from jcache.formats.digest import digest
from jcache.formats.executable import HEAD_BYTES
from jcache.formats.inspection import describe_entry
from jcache.layout import Kind
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.lineage import Lineage, read_lineage
from jcache.store.lookup import find_entry
from jcache.store.store import Store
from jcache.units import format_age, format_size, rfc3339

_ARGUMENT: Final = "argument "  # label of a call's argument in `jcache.fingerprint`
_ARRAY: Final = "array "  # label of a traced array in `jcache.traces.keys`
_MAX_ARGUMENTS: Final = 12


def show(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="A key as `ls` prints it, or any part of it that no other key shares.",
            autocompletion=complete_keys,
        ),
    ],
    root: RootOption = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the full key only.")] = False,
    verbose: VerboseOption = False,
) -> int:
    """Show all details of one entry, such as its function, source line, shapes, device, compiler, digest and links.

    Example: jcache show jit_train_step-6002
    """
    with open_store(root) as store:
        entry = find_entry(store, key, parts=True)
        if quiet:
            output.data(entry.key)
            return 0
        rows = store.queue.attempt(lambda: store.ledger.known(entry.kind, [entry.key])) or {}
        known = None if entry.legacy else rows.get(entry.key)  # a current entry may have the same key
        details = _read(store, entry)
        lineage = read_lineage(store, of=entry.kind)
        if json:
            links = lineage_tree.as_json(lineage, (entry.kind, entry.key))
            output.as_json(_as_json(store, entry, known, details) | {"links": links}, version=2)
        else:
            _render(store, entry, known, details, lineage, verbose=verbose)
        if "damage" in details:
            output.error(f"{entry.key}: {details['damage']}")
        return 1 if "damage" in details else 0


def _read(store: Store, entry: Entry) -> dict[str, Any]:
    """Return the facts in the entry's bytes; ``damage`` is the reason if they cannot be read.

    A legacy entry is not read.
    """
    if entry.legacy:
        return {"digest": None}
    path = store.path(entry)
    with files.refusal(f"read {path}"):
        head = files.read(path, HEAD_BYTES)
        if entry.kind is Kind.EXECUTABLES and codec_of(head) is None:  # before a gigabyte of zeros is read
            return {"digest": None, "damage": "The entry is neither zstd nor zlib."}
        data = files.read(path)
    found: dict[str, Any] = {"digest": digest(data)}
    try:
        found |= describe_entry(store.root, entry, data)
    except DamagedEntry as error:
        found["damage"] = str(error)
    return found


def _as_json(store: Store, entry: Entry, known: Known | None, details: dict[str, Any]) -> dict[str, Any]:
    recorded = {} if known is None else {name: getattr(known, name) for name in ("origin", "run", "jaxlib", "hits")}
    build = _seconds(entry, details)
    return {
        "root": str(store.root.path),
        **as_json(entry._replace(seconds=build), facts_of(known)),
        "path": str(store.path(entry)),
        "digest": details["digest"],
        "digest_matches_ledger": None if known is None or known.digest is None else known.digest == details["digest"],
        "damage": details.get("damage"),
        "content": {k: v for k, v in details.items() if k not in ("digest", "damage")},
        "ledger": recorded,
    }


def _render(
    store: Store, entry: Entry, known: Known | None, details: dict[str, Any], lineage: Lineage, *, verbose: bool
) -> None:
    now = clock.now_ns()
    rows: list[tuple[str, str | None]] = [
        ("key", entry.key),
        ("kind", f"{entry.kind} (legacy: only jax ≤ 0.4.30 reads it)" if entry.legacy else entry.kind),
        ("function", details.get("module_name") or entry.name or None),
        *_content(details, verbose),
        ("built in", seconds_text(_seconds(entry, details))),
        ("bytes", _bytes(entry, details)),
        ("digest", _digest(known, details)),
        ("created", _time_text(entry.created_ns, now)),
        ("last used", _time_text(entry.recency_ns, now) if not entry.unknown else _unknown(store, entry)),
        ("origin", None if known is None else known.origin and f"{known.origin} {known.run or ''}".strip()),
        ("jaxlib", None if known is None else known.jaxlib),
        ("hits", _hits(entry, known)),
        ("pinned", "unknown" if entry.pinned is None else "yes" if entry.pinned else "no"),
        ("path", str(store.path(entry))),
        *(
            ("" if number else "links", line)
            for number, line in enumerate(lineage_tree.lines(lineage, (entry.kind, entry.key), verbose=verbose))
        ),
    ]
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        if text is not None:
            output.data(f"{name:<{width}}  {text}")


def _content(details: dict[str, Any], verbose: bool) -> list[tuple[str, str | None]]:
    source = details.get("source_file")
    shapes, features, abi = details.get("output_shapes"), details.get("cpu_features"), details.get("abi_version")
    shown = ",".join(features or ()) if verbose else f"{len(features or ())} features"
    return [
        ("source", source and f"{source}:{details['source_line']}"),
        ("outputs", shapes and " ".join(shapes)),
        ("platform", details.get("platform")),
        ("built with", abi and ", ".join(f"{name} {version}" for name, version in abi.items())),
        ("device", details.get("compute_capability") and f"compute capability {details['compute_capability']}"),
        ("cpu", details.get("cpu_name") and f"{details['cpu_name']} ({shown})"),
        ("cache path", details.get("cache_path")),
        *_built_from(details.get("key_parts", {}), verbose),
        *((name, f"{fact:,}" if isinstance(fact, int) else fact) for name, fact in details.get("facts", {}).items()),
        ("made by", ", ".join(f"{k} {v}" for k, v in details.get("producers", {}).items()) or None),
        ("problems", "; ".join(details.get("problems", ())) or None),
    ]


def _built_from(parts: dict[str, str], verbose: bool) -> list[tuple[str, str | None]]:
    """Return rows that tell what a trace or graph was built from: its arguments, or one for each part of its key."""
    arrays = {label.removeprefix(_ARRAY): text for label, text in parts.items() if label.startswith(_ARRAY)}
    traced = {re.split(r"[.\[]", name)[0] for name in arrays}  # the names of the arrays show their structure
    given = {label.removeprefix(_ARGUMENT): text for label, text in parts.items() if label.startswith(_ARGUMENT)}
    static = {name: text for name, text in given.items() if name not in traced}
    arguments = [f"{name}={text}" for name, text in {**static, **arrays}.items()]
    if len(arguments) > _MAX_ARGUMENTS and not verbose:
        arguments[_MAX_ARGUMENTS:] = [f"and {len(arguments) - _MAX_ARGUMENTS:,} more (-v lists them)"]
    lines = [f"{label}: {text}" for label, text in parts.items()] if verbose else []
    return [
        ("parameters", ", ".join(arguments) or None),
        *(("built from" if number == 0 else "", line) for number, line in enumerate(lines)),
    ]


def _seconds(entry: Entry, details: dict[str, Any]) -> float | None:
    """Return build seconds from the ledger, else from the entry; 0 in a graph's entry means that they are unknown."""
    if entry.seconds is not None:
        return entry.seconds
    return details.get("seconds") if entry.kind is Kind.EXECUTABLES else details.get("build_seconds") or None


def _hits(entry: Entry, known: Known | None) -> str | None:
    if known is None or not known.hits:
        return None
    return f"{known.hits} in recorded runs" if entry.kind is Kind.EXECUTABLES else f"{known.hits}"


def _bytes(entry: Entry, details: dict[str, Any]) -> str:
    raw, codec = details.get("raw_bytes"), details.get("codec", details.get("payload_codec"))
    inside = f", {format_size(raw)} uncompressed ({codec})" if raw is not None else ""
    return f"{format_size(entry.bytes)} ({entry.bytes:,}){inside}"


def _digest(known: Known | None, details: dict[str, Any]) -> str | None:
    """Return the digest, and say if the ledger's differs: then the entry is damaged or was written again."""
    other = known is not None and known.digest is not None and details["digest"] not in (None, known.digest)
    return f"{details['digest']} (the recorded digest differs)" if other else details["digest"]


def _unknown(store: Store, entry: Entry) -> str:
    return f"unknown, counted from writing: {store.catalog.why_unknown([entry.kind])}"


def _time_text(time_ns: int, now: int) -> str:
    age = format_age(now - time_ns)
    return f"{rfc3339(time_ns) or time_ns} ({age if age.startswith('in ') else age + ' ago'})"
