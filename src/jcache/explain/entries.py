"""Compare what two entries themselves say, for programs that jcache never saw in a run; JAX is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jcache.explain.change import Change
from jcache.explain.modules import Pairs, size_pairs
from jcache.formats.inspection import Inspection
from jcache.store.ledger import Known
from jcache.vocabulary import RANK, CauseKind

_MAX_FEATURES: Final = 6


def entry_changes(
    current: Inspection, baseline: Inspection, ours: Known | None = None, theirs: Known | None = None
) -> list[Change]:
    """Return what differs between two executables, in the vocabulary's order; empty if they tell no difference.

    Args:
        current: what the later entry says.
        baseline: what the other one says.
        ours: what the ledger knows of the later entry.
        theirs: what it knows of the other one.
    """
    found = [
        *_versions(current, baseline, ours, theirs),
        *_machine(current, baseline),
        *_simple(CauseKind.CACHE_PATH, "", current.cache_path, baseline.cache_path),
        *_shapes(current, baseline),
        *_simple(CauseKind.NAMES, "module", current.module_name, baseline.module_name),
        *_simple(CauseKind.NAMES, "source", _source(current), _source(baseline)),
    ]
    return sorted(found, key=lambda change: RANK[change.item])


def _simple(item: CauseKind, name: str, current: object, baseline: object) -> Iterator[Change]:
    """Yield the change of a fact that both entries tell."""
    if current is not None and baseline is not None and current != baseline:
        yield Change(item, name, str(current), str(baseline))


def _versions(current: Inspection, baseline: Inspection, ours: Known | None, theirs: Known | None) -> Iterator[Change]:
    new, old = (None if known is None else known.jaxlib for known in (ours, theirs))
    yield from (versions := [*_simple(CauseKind.VERSION, "jaxlib", new, old)])
    if not versions and current.xla_options != baseline.xla_options and None not in (new, old):
        yield Change(CauseKind.XLA_FLAGS, "", "other options", "")
    elif not versions and current.xla_options != baseline.xla_options:
        yield Change(CauseKind.VERSION, "jaxlib, or flags of XLA", "", "")
    libraries = {*(current.abi_version or {}), *(baseline.abi_version or {})}
    for name in sorted(libraries):
        pair = ((one.abi_version or {}).get(name) for one in (current, baseline))
        yield from _simple(CauseKind.PLATFORM, name, *pair)


def _machine(current: Inspection, baseline: Inspection) -> Iterator[Change]:
    yield from (platform := [*_simple(CauseKind.DEVICES, "platform", current.platform, baseline.platform)])
    yield from _simple(CauseKind.DEVICES, "compute capability", current.compute_capability, baseline.compute_capability)
    if not platform:
        yield from _simple(CauseKind.CPU, "name", current.cpu_name, baseline.cpu_name)
        ours, theirs = ({*(one.cpu_features or ())} for one in (current, baseline))
        if ours and theirs and ours != theirs:
            yield Change(CauseKind.CPU, "features", _some(ours - theirs), _some(theirs - ours))


def _some(features: set[str]) -> str:
    names = sorted(features)
    more = f" and {len(names) - _MAX_FEATURES} more" if len(names) > _MAX_FEATURES else ""
    return " ".join(names[:_MAX_FEATURES]) + more


def _shapes(current: Inspection, baseline: Inspection) -> Iterator[Change]:
    ours, theirs = current.output_shapes, baseline.output_shapes
    if ours is None or theirs is None or ours == theirs:
        return
    new, old = " ".join(ours), " ".join(theirs)
    dtypes = [[shape.partition("[")[0] for shape in shapes] for shapes in (ours, theirs)]
    if len(ours) != len(theirs):
        yield Change(CauseKind.STRUCTURE, "outputs", new, old)
    elif dtypes[0] != dtypes[1]:
        pairs = frozenset((b, a) for a, b in zip(*dtypes, strict=True) if a != b)
        yield Change(CauseKind.DTYPE, "outputs", new, old, pairs)
    else:
        sizes = zip(map(_sizes, theirs), map(_sizes, ours), strict=True)
        pairs = Pairs(pair for before, after in sizes for pair in size_pairs(before, after))
        yield Change(CauseKind.SHAPE, "outputs", new, old, pairs)


def _sizes(shape: str) -> list[str]:
    inner = shape.partition("[")[2].partition("]")[0]
    return inner.split(",") if inner else []


def _source(one: Inspection) -> str | None:
    return None if one.source_file is None else f"{one.source_file}:{one.source_line}"
