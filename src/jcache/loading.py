"""Which executables load here: opened with the installed jaxlib, in a child process, since they may crash it.

An entry is native code: a changed bit may end the process that opens it at once, later, or never. So entries are opened
in batches, each by a process of its own (`jcache._loader`), and one counts as loading only if that process then reached
the end of its batch. Of a batch that crashed or hung, the entry that was being opened is tried alone, the others again
without it; if it was not to blame, the others are halved until those that are have been alone.

An entry for another platform, or for more devices than there are, is no worse for that: it is ``ELSEWHERE``.
"""

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Final, cast

from jcache.errors import JcacheError
from jcache.upkeep import Progress

INTERPRETER: Final = "JCACHE_PYTHON"
_LOADER: Final = Path(__file__).with_name("_loader.py")
_START_LIMIT_S: Final = 300.0  # importing JAX from a busy network file system, and finding eight GPUs
_GROWTH: Final = 16  # of batches while none crashes: JAX starts in 0.5 s, a small entry is opened in 3 ms
_NONSENSE: Final = "what it answers makes no sense"
_TAIL: Final = 4096  # bytes of stderr that are kept


class NoJax(JcacheError):
    """There is no JAX that could open an entry."""


class Loading(StrEnum):
    """What became of an entry that was opened."""

    LOADS = "loads"
    ELSEWHERE = "elsewhere"  # not loadable here: another platform, not enough devices, no backend, not readable
    REFUSED = "refused"  # jaxlib, or the codec before it, says no
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One entry, and what became of it.

    Attributes:
        evidence: what is missing, jaxlib's message, the signal's name, or the time; empty where it loads.
        jaxlib: the version that opened it: what another one refuses is not damaged.
    """

    path: Path
    loading: Loading
    evidence: str
    jaxlib: str


def interpreter(environment: Mapping[str, str]) -> str:
    """The interpreter that JAX lives in: the one that the environment names, else jcache's own."""
    return environment.get(INTERPRETER) or sys.executable


def load(
    paths: Sequence[Path],
    *,
    python: str = sys.executable,
    batch: int = 64,
    time_limit_s: float = 60.0,
    progress: Progress[Path] = iter,
) -> Iterator[Loaded]:
    """Open executables and say what became of each, in order while none crashes; those that are gone are left out.

    Args:
        paths: entries, as they lie in a cache directory.
        python: an interpreter that has JAX.
        batch: how many entries the first process opens; later ones open more while none crashes.
        time_limit_s: how long one entry may take.
        progress: is given the paths, and passes them on.

    Raises:
        NoJax: JAX cannot be started.
    """
    yield from _Batches(python, time_limit_s, batch).settle(progress(paths))


@dataclass(slots=True)
class _Attempt:
    """What one process did: the entries that it was asked to open, and how it died before their end, if it did."""

    asked: list[Path] = field(default_factory=list)
    answers: list[Loaded] = field(default_factory=list)
    death: Loaded | None = None  # of the last one asked for


class _Died(Exception):
    """The child is no more."""

    def __init__(self, loading: Loading, evidence: str) -> None:
        super().__init__(evidence)
        self.loading = loading
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class _Batches:
    python: str
    time_limit_s: float
    batch: int

    def settle(self, paths: Iterable[Path]) -> Iterator[Loaded]:
        """The verdicts on entries: batch by batch, and those of a batch that failed once more in smaller ones."""
        pending, size = iter(paths), self.batch
        for first in pending:
            attempt = self._attempt(itertools.chain([first], itertools.islice(pending, size - 1)))
            if attempt.death is None:
                yield from attempt.answers
                size = min(2 * size, _GROWTH * self.batch)
            else:
                yield from self._blame(attempt.asked, attempt.death)
                size = self.batch

    def _blame(self, asked: list[Path], death: Loaded) -> Iterator[Loaded]:
        """The entries of a process that died, the last of which was being opened, or was the last of its batch."""
        *others, last = asked
        if not others:
            yield death
            return
        alone = list(self.settle([last]))
        innocent = not any(a.loading in {Loading.CRASHED, Loading.TIMED_OUT} for a in alone)
        middle = len(others) // 2 if innocent else 0
        yield from self.settle(others[:middle])
        yield from self.settle(others[middle:])
        yield from alone

    def _attempt(self, paths: Iterable[Path]) -> _Attempt:
        attempt = _Attempt()
        with _child(self.python, self.time_limit_s) as child:
            try:
                for path in paths:
                    attempt.asked.append(path)
                    result, evidence = child.open(path)
                    if result is not None:
                        attempt.answers.append(Loaded(path, result, evidence, child.jaxlib))
                child.end()
            except _Died as death:
                attempt.death = Loaded(attempt.asked[-1], death.loading, death.evidence, child.jaxlib)
        return attempt


