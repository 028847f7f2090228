"""The parts of JAX's keys by their names, and their recorded values."""

from __future__ import annotations

from typing import Final

from jcache.explain.change import Seen
from jcache.runs.record import COMPUTATION, ProgramRecord

# JAX's names of the parts (jax 0.4.31 to 0.12)
JAXLIB: Final = "jax_lib version"
PLATFORM: Final = "backend version"
FLAGS: Final = "XLA flags"
OPTIONS: Final = "compile_options"
TOPOLOGY: Final = "accelerator_config"
DEVICES: Final = "devices"  # of some versions
KNOWN: Final = frozenset({COMPUTATION, JAXLIB, PLATFORM, FLAGS, OPTIONS, TOPOLOGY, DEVICES})
DIGITS: Final = 8  # of a hash that is shown


def differing(current: ProgramRecord, baseline: ProgramRecord) -> frozenset[str]:
    """Return the names of the parts of the key whose hashes differ, as far as both have them."""
    ours, theirs = current.parts, baseline.parts
    if not (ours and theirs):
        return frozenset()
    return frozenset(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))


def value(seen: Seen, part: str) -> str | None:
    """Return the readable value of a part; None if none was recorded."""
    return seen.process.values.get(part, {}).get(seen.program.parts.get(part, ""))


def values(current: Seen, baseline: Seen, part: str) -> tuple[str, str]:
    """Return the readable values of a part, or its hashes where values were not recorded."""
    new, old = value(current, part), value(baseline, part)
    return hashes(current, baseline, part) if new is None or old is None else (new.strip(), old.strip())


def hashes(current: Seen, baseline: Seen, part: str) -> tuple[str, str]:
    new, old = (seen.program.parts.get(part, "")[:DIGITS] for seen in (current, baseline))
    return new, old
