"""`jcache info`: number, bytes and last use of a root's entries, and an overview of all caches."""

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from jcache import clock
from jcache.admin.census import Census, KindCensus, take_census
from jcache.admin.neighbour_groups import Group
from jcache.cli import output
from jcache.cli.options import (
    JsonOption,
    QuietOption,
    RootOrStoreOption,
    VerboseOption,
    is_remote,
    open_store,
    refuse_options,
)
from jcache.errors import NoCacheHere
from jcache.layout import Kind
from jcache.store.roots import VARIABLES, choose_path
from jcache.text import command
from jcache.units import format_age, format_size, rfc3339

if TYPE_CHECKING:
    from jcache.admin.discovery import FoundCache

_COLUMNS: Final = [
    ("kind", "left"),
    ("entries", "right"),
    ("bytes", "right"),
    ("last use", "right"),
    ("oldest use", "right"),
]
_LABELS = {
    "autotune": "XLA autotune cache",
    "kernels": "XLA kernel cache",
    "legacy": "legacy entries (jax ≤ 0.4.30)",
    "orphans": "sidecars without an entry",
    "temporary": "temporary files",
    "quarantine": "damaged entries in quarantine",
    "unknown": "unknown files",
}
_SAMPLE = 256
_XLA = ("autotune", "kernels")  # the overview lists no file names of these
_SHADES = ((0.75, "green"), (0.9, "yellow"), (float("inf"), "red"))


