"""The forecast for executables in a directory: counts for programs, sentences and remedies for people."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from jcache.layout import DIRECTORY_NAMES, TAG_NAME, Kind
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.forecast.verdict import (
    XLA_CACHES,
    Hit,
    HitCondition,
    HitVerdict,
    MissReason,
    ProgramKind,
    jax_spelling,
    program_kind_of,
)
from jcache.shipping.importer.path_link import blocking_path, unwritable_directory
from jcache.text import command, quoted, shown
from jcache.verify.path_keys import MisplacedExecutables

_CACHE_DIRECTORY: Final = "JAX_COMPILATION_CACHE_DIR"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of the executables in a directory.

    Attributes:
        directory: directory that they are in, or will be.
        machine: the machine and its JAX.
        environment: the environment variables of the programs, taken from this process.
        judge: returns the verdicts by key. It is called when the first verdict is needed, since it may run jaxlib.
    """

    directory: Path
    machine: Machine
    environment: Mapping[str, str] = field(default_factory=dict)
    judge: Callable[[], Mapping[str, HitVerdict]] = field(repr=False)

    @cached_property
    def verdicts(self) -> Mapping[str, HitVerdict]:
        """The verdict on each executable, by its key."""
        return self.judge()

    def count(self, hit: Hit) -> int:
        """Return how many executables will, cannot, or may be hit, each by the kind of programs that can hit it."""
        return sum(verdict.hit is hit for verdict in self.verdicts.values())

    def hits(self, programs: ProgramKind | None, directory: str | None = None) -> int:
        """Return how many executables programs of one kind will hit.

        Args:
            programs: the kind; None for programs under `jcache run` and `jcache.enable()`, which hit those of both.
            directory: their ``jax_compilation_cache_dir``; by default the directory itself.
        """
        string = jax_spelling(directory or self.directory)
        return sum(
            verdict.hit is Hit.WILL
            and (programs is None or verdict.condition.programs in (None, programs))
            and (programs is None or verdict.condition.directory in (None, string))
            and (verdict.condition.xla_caches is None or (programs is None and verdict.condition.directory is not None))
            for verdict in self.verdicts.values()
        )

    @property
    def conditions(self) -> dict[HitCondition, int]:
        """How many executables will be hit under each condition, the most first."""
        return dict(Counter(v.condition for v in self.verdicts.values() if v.hit is Hit.WILL).most_common())

    @property
    def reasons(self) -> dict[tuple[Hit, MissReason], int]:
        """How many executables cannot be hit, or may not be, for each reason, the most first."""
        counted = Counter((v.hit, v.reason) for v in self.verdicts.values() if v.reason is not None)
        return dict(counted.most_common())

    @property
    def other_directories(self) -> dict[str, int]:
        """How many executables have keys that contain another directory than this one, by directory, the most first."""
        found = (v.condition.directory for v in self.verdicts.values() if v.reason is MissReason.DIRECTORY)
        return dict(Counter(filter(None, found)).most_common())

    @property
    def sentences(self) -> tuple[str, ...]:
        """The whole forecast for people. A command stands between backquotes and can be run as it is."""
        if not self.verdicts:
            return ()
        return (*self._hit_sentences(), *self.reason_sentences, *self.remedies)

    @property
    def reason_sentences(self) -> tuple[str, ...]:
        """A sentence for each reason why executables cannot be hit, or may not be."""
        return tuple(self._reason_sentences())

    @property
    def remedies(self) -> tuple[str, ...]:
        """A sentence for each step after which more executables can be hit."""
        return tuple(self._remedies())

    # -- hits

    def _hit_sentences(self) -> Iterator[str]:
        will = Counter((v.condition, v.unless) for v in self.verdicts.values() if v.hit is Hit.WILL)
        for (condition, unless), count in will.most_common():
            exception = f", unless {unless}" if unless else ""
            yield f"{count:,} of {_executables(len(self.verdicts))} will hit here{self._by(condition)}{exception}."

    def _by(self, condition: HitCondition) -> str:
        """Return the part of a sentence that names the programs."""
        if condition.xla_caches is not None:
            where = f"where JAX has the same setting for XLA's caches: `{self._settings(*condition[1:])}`"
            if condition.directory is None:
                return f" with `jcache.enable()`, {where}; and in no other way"
            return f" by `{self._run()}`, with `jcache.enable()`, and by JAX alone {where}"
        if condition.programs is ProgramKind.PLAIN and condition.directory is not None:
            command = self._settings(condition.directory)
            return (
                f" by `{self._run()}`, with `jcache.enable()`, and by JAX with its default settings where its cache"
                f" directory is {shown(condition.directory)}: `{command}`; not after jcache env, which leaves the path"
                " out of keys"
            )
        ours = f" by `{self._run()}`, with `jcache.enable()` or after `{self._env()}`"
        if condition.programs is ProgramKind.JCACHE and program_kind_of(self.environment) is not ProgramKind.JCACHE:
            return f"{ours}; JAX alone hits none of them, since it puts this path into its keys"
        is_set = jax_spelling(self.environment.get(_CACHE_DIRECTORY, "")) == jax_spelling(self.directory)
        return "" if is_set else ours

    # -- misses

    def _reason_sentences(self) -> Iterator[str]:
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

    # -- remedies

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
                "JAX never replaces an entry that it finds and cannot read: import's --skip-incompatible leaves such"
                " entries out, so that JAX stores its own, and --recompile compiles the programs of traces at once."
            )
        others = self.other_directories
        for path in others:
            yield from self._link_sentences(path)
        if others:
            yield (
                f"Executables that `{self._run()}`, `jcache.enable()` or JAX after `{self._env()}` stores have no path"
                " in their keys, and hit wherever they are copied."
            )

    def _link_sentences(self, path: str) -> Iterator[str]:
        """Yield what a link at a path would do, or why there can be none."""
        if not os.path.isabs(path):
            if ":" not in path.partition("/")[0]:  # the address of a remote store can be no link
                here = shown(str(self.directory))
                yield f"{shown(path)} is relative: programs hit them in a directory where it leads to {here}."
        elif (obstacle := blocking_path(Path(path))) is not None:
            is_there = str(obstacle) == path
            why = ", where something else is" if is_there else f": {shown(str(obstacle))} is no directory"
            yield f"No link can lead from {shown(path)}{why}."
        else:
            yield from self._possible_links(path)

    def _possible_links(self, path: str) -> Iterator[str]:
        parent = quoted(os.path.dirname(path))
        link = f"mkdir -p {parent} && ln -s {quoted(str(self.directory))} {quoted(path)}"
        closed = unwritable_directory(Path(path))
        by_whom = "import's --link makes it, or by hand"
        if closed is not None:
            by_whom = f"for users who may write in {shown(str(closed))}"
        lets = "lets" if self.machine.jaxlib is not None else "may let"
        keyed = [v.condition for v in self.verdicts.values() if v.reason is MissReason.DIRECTORY]
        caches = Counter(condition.xla_caches for condition in keyed if condition.directory == path)
        for xla_caches, count in caches.most_common():
            settings = "its default settings" if xla_caches is None else "the same setting for XLA's caches"
            yield (
                f"A link at {shown(path)} {lets} {count:,} hit, by JAX with {settings}"
                f" ({by_whom}): `{link} && {self._settings(path, xla_caches)}`."
            )

    # -- commands

    def _settings(self, directory: str | None, xla_caches: str | None = None) -> str:
        """Return the command after which JAX looks up keys that contain a directory and the paths of XLA's caches."""
        export = f"export {_CACHE_DIRECTORY}={quoted(directory)}" if directory is not None else ""
        if directory is not None and not os.path.isabs(directory):
            export = f"cd {quoted(os.getcwd())} && {export}"
        if xla_caches is not None:
            return " && ".join(filter(None, [export, f"export {XLA_CACHES}={quoted(xla_caches)}"]))
        is_plain = program_kind_of(self.environment) is ProgramKind.PLAIN
        return export if is_plain else f"{export} && unset {XLA_CACHES}"

    def _run(self) -> str:
        """Return the command under which JAX looks up keys with and without a directory."""
        return command("run", self._root, "-- CMD")

    def _env(self) -> str:
        """Return the command after which JAX alone looks up keys without a directory.

        `jcache env` keeps a setting for XLA's caches that is there, so the command replaces it first.
        """
        printed = f'eval "$({command("env", self._root)})"'
        is_free = program_kind_of(self.environment) is ProgramKind.JCACHE or XLA_CACHES not in self.environment
        return printed if is_free else f"export {XLA_CACHES}=none && {printed}"

    @property
    def _root(self) -> Path:
        parent = self.directory.parent
        if self.directory.name != DIRECTORY_NAMES[Kind.EXECUTABLES]:
            return self.directory
        return parent if os.path.lexists(parent / TAG_NAME) or not self.directory.exists() else self.directory


def link_remedies(elsewhere: MisplacedExecutables, directory: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return sentences on how to hit executables whose keys contain other directories than the one they are in."""
    verdicts = {
        f"{path} {number}": HitVerdict(
            Hit.CANNOT,
            HitCondition(ProgramKind.PLAIN, path, elsewhere.xla_caches.get(path)),
            MissReason.DIRECTORY,
        )
        for path, count in elsewhere.directories.items()
        for number in range(count)
    }
    forecast = Forecast(directory=directory, machine=Machine(), environment=environment, judge=lambda: verdicts)
    return forecast.remedies


def _executables(count: int) -> str:
    return f"{count:,} executable" + ("" if count == 1 else "s")
