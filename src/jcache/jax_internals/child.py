"""Run a child process that has JAX and answers questions in lines of JSON; it may crash or hang."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Final, cast

from jcache import clock
from jcache.errors import JcacheError
from jcache.package import PACKAGE

INTERPRETER: Final = "JCACHE_PYTHON"
_START_LIMIT_S: Final = 300.0  # importing JAX from a busy network file system, and finding eight GPUs
MALFORMED_ANSWER: Final = "its answer is malformed"
_KEPT_STDERR_BYTES: Final = 4096


class NoJax(JcacheError):
    """No JAX can be started."""


class ChildDied(Exception):
    """The child process has ended before its work was done.

    Attributes:
        evidence: the signal, the exit code or the reason.
        late: whether it was killed because it took too long.
    """

    def __init__(self, evidence: str, *, late: bool = False) -> None:
        super().__init__(evidence)
        self.evidence = evidence
        self.late = late


def interpreter(environment: Mapping[str, str]) -> str:
    """Return the interpreter that has JAX: the one that the environment names, else jcache's own."""
    return environment.get(INTERPRETER) or sys.executable


@contextlib.contextmanager
def child_of(
    python: str,
    program: str,
    limit_s: float,
    environment: Mapping[str, str],
    *arguments: str,
    doing: str,
) -> Iterator["Child"]:
    """Start a child process that is ready to answer, and that ends with the ``with`` block.

    Args:
        python: an interpreter that has JAX.
        program: the file that it runs; its arguments are the seconds after which it ends itself, the directory from
            which jcache can be imported, and ``arguments``.
        limit_s: how long one answer may take.
        environment: the environment of the process.
        arguments: further arguments of the program.
        doing: purpose of the process, for messages.

    Raises:
        NoJax: JAX cannot be started.
    """
    # -P: beside the program lie modules of jcache with names of the standard library. The watchdog in the child acts
    # where this process is killed; otherwise the limit here comes first.
    command = [python, "-P", program, str(int(2 * limit_s) + 10), os.path.dirname(PACKAGE), *arguments]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    except (OSError, ValueError) as error:
        raise _no_jax(python, doing, getattr(error, "strerror", None) or str(error)) from error
    with process:
        try:
            child = Child(process, limit_s)
            try:
                child.wait_until_ready()
            except ChildDied as death:
                raise _no_jax(python, doing, death.evidence) from death
            yield child
        finally:
            process.kill()
            process.wait()


def _no_jax(python: str, doing: str, reason: str) -> NoJax:
    return NoJax(
        f"{python} cannot {doing} with JAX ({reason}): "
        f"install it with '{python} -m pip install jax', or name an interpreter that has it by {INTERPRETER}."
    )


class Child:
    """A running child process."""

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

    def wait_until_ready(self) -> None:
        """Wait until it has imported JAX.

        Raises:
            ChildDied: it could not; the evidence is its last line on stderr.
        """
        try:
            (self.jaxlib,) = self._answer(_START_LIMIT_S, "jaxlib")
        except ChildDied as error:
            self._process.kill()
            self._process.wait()
            os.set_blocking(self._stderr.fileno(), False)
            said = (self._complaint + (self._stderr.read() or b"")).decode(errors="replace").strip()
            raise ChildDied(said.rpartition("\n")[2].strip()[:300] or error.evidence) from error

    def ask(self, question: object, *names: str) -> list[str]:
        """Ask a question and return the values of these names in the answer.

        Raises:
            ChildDied: the process crashed, or hung.
        """
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._stdin.write(json.dumps(question).encode() + b"\n")
        return self._answer(self._limit_s, *names)

    def end(self) -> None:
        """Let the process end.

        Raises:
            ChildDied: it did not end with exit code 0.
        """
        self._stdin.close()
        if self._read(self._limit_s):
            raise ChildDied(MALFORMED_ANSWER)
        death = self._ended()
        if self._process.returncode != 0:
            raise death

    def _answer(self, limit_s: float, *names: str) -> list[str]:
        """Return the values of these names in the next answer."""
        line = self._read(limit_s)
        if not line:
            raise self._ended()
        try:
            answer = json.loads(line)
            return [str(answer[name]) for name in names]
        except (ValueError, TypeError, LookupError):
            raise ChildDied(MALFORMED_ANSWER) from None

    def _read(self, limit_s: float) -> bytes:
        """Return the next line, an empty one at the end of the stream."""
        deadline = clock.monotonic() + limit_s
        while b"\n" not in self._line:
            left = deadline - clock.monotonic()
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
                    self._complaint = (self._complaint + data)[-_KEPT_STDERR_BYTES:]
                else:
                    self._poll.unregister(number)
        line, _, self._line = self._line.partition(b"\n")
        return line

    def _ended(self) -> ChildDied:
        """Return how the process ended."""
        try:
            code = self._process.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            return self._late(self._limit_s)
        with contextlib.suppress(ValueError):  # a signal without a name
            if code < 0:
                return ChildDied(signal.Signals(-code).name)
        return ChildDied(f"exit code {code}")

    def _late(self, limit_s: float) -> ChildDied:
        return ChildDied(f"no answer within {limit_s:g} s", late=True)
