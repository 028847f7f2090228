"""Compare two recorded programs: what of their keys differs, in the order of `jcache.vocabulary`.

JAX's key consists of parts. A part that differs may follow from another one: a flag of XLA is in the part "XLA flags"
and in the compile options, and a change of x64 changes the program. So each change names the parts that it explains,
and a change that explains no part that differs is no change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jcache.explain import parts
from jcache.explain.arguments import argument_changes, static_changes
from jcache.explain.change import Change, Seen
from jcache.explain.options import OTHER, TRACED, compile_option_changes, jax_option_changes
from jcache.explain.programs import Programs
from jcache.explain.surroundings import device_changes, surroundings, version_changes
from jcache.runs.record import COMPUTATION
from jcache.vocabulary import RANK, CauseKind

_NOT_READ: Final = "the lowered program changed; its modules are not kept, or cannot be read here"


def changes(current: Seen, baseline: Seen, programs: Programs) -> list[Change]:
    """Return what differs between two programs of different keys, at least one change, in the vocabulary's order."""
    differing = parts.differing(current.program, baseline.program)
    found = [*surroundings(current, baseline, differing)]
    if all(change.item is not CauseKind.VERSION for change in found):
        found += compile_option_changes(current, baseline, differing, found, programs)
        found += jax_option_changes(current, baseline, differing, TRACED)
        unknown = sorted(differing - parts.KNOWN)
        found += [Change(CauseKind.KEY_PART, name, *parts.values(current, baseline, name)) for name in unknown]
        found += [*_program_changes(current, baseline, differing, programs, is_explained=bool(found))]
    return sorted(found, key=lambda change: RANK[change.item]) or [Change(CauseKind.UNKNOWN, "", "", "")]


def process_changes(current: Seen, baseline: Seen) -> list[Change]:
    """Return what differs between two processes and can bring other programs: versions, devices, JAX's options."""
    module = frozenset({COMPUTATION})
    ours, theirs = current.process, baseline.process
    options = jax_option_changes(current, baseline, module, TRACED)
    return [*version_changes(ours, theirs), *device_changes(ours, theirs), *options]


def _program_changes(
    current: Seen, baseline: Seen, differing: frozenset[str], programs: Programs, *, is_explained: bool
) -> Iterator[Change]:
    if COMPUTATION not in differing:
        return
    ours, theirs = current.program, baseline.program
    static = [*static_changes(ours, theirs)]
    arguments = [*argument_changes(ours, theirs)]
    if static and not (arguments or is_explained):  # a function that is passed as a static argument has a name
        found = _module_change(current, baseline, programs)
        static = [found] if found.item is CauseKind.NAMES else static
    in_calls = [*static, *arguments]
    yield from in_calls
    others = [] if in_calls or is_explained else jax_option_changes(current, baseline, differing, OTHER)
    yield from others
    if ours.constants != theirs.constants and not in_calls:
        new, old = (", ".join(program.constants) for program in (ours, theirs))
        yield Change(CauseKind.CONSTANT, "", new, old)
    elif not (in_calls or others or is_explained):
        yield _module_change(current, baseline, programs)


def _module_change(current: Seen, baseline: Seen, programs: Programs) -> Change:
    """Return what differs between the modules of two programs, where nothing else does."""
    modules = (current.program.parts.get(COMPUTATION, ""), baseline.program.parts.get(COMPUTATION, ""))
    found = programs.compare(*modules)
    if found is None:
        return Change(CauseKind.PROGRAM, "", *parts.hashes(current, baseline, COMPUTATION), note=_NOT_READ)
    seeds = _hash_seed(current), _hash_seed(baseline)
    if found.item in (CauseKind.ORDER, CauseKind.PROGRAM, CauseKind.CONSTANT, CauseKind.NAMES) and seeds[0] != seeds[1]:
        return Change(CauseKind.HASH_SEED, "", *seeds)
    return Change(found.item, "", found.current, found.baseline, found.pairs)


def _hash_seed(seen: Seen) -> str:
    """Return Python's hash seed, or a digest of it; ``random`` if none was set."""
    name = "PYTHONHASHSEED"
    process = seen.process
    return process.variables.get(name) or process.digests.get(name, "")[: parts.DIGITS] or "random"