def info(
    root: RootOrStoreOption = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", "-a", help="Show every cache on this machine, one per line; the default if no cache is named."
        ),
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what a cache directory holds: entries, bytes and last use of each kind, and other files.

    Example: jcache info --root ~/.cache/jax
    """
    if is_remote(root):
        from jcache.cli.commands import remote_root

        refuse_options(root, all=every)
        return remote_root.info(str(root), json=json, quiet=quiet)
    if every or (root is None and not any(map(os.environ.get, VARIABLES))):
        from jcache.admin import discovery

        caches = discovery.find_caches(os.environ, root=root) if every or discovery.may_have_others(os.environ) else []
        if every or any(cache.path != choose_path(None, {}) for cache in caches):
            return _overview(caches, json=json, quiet=quiet)
    return _one(root, json=json, quiet=quiet, verbose=verbose)


def _one(root: str | None, *, json: bool, quiet: bool, verbose: bool) -> None:
    with open_store(root) as store:
        census = take_census(store, os.environ, sample=_SAMPLE if verbose else 1)
        if json:
            output.as_json(_as_json(census))
        elif quiet:
            output.data(format_size(census.total_bytes))
        else:
            _render(census, verbose)


def _as_json(census: Census) -> dict[str, Any]:
    return {
        "root": str(census.root.path),
        "layout": census.root.layout.name,
        "kinds": {kind: _kind_json(counted) for kind, counted in census.kinds.items()},
        "neighbours": {
            name: {"files": group.files, "bytes": group.bytes, "names": list(group.names)}
            for name, group in census.neighbours.items()
        },
        "total_bytes": census.total_bytes,
        "disk": {"bytes": census.disk_bytes, "free_bytes": census.disk_free_bytes},
        "keyed_elsewhere": {
            "directories": dict(census.elsewhere.directories),
            "looked_at": census.elsewhere.looked_at,
        },
        "health": census.health,
        "note": census.note,
    }


def _kind_json(kind: KindCensus) -> dict[str, Any]:
    return {
        "entries": kind.entries,
        "bytes": kind.bytes,
        "oldest_use": None if kind.oldest_ns is None else rfc3339(kind.oldest_ns),
        "pinned": kind.pinned,
        "newest_use": None if kind.newest_ns is None else rfc3339(kind.newest_ns),
        "max_bytes": kind.cap,
        "use_unknown": kind.unknown,
        "uses_as_of": None if kind.accessed_ns is None else rfc3339(kind.accessed_ns),
    }


def _render(census: Census, verbose: bool) -> None:
    output.rich(output.plain(f"{census.root.path}  ({census.root.title})"), "")
    now = clock.now_ns()
    kinds = {
        kind: counted for kind, counted in census.kinds.items() if counted.entries or census.root.layout.follows_jax
    }
    rows = [_row(kind, counted, now) for kind, counted in kinds.items()]
    output.rich(output.table(_COLUMNS, rows))
    for kind, counted in kinds.items():
        if counted.unknown:
            some = output.count(counted.unknown, "entry", "entries")
            output.message(f"* {kind}: the last use of {some} is unknown, and counted from writing.")
        if counted.accessed_ns is not None:
            ago = format_age(max(now - counted.accessed_ns, 0))
            again = command("ls -q --limit 1", census.root.path)
            output.message(f"* {kind}: the last uses are those of {ago} ago; `{again}` reads them again.")
    beside = [
        (label, f"{group.files:,}", format_size(group.bytes), "" if name in _XLA else _names(group, verbose))
        for name, label in _LABELS.items()
        if (group := census.neighbours[name]).files
    ]
    if beside:
        output.rich(
            "",
            "Beside them:",
            output.table([("", "left"), ("", "right"), ("", "right"), ("", "fold")], beside, lines=False),
        )
    output.rich("", *_bars(census))
    output.prose(f"total   {format_size(census.total_bytes)}\nhealth  {census.health}")
    if census.note is not None:
        output.prose(f"note    {census.note}")
    if verbose and census.elsewhere.directories:
        from jcache.shipping.forecast.report import link_remedies

        for sentence in link_remedies(census.elsewhere, census.root.directory(Kind.EXECUTABLES), os.environ):
            output.prose(f"        {sentence}")


def _overview(caches: "list[FoundCache]", *, json: bool, quiet: bool) -> None:
    """Print every cache, one per line."""
    if not caches:
        raise NoCacheHere("There is no cache on this machine: run a program with `jcache run -- CMD` to make one.")
    total = sum(cache.bytes for cache in caches)
    for notice in (notice for cache in caches if cache.census for notice in cache.census.notices):
        output.warning(notice)
    if json:
        output.as_json({"caches": [_cache_json(cache) for cache in caches], "total_bytes": total})
        return
    if not quiet:
        _table_of(caches)
    if quiet:
        output.data(format_size(total))
        return
    output.data(f"total   {format_size(total)} in {output.count(len(caches), 'cache', 'caches')}")
    told = [(cache.path, cache.problem or (cache.census and cache.census.health)) for cache in caches]
    for path, health in told:
        if health not in (None, "ok"):
            output.prose(f"health  {path}: {health}")


def _table_of(caches: "list[FoundCache]") -> None:
    """Print a line for each cache; where the commands do not fit beside it, they follow in lines of their own."""
    now = clock.now_ns()
    columns = [("cache", "left"), ("entries", "right"), ("bytes", "right"), ("last use", "right"), ("command", "left")]
    rows = [_cache_row(cache, now) for cache in caches]
    if output.fits(columns, rows):
        output.rich(output.table(columns, rows), "")
        return
    output.rich(output.table(columns[:-1], [row[:-1] for row in rows]), "")
    for cache in caches:
        output.data(cache.command)
    output.data("")


def _cache_row(cache: "FoundCache", now: int) -> tuple[Any, ...]:
    kinds = list(cache.census.kinds.values()) if cache.census else []
    entries = f"{sum(kind.entries for kind in kinds):,}" if cache.census else "–"
    used = max((kind.newest_ns for kind in kinds if kind.newest_ns is not None), default=None)
    return cache.layout, entries, format_size(cache.bytes), _ago(used, now), cache.command


def _cache_json(cache: "FoundCache") -> dict[str, Any]:
    known = {"root": str(cache.path), "layout": cache.layout, "total_bytes": cache.bytes}
    counted = {} if cache.census is None else _as_json(cache.census)
    return {**known, **counted, "problem": cache.problem, "command": cache.command}


def _ago(time_ns: int | None, now: int) -> str:
    if time_ns is None:
        return "–"
    age = format_age(now - time_ns)
    return f"{age} ago" if not age.startswith("in ") else age


def _row(kind: str, counted: KindCensus, now: int) -> tuple[str, ...]:
    mark = "*" if counted.unknown or counted.accessed_ns is not None else ""
    used = f"{_ago(counted.newest_ns, now)}{mark}", f"{_ago(counted.oldest_ns, now)}{mark}"
    return kind, f"{counted.entries:,}", format_size(counted.bytes), *used


def _names(group: Group, verbose: bool) -> Any:  # noqa: ANN401
    shown = group.names if verbose else group.names[:3]
    more = f", … ({group.files - len(shown)} more)" if group.files > len(shown) and shown else ""
    return output.plain(", ".join(shown) + more)


def _bars(census: Census) -> list[Any]:
    """Return a bar for the use of each size limit, or, if no limit is set, one for the disk."""
    bars = [
        _bar("limit  ", counted.bytes, counted.cap)
        for counted in census.kinds.values()
        if counted.cap and counted.entries
    ]
    if not bars:
        used = census.disk_bytes - census.disk_free_bytes
        bars.append(_bar("disk   ", used, census.disk_bytes))
    return bars


def _bar(label: str, part: int, whole: int) -> Any:  # noqa: ANN401
    from rich.text import Text

    share = part / max(whole, 1)
    width = 24
    filled = min(width, round(share * width))
    colour = next(colour for limit, colour in _SHADES if share < limit)
    full, empty = ("━", "━") if output.takes("━") else ("#", "-")
    text = Text(f"{label} ")
    text.append(full * filled, style=colour).append(empty * (width - filled), style="dim")
    text.append(f"  {format_size(part)} of {format_size(whole)} used ({share:.0%})")
    return text