@contextlib.contextmanager
def _child(python: str, limit_s: float) -> Iterator["_Child"]:
    """A process that is ready to open entries, and does not outlive the ``with`` block.

    Raises:
        NoJax: JAX cannot be started.
    """
    # -P: beside the loader lie modules of ours with names of the standard library's. The watchdog in the child is for
    # when this process is killed itself; until then the limit here comes first.
    command = [python, "-P", str(_LOADER), str(int(2 * limit_s) + 10)]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment(os.environ)
        )
    except (OSError, ValueError) as error:
        raise _no_jax(python, getattr(error, "strerror", None) or str(error)) from error
    with process:
        try:
            child = _Child(process, limit_s)
            try:
                child.greet()
            except _Died as death:
                raise _no_jax(python, death.evidence) from death
            yield child
        finally:
            process.kill()
            process.wait()


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    """JAX as the user has set it up, but without a cache, with the CPU, and leaving most of a GPU's memory alone."""
    env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **base, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    platforms = env.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):
        env["JAX_PLATFORMS"] = f"{platforms},cpu"
    return env


def _no_jax(python: str, reason: str) -> NoJax:
    return NoJax(
        f"{python} cannot open executables with JAX ({reason}): "
        f"install it with '{python} -m pip install jax', or name an interpreter that has it by {INTERPRETER}."
    )


class _Child:
    """A process that runs `jcache._loader`."""

    def __init__(self, process: "subprocess.Popen[bytes]", limit_s: float) -> None:
        self._process = process
        streams = (process.stdin, process.stdout, process.stderr)
        self._stdin, self._stdout, self._stderr = (cast("IO[bytes]", stream) for stream in streams)
        self._limit_s = limit_s
        self._poll = select.poll()
        for stream in (self._stdout, self._stderr):
            self._poll.register(stream, select.POLLIN)
        self._line = self._complaint = b""
        self.jaxlib = ""

    def greet(self) -> None:
        """Wait until JAX is there.

        Raises:
            _Died: it did not come; the evidence is the last thing that it said.
        """
        try:
            (self.jaxlib,) = self._answer(_START_LIMIT_S, "jaxlib")
        except _Died as error:
            self._process.kill()
            self._process.wait()
            os.set_blocking(self._stderr.fileno(), False)
            said = (self._complaint + (self._stderr.read() or b"")).decode(errors="replace").strip()
            raise _Died(Loading.CRASHED, said.rpartition("\n")[2].strip()[:300] or error.evidence) from error

    def open(self, path: Path) -> tuple[Loading | None, str]:
        """What becomes of an entry, None when it is gone.

        Raises:
            _Died: the process crashed over it, or hung.
        """
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._stdin.write(json.dumps(str(path)).encode() + b"\n")
        result, evidence = self._answer(self._limit_s, "result", "evidence")
        try:
            return None if result == "gone" else Loading(result), evidence
        except ValueError:
            raise _Died(Loading.CRASHED, _NONSENSE) from None

    def end(self) -> None:
        """Let the process come to its end.

        Raises:
            _Died: it came to another one.
        """
        self._stdin.close()
        if self._read(self._limit_s):
            raise _Died(Loading.CRASHED, _NONSENSE)
        death = self._ended()
        if self._process.returncode != 0:
            raise death

    def _answer(self, limit_s: float, *names: str) -> list[str]:
        """The next answer's values of these names."""
        line = self._read(limit_s)
        if not line:
            raise self._ended()
        try:
            answer = json.loads(line)
            return [str(answer[name]) for name in names]
        except (ValueError, TypeError, LookupError):
            raise _Died(Loading.CRASHED, _NONSENSE) from None

    def _read(self, limit_s: float) -> bytes:
        """The next line, empty at the end of the stream."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._line:
            left = deadline - time.monotonic()
            ready = [number for number, _ in self._poll.poll(max(0.0, left) * 1000)]
            if not ready or (left <= 0 and self._stdout.fileno() not in ready):
                raise self._late(limit_s)
            for number in ready:
                data = os.read(number, 1 << 16)
                if number == self._stdout.fileno():
                    if not data:
                        return b""
                    self._line += data
                elif data:
                    self._complaint = (self._complaint + data)[-_TAIL:]
                else:
                    self._poll.unregister(number)
        line, _, self._line = self._line.partition(b"\n")
        return line

    def _ended(self) -> _Died:
        """How the process ended."""
        try:
            code = self._process.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            return self._late(self._limit_s)
        with contextlib.suppress(ValueError):  # a signal without a name
            if code < 0:
                return _Died(Loading.CRASHED, signal.Signals(-code).name)
        return _Died(Loading.CRASHED, f"exit code {code}")

    def _late(self, limit_s: float) -> _Died:
        return _Died(Loading.TIMED_OUT, f"no answer within {limit_s:g} s")
