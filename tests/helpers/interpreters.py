"""Python processes for the programs of tests: forked from a server with the necessary imports, or new interpreters.

Importing JAX takes longer than most programs of tests, and importing the command line longer than most commands. A fork
server has imported them; each child has its own environment, directory and files. There are two servers of each kind,
with different hash seeds, which are used in turn, so that the second process of a test is another interpreter.

If a test sets a variable that the interpreter, JAX or XLA reads at its start, a new interpreter is started. The
options of JAX's cache are the exception: the child gives them to JAX as JAX takes them from the environment.
"""

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Final

from jcache.cli.app import COMMANDS
from tests.helpers.fork_server import OF_JAX_CACHE

SERVER: Final = Path(__file__).with_name("fork_server.py")
LIMIT_S: Final = 600.0  # to end a hang
AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "OMP_", "OPENBLAS_", "MKL_")
TYPER_AT_START: Final = ("TYPER_", "TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "_TYPER")
JAX_AT_START: Final = ("JAX_", "XLA_", "TF_", "LIBTPU_", "CUDA_")
LATER: Final = ("PYTHONPATH", "XLA_FLAGS", *OF_JAX_CACHE)  # the server's child does what is to be done of these
NOT_FROM_OUTSIDE: Final = ("JAX_", "XLA_", "JCACHE_", "PYTHON")

# JAX uses the CPU. Python writes no bytecode: it tells a module's source by size and whole seconds, and would run the
# old code of a module that a test changes within the second in which the process before compiled it.
AS_IN_ALL_TESTS: Final = {"JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}


def base_environment() -> dict[str, str]:
    """Return the environment without variables that change JAX, jcache or the interpreter, and with
    `AS_IN_ALL_TESTS`.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FROM_OUTSIDE)}
    return kept | AS_IN_ALL_TESTS


class Server:
    """A fork server, which starts when it is first needed and ends with the tests' process."""

    def __init__(self, modules: Sequence[str], at_start: Sequence[str]) -> None:
        self._modules, self._at_start = modules, tuple(at_start)
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    @cached_property
    def _environment(self) -> dict[str, str]:
        return base_environment()

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Return whether a child would be like a new interpreter under this environment."""
        names = {name for name in {*self._environment, *environment} if name.startswith(self._at_start)}
        return all(self._environment.get(name) == environment.get(name) for name in names if not name.startswith(LATER))

    def run(
        self, command: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None, stdin: str
    ) -> "subprocess.CompletedProcess[str]":
        """Runs `python COMMAND` to its end in a forked child."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._socket())
            pipes = [os.pipe() for _ in range(3)]
            (theirs_in, our_in), (our_out, theirs_out), (our_err, theirs_err) = pipes
            given = (theirs_in, theirs_out, theirs_err)
            try:
                socket.send_fds(connection, [b"x"], given)
            finally:
                for descriptor in given:
                    os.close(descriptor)
            readers = [_Reader(our_out), _Reader(our_err)]
            writer = threading.Thread(target=_write, args=(our_in, stdin.encode()), daemon=True)
            writer.start()
            connection.sendall(json.dumps(_request(command, environment, cwd)).encode())
            connection.shutdown(socket.SHUT_WR)
            code = self._wait(connection, command)
            writer.join()
        return subprocess.CompletedProcess([sys.executable, *command], code, *(reader.text() for reader in readers))

    def _wait(self, connection: socket.socket, command: Sequence[str]) -> int:
        connection.settimeout(LIMIT_S)
        with connection.makefile() as answer:
            child = int(answer.readline())
            try:
                return int(answer.readline())
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(command), LIMIT_S) from None

    def _socket(self) -> str:
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._directory = tempfile.mkdtemp(prefix="jcache-fork-")
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), self._path, *self._modules],
                env=self._environment,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == "ready\n"
            atexit.register(self._end)
        return self._path

    @property
    def _path(self) -> str:
        return os.path.join(self._directory, "socket")

    def _end(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.communicate()
            shutil.rmtree(self._directory, ignore_errors=True)


class _Reader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._file = open(descriptor, "rb")  # noqa: SIM115  the thread closes it
        self._data = b""
        self.start()

    def run(self) -> None:
        with self._file as file:
            self._data = file.read()

    def text(self) -> str:
        self.join()
        return self._data.decode().replace("\r\n", "\n")


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)


def _request(command: Sequence[str], environment: Mapping[str, str], cwd: Path | None) -> dict[str, object]:
    umask = os.umask(0)
    os.umask(umask)
    return {
        "command": list(command), "environment": dict(environment), "directory": str(cwd or Path.cwd()), "umask": umask,
    }  # fmt: skip


class Pair:
    """Two servers with the same modules, which are used in turn."""

    def __init__(self, modules: Sequence[str], at_start: Sequence[str]) -> None:
        self._turns = cycle([Server(modules, at_start) for _ in range(2)])

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path | None = None,
        stdin: str = "",
    ) -> "subprocess.CompletedProcess[str]":
        """Run `python COMMAND` to its end, in a child of a server or, if that would differ, in a new interpreter."""
        server = next(self._turns)
        if server.takes(environment):
            return server.run(command, environment=environment, cwd=cwd, stdin=stdin)
        return anew(command, environment=environment, cwd=cwd, stdin=stdin)


def anew(
    command: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None = None, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Runs `python COMMAND` to its end in an interpreter that is started for it."""
    return subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


with_jax: Final = Pair(("jax", "jax.numpy", "numpy"), AT_START + JAX_AT_START)
_COMMANDS: Final = (*sorted(set(COMMANDS.values())), "jcache.cli.output", "jcache.cli.options")
_USED_BY_COMMANDS: Final = (
    "blake3", "filelock", "humanize", "platformdirs", "rich.console", "rich.progress", "rich.table", "sqlite3",
    "typer.rich_utils", "zstandard",
)  # fmt: skip
with_command_line: Final = Pair((*_COMMANDS, *_USED_BY_COMMANDS), AT_START + TYPER_AT_START)
