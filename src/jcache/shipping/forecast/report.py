"""What is to be expected of executables in a directory: counts for programs, sentences and ways out for people."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from jcache.layout import DIRECTORY_NAMES, TAG_NAME, Kind
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer.path_link import blocking_path, unwritable_directory
from jcache.text import command, quoted, shown
from jcache.verify.path_keys import Elsewhere

XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_DIRECTORY: Final = "JAX_COMPILATION_CACHE_DIR"


class Hit(StrEnum):
    """Whether an executable will be hit."""

    WILL = "will"
    CANNOT = "cannot"
    UNKNOWN = "unknown"


class ProgramKind(StrEnum):
    """Programs by the keys that they look for, where jax has the directory in them.

    Attributes:
        JCACHE: those of JAX after `jcache env`: without the directory. `jcache run` and `jcache.enable()` store under
            these, and look for the others as well.
        PLAIN: those of JAX with its default settings: with the directory.
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
    COMPRESSION = "compression"  # it is never looked up
    CODEC = "codec"  # it is looked up and cannot be read
    DIRECTORY = "directory"  # it is keyed for another one; a link helps


class HitCondition(NamedTuple):
    """Which programs hit an executable; None for any.

    Attributes:
        programs: their kind.
        directory: the string that their ``jax_compilation_cache_dir`` must be; None for any that leads here.
        caches: what JAX must be told of XLA's caches, whose places are in the keys, too; None for its default.
    """

    programs: ProgramKind | None = None
    directory: str | None = None
    caches: str | None = None


