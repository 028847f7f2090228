"""Check the files beside the entries: sidecars, temporary files, legacy entries, names that stop JAX."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from jcache.entry import NO_SIDECAR, Neighbour
from jcache.findings import Damage, Finding, Stamp
from jcache.layout import ASIDE_PREFIX, ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, Member
from jcache.store.listing import Listing
from jcache.store.sidecar import RECENCY_BYTES, read_recency
from jcache.text import command, quoted
from jcache.units import format_age
from jcache.verify.checks import not_a_file

_MANY: Final = 10
FUTURE_NS: Final = 300_000_000_000  # clocks of machines that share a directory differ by seconds, not by minutes


def check_surroundings(
    listing: Listing, now_ns: int, grace_ns: int, *, unbounded: bool = False, behind: bool = False
) -> Iterator[Finding]:
    """Yield the findings in a directory, apart from those in its entries' bytes.

    Args:
        listing: of the directory.
        now_ns: the time.
        grace_ns: temporary files that were written less than this ago may still be in use.
        unbounded: whether a lock file is only jcache's: then an entry without a sidecar is worth a note and no more.
        behind: whether the clock is wrong, see `is_behind`: then times that are ahead of it are not.
    """
    if listing.layout.has_sidecars:
        yield from _sidecars(listing, now_ns, unbounded=unbounded, behind=behind)
    for neighbour in listing.neighbours:
        finding = _neighbour(listing, neighbour, now_ns - grace_ns)
        if finding is not None:
            yield finding
    for entry in listing.legacy:
        yield Finding(
            damage=Damage.LEGACY,
            path=listing.directory / entry.file_name,
            evidence="Written by jax <= 0.4.30; no later JAX reads it.",
            kind=listing.kind,
            key=entry.key,
            advice=command("prune --legacy", listing.directory),
            is_note=True,
        )


def is_behind(times: Sequence[int], now_ns: int) -> bool:
    """Return whether it is the clock that is wrong, and not the times that are ahead of it.

    It cannot be earlier than the installation of jcache; and many times are not wrong alike.
    """
    ahead = sum(time_ns > now_ns + FUTURE_NS for time_ns in times)
    installed_ns = os.stat(__file__).st_mtime_ns
    return ahead > 0 and (now_ns < installed_ns - FUTURE_NS or (ahead >= _MANY and 2 * ahead > len(times)))


def _sidecars(listing: Listing, now_ns: int, *, unbounded: bool, behind: bool) -> Iterator[Finding]:
    columns = listing.columns
    locked = os.path.lexists(listing.directory / LOCK_NAME)
    for key, created, recency, changed in zip(
        columns.keys, columns.created, columns.recency, columns.sidecars, strict=True
    ):
        fault = None
        if changed == NO_SIDECAR:
            if locked:
                fault = Damage.MISSING_SIDECAR, "It stops every bounded put of jax <= 0.11.1."
        elif recency > now_ns + FUTURE_NS and not behind:
            ahead = format_age(recency - now_ns)
            fault = (Damage.SIDECAR_FUTURE, f"Last used {ahead} from now, so it would never be evicted.")
        elif recency == created:  # as it is for a sidecar that cannot be read
            fault = _sidecar_shape(listing.directory / (key + SIDECAR_SUFFIX))
        if fault is not None:
            path = listing.directory / (key + SIDECAR_SUFFIX)
            note = fault[0] is Damage.MISSING_SIDECAR and unbounded
            yield Finding(damage=fault[0], path=path, evidence=fault[1], kind=listing.kind, key=key, is_note=note)


def _sidecar_shape(path: Path) -> tuple[Damage, str] | None:
    """Return the damage of a sidecar that cannot be read; JAX may have removed it, or be writing it, meanwhile."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return Damage.NOT_A_FILE, "It has the name of a sidecar and is no file."
    if status.st_size != RECENCY_BYTES:
        return Damage.SIDECAR_SIZE, f"It has {status.st_size} bytes, not the {RECENCY_BYTES} of a time."
    if read_recency(path) is None:
        return Damage.SIDECAR_FUTURE, "It says a time beyond the year 2262."
    return None


def _neighbour(listing: Listing, neighbour: Neighbour, before_ns: int) -> Finding | None:
    path = listing.directory / neighbour.name
    try:
        status = os.lstat(path)
    except OSError:
        return None
    what, key = listing.member(neighbour.name)
    regular = stat.S_ISREG(status.st_mode)
    ours = regular or neighbour.name.startswith(ASIDE_PREFIX)
    if what is Member.ENTRY and not regular:
        return not_a_file(path, listing.kind, key, status.st_mode)
    if neighbour.member is Member.SIDECAR and regular:
        damage, evidence = Damage.ORPHANED_SIDECAR, "There is no entry to it."
    elif neighbour.member is Member.TEMPORARY and ours and status.st_mtime_ns < before_ns:
        damage, evidence = Damage.TEMPORARY, f"Left by a writer that ended too early, {neighbour.bytes:,} bytes."
    elif neighbour.name.endswith(ENTRY_SUFFIX) and what is not Member.ENTRY and listing.layout.follows_jax:
        damage, evidence = Damage.BLOCKING, "It is no entry, yet stops every bounded put of jax <= 0.11.1."
    else:
        return None
    advice = f"mv {quoted(str(path))} to another place" if damage is Damage.BLOCKING else None
    stamp = Stamp.of(status)
    return Finding(
        damage=damage, path=path, evidence=evidence, kind=listing.kind, key=key or None, advice=advice, stamp=stamp
    )
