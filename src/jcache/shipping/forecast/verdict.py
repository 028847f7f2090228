"""Verdicts on executables: whether programs will hit one, under which conditions, and why not."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Final, NamedTuple

XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"


class Hit(StrEnum):
    """Whether an executable will be hit."""

    WILL = "will"
    CANNOT = "cannot"
    UNKNOWN = "unknown"


class ProgramKind(StrEnum):
    """Programs by the keys that they look up, where jax hashes the directory.

    Attributes:
        JCACHE: programs whose keys do not contain the directory, as JAX makes them after `jcache env`. `jcache run` and
            `jcache.enable()` store under these keys and also look up the others.
        PLAIN: programs whose keys contain the directory, as JAX makes them with its default settings.
    """

    JCACHE = "jcache"
    PLAIN = "plain"


class MissReason(StrEnum):
    """Why an executable cannot be hit, or why that is not known."""

    NO_JAX = "no_jax"
    JAXLIB = "jaxlib"
    PLATFORM = "platform"
    CPU = "cpu"
    GPU = "gpu"
    TOOLKIT = "toolkit"
    COMPRESSION = "compression"  # JAX never looks it up
    CODEC = "codec"  # JAX looks it up and cannot read it
    DIRECTORY = "directory"  # its key contains another directory; a link helps


class HitCondition(NamedTuple):
    """The programs that hit an executable. None stands for no condition.

    Attributes:
        programs: kind of the programs.
        directory: the string that their ``jax_compilation_cache_dir`` must have; None for any path to the directory.
        xla_caches: the value that ``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES`` must have, since keys contain the paths of
            XLA's caches, too; None for JAX's default.
    """

    programs: ProgramKind | None = None
    directory: str | None = None
    xla_caches: str | None = None


class HitVerdict(NamedTuple):
    """What to expect of one executable.

    Attributes:
        hit: whether some programs will hit it.
        condition: programs that will hit it, or would after a link, if its key contains another directory.
        reason: why it cannot be hit, or why that is not known.
        detail: the reason in words, as the end of a sentence.
        remedy: a command after which it can be hit; empty where there is none.
        unless: a circumstance that would prevent the hit and cannot be known; empty where there is none.
    """

    hit: Hit
    condition: HitCondition = HitCondition()
    reason: MissReason | None = None
    detail: str = ""
    remedy: str = ""
    unless: str = ""

    @property
    def incompatible(self) -> bool:
        """Whether it cannot be hit, once everything that was asked for is done."""
        return self.hit is Hit.CANNOT


def miss(reason: MissReason, detail: str, remedy: str = "") -> HitVerdict:
    """Return the verdict that an executable cannot be hit."""
    return HitVerdict(Hit.CANNOT, HitCondition(), reason, detail, remedy=remedy)


def unsure(reason: MissReason, detail: str) -> HitVerdict:
    """Return the verdict that nothing tells whether an executable can be hit."""
    return HitVerdict(Hit.UNKNOWN, HitCondition(), reason, detail)


def jax_spelling(directory: str | Path) -> str:
    """Return the string that JAX hashes for a directory: without superfluous slashes, with ``..`` and links kept."""
    return str(PurePath(directory))


def program_kind_of(environment: Mapping[str, str]) -> ProgramKind | None:
    """Return which keys JAX alone looks up in an environment; None where somebody chose some of XLA's caches."""
    chosen = environment.get(XLA_CACHES)
    if chosen is None:
        return ProgramKind.PLAIN
    return ProgramKind.JCACHE if chosen in ("", "none") else None