class HitVerdict(NamedTuple):
    """What is to be expected of one executable.

    Attributes:
        hit: whether some programs will hit it.
        condition: which ones, if they will; by a link, if it is keyed for another directory.
        reason: why not, or why it is not known.
        detail: the same in words, as the end of a sentence.
        remedy: a command after which it can hit; empty where there is none.
        unless: what would keep it from being hit after all, and cannot be known; empty where there is nothing.
    """

    hit: Hit
    condition: HitCondition = HitCondition()
    reason: MissReason | None = None
    detail: str = ""
    remedy: str = ""
    unless: str = ""

    @property
    def incompatible(self) -> bool:
        """Whether it cannot be hit, as things are, or are to be once what was asked for is done."""
        return self.hit is Hit.CANNOT


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is to be expected of executables in a directory.

    Attributes:
        directory: where they lie, or will.
        machine: the machine and its JAX.
        environment: of the programs, as far as it is that of this process.
        judge: gives the verdicts by key; asked when somebody wants one, since jaxlib may have to be asked first.
    """

    directory: Path
    machine: Machine
    environment: Mapping[str, str] = field(default_factory=dict)
    judge: Callable[[], Mapping[str, HitVerdict]] = field(repr=False)

    @cached_property
    def verdicts(self) -> Mapping[str, HitVerdict]:
        """What is to be expected of each executable, by its key."""
        return self.judge()

    def count(self, hit: Hit) -> int:
        """How many executables will, cannot, or may be hit, each by programs of the kind that can."""
        return sum(verdict.hit is hit for verdict in self.verdicts.values())

    def hits(self, programs: ProgramKind | None, directory: str | None = None) -> int:
        """How many executables will be hit by programs of one kind.

        Args:
            programs: which kind; None for programs under `jcache run` and `jcache.enable()`, which find those of both.
            directory: what their ``jax_compilation_cache_dir`` is; by default the directory itself.
        """
        string = jax_spelling(directory or self.directory)
        return sum(
            verdict.hit is Hit.WILL
            and (programs is None or verdict.condition.programs in (None, programs))
            and (programs is None or verdict.condition.directory in (None, string))
            and verdict.condition.caches is None
            for verdict in self.verdicts.values()
        )

    @property
    def conditions(self) -> dict[HitCondition, int]:
        """By which programs executables will be hit, and how many; the most first."""
        return dict(Counter(v.condition for v in self.verdicts.values() if v.hit is Hit.WILL).most_common())

    @property
    def reasons(self) -> dict[tuple[Hit, MissReason], int]:
        """How many executables cannot be hit, or may not, for which reason; the most first."""
        counted = Counter((v.hit, v.reason) for v in self.verdicts.values() if v.reason is not None)
        return dict(counted.most_common())

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it for people, and what can be done; a command stands between backquotes and can be run as it is."""
        if not self.verdicts:
            return ()
        return (*self._hits(), *self._others(), *self.remedies)

    @property
    def remedies(self) -> tuple[str, ...]:
        """The part of it that says what can be done."""
        return tuple(self._remedies())

    @property
    def reason_sentences(self) -> tuple[str, ...]:
        """A sentence for each reason why executables cannot be hit, or may not."""
        return tuple(self._others())

    def _hits(self) -> Iterator[str]:
        will = Counter((v.condition, v.unless) for v in self.verdicts.values() if v.hit is Hit.WILL)
        for (way, unless), count in will.most_common():
            but = f", unless {unless}" if unless else ""
            yield f"{count:,} of {_executables(len(self.verdicts))} will hit here{self._by(way)}{but}."

    def _by(self, way: HitCondition) -> str:
        if way.caches is not None:
            which = "with `jcache.enable()`, " if way.directory is None else ""
            command = self._settings(way.directory, way.caches)
            return f" {which}where JAX is told of XLA's caches as it was: `{command}`; and by nothing else"
        if way.programs is ProgramKind.PLAIN and way.directory is not None:
            command = self._settings(way.directory)
            return (
                f" by `{self._run()}`, with `jcache.enable()`, and by JAX with its default settings where it is told"
                f" that its cache is {shown(way.directory)}: `{command}`; not after jcache env, which leaves the path"
                " out of keys"
            )
        ours = f" by `{self._run()}`, with `jcache.enable()` or after `{self._env()}`"
        if way.programs is ProgramKind.JCACHE and program_kind_of(self.environment) is not ProgramKind.JCACHE:
            return f"{ours}; none of them by JAX alone, which has this path in the keys it looks for"
        is_told = jax_spelling(self.environment.get(_DIRECTORY, "")) == jax_spelling(self.directory)
        return "" if is_told else ours

    def _others(self) -> Iterator[str]:
        total = len(self.verdicts)
        counted = Counter((v.hit, v.reason, v.detail) for v in self.verdicts.values() if v.reason is not None)
        for (hit, reason, detail), count in sorted(counted.items(), key=lambda one: (one[0][0], -one[1], one[0][2])):
            where = "at this path" if reason is MissReason.DIRECTORY else "here"
            if hit is Hit.UNKNOWN:
                yield f"{count:,} of {_executables(total)} may hit {where} or not: {detail}."
            elif count == total:
                yield f"0 of {_executables(total)} can hit {where}: {detail}."
            else:
                yield f"{count:,} of {_executables(total)} cannot hit {where}: {detail}."

    def _remedies(self) -> Iterator[str]:
        reasons = {verdict.reason for verdict in self.verdicts.values()}
        if MissReason.NO_JAX in reasons:
            yield 'Say which interpreter has JAX, such as: `export JCACHE_PYTHON="$(command -v python3)"`.'
        remedies = Counter(
            (verdict.remedy, verdict.unless if verdict.reason is MissReason.CODEC else "")
            for verdict in self.verdicts.values()
            if verdict.remedy
        )
        for (remedy, unless), count in remedies.most_common():
            doubt = f", unless {unless}" if unless else ""
            yield f"{count:,} of them can hit after: `{remedy}`{doubt}."
        if MissReason.CODEC in reasons:
            yield (
                "JAX never replaces what it finds and cannot read: import's --skip-incompatible leaves that out, so"
                " that JAX stores its own, and --recompile compiles at once what came with traces."
            )
        for path in self.other_directories:
            yield from self._link(path)
        if self.other_directories:
            yield (
                f"What is built by `{self._run()}`, with `jcache.enable()` or after `{self._env()}`"
                " has no path in its keys, and hits wherever it is copied."
            )

    @property
    def other_directories(self) -> dict[str, int]:
        """The directories that executables are keyed for and that are not this one, the most first."""
        found = [
            v.condition.directory
            for v in self.verdicts.values()
            if v.reason is MissReason.DIRECTORY and v.condition.directory
        ]
        return dict(Counter(found).most_common())

    def _link(self, path: str) -> Iterator[str]:
        if not os.path.isabs(path):
            if ":" not in path.partition("/")[0]:  # the address of a remote store can be no link
                yield f"{shown(path)} is relative: programs hit them in a directory where it leads to {self._shown}."
        elif (there := blocking_path(Path(path))) is not None:
            why = ", where something else is" if str(there) == path else f": {shown(str(there))} is no directory"
            yield f"No link can lead from {shown(path)}{why}."
        else:
            parent = quoted(os.path.dirname(path))
            link = f"mkdir -p {parent} && ln -s {quoted(str(self.directory))} {quoted(path)}"
            ways = [
                v.condition
                for v in self.verdicts.values()
                if v.reason is MissReason.DIRECTORY and v.condition.directory == path
            ]
            closed = unwritable_directory(Path(path))
            mine = "import's --link makes it, or by hand"
            lets = "lets" if self.machine.jaxlib is not None else "may let"
            whose = mine if closed is None else f"for who may write in {shown(str(closed))}"
            for caches, count in Counter(way.caches for way in ways).most_common():
                by = "with its default settings" if caches is None else "with XLA's caches, as it was"
                yield (
                    f"A link from there {lets} {count:,} hit, by JAX {by}"
                    f" ({whose}): `{link} && {self._settings(path, caches)}`."
                )

    def _settings(self, directory: str | None, caches: str | None = None) -> str:
        """The command by which JAX looks for keys with a directory, and with those of XLA's caches."""
        told = f"export {_DIRECTORY}={quoted(directory)}" if directory is not None else ""
        if directory is not None and not os.path.isabs(directory):
            told = f"cd {quoted(os.getcwd())} && {told}"
        if caches is not None:
            return " && ".join(filter(None, [told, f"export {XLA_CACHES}={quoted(caches)}"]))
        return told if program_kind_of(self.environment) is ProgramKind.PLAIN else f"{told} && unset {XLA_CACHES}"

    def _run(self) -> str:
        """The command under which JAX does the same."""
        return command("run", self._root, "-- CMD")

    def _env(self) -> str:
        """The command by which JAX alone looks for keys without a directory; `jcache env` lets others' settings be."""
        printed = f'eval "$({command("env", self._root)})"'
        free = program_kind_of(self.environment) is ProgramKind.JCACHE or XLA_CACHES not in self.environment
        return printed if free else f"export {XLA_CACHES}=none && {printed}"

    @property
    def _shown(self) -> str:
        return shown(str(self.directory))

    @property
    def _root(self) -> Path:
        parent = self.directory.parent
        if self.directory.name != DIRECTORY_NAMES[Kind.EXECUTABLES]:
            return self.directory
        return parent if os.path.lexists(parent / TAG_NAME) or not self.directory.exists() else self.directory


def link_remedies(elsewhere: Elsewhere, directory: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """How executables can be hit that are keyed for other directories than the one that they lie in."""
    verdicts = {
        f"{path} {number}": HitVerdict(
            Hit.CANNOT, HitCondition(ProgramKind.PLAIN, path, elsewhere.xla_caches.get(path)), MissReason.DIRECTORY
        )
        for path, count in elsewhere.directories.items()
        for number in range(count)
    }
    forecast = Forecast(directory=directory, machine=Machine(), environment=environment, judge=lambda: verdicts)
    return forecast.remedies


def _executables(count: int) -> str:
    return f"{count:,} executable" + ("" if count == 1 else "s")


def jax_spelling(directory: str | Path) -> str:
    """The string that JAX hashes for a directory: slashes too many are not in it, ``..`` and links are."""
    return str(PurePath(directory))


def program_kind_of(environment: Mapping[str, str]) -> ProgramKind | None:
    """Which keys JAX alone looks for with an environment; None for those of XLA's caches of somebody's choice."""
    chosen = environment.get(XLA_CACHES)
    if chosen is None:
        return ProgramKind.PLAIN
    return ProgramKind.JCACHE if chosen in ("", "none") else None
