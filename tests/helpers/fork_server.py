"""A Python that has imported some modules, and forks a child for each program that it is asked to run.

    python fork_server.py SOCKET MODULE…

A request is one connection to the socket: the first byte brings three file descriptors (stdin, stdout, stderr), then
comes JSON with the command line, the environment, the working directory and the umask. The answer is the child's
number in a line, and, when it has ended, its exit status in another. The server ends with its own stdin.

The child is what `python COMMAND` would be with these modules imported: a `__main__` of its own, `sys.path`, `argv`.
"""

import atexit
import builtins
import gc
import importlib
import importlib.machinery
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

OF_JAX_CACHE = ("JAX_COMPILATION_CACHE_", "JAX_ENABLE_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE_")
KEEP: list[object] = []  # what must outlive the module that is replaced as `__main__`


class Child(BaseException):
    """Ends the server's loop in a child, with the program to run."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request


class Server:
    """Accepts requests, and reports the exit status of each child."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        self._waiting: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Serves until stdin ends.

        Raises:
            Child: in each child.
        """
        selector = selectors.DefaultSelector()
        for source in (self._listener, self._woken, 0):
            selector.register(source, selectors.EVENT_READ)
        try:
            while True:
                ready = [key.fd for key, _ in selector.select()]
                if self._woken.fileno() in ready:
                    self._woken.recv(4096)
                    self._report()
                if self._listener.fileno() in ready:
                    self._accept()
                if 0 in ready:
                    return
        finally:
            selector.close()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
        with connection.makefile("rb") as file:
            request = json.loads(file.read())
        child = os.fork()
        if child == 0:
            self._leave(connection)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            for descriptor in descriptors:
                os.close(descriptor)
            raise Child(request)
        for descriptor in descriptors:
            os.close(descriptor)
        self._waiting[child] = connection
        connection.sendall(b"%d\n" % child)

    def _leave(self, connection: socket.socket) -> None:
        """Undo what belongs to the server alone."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._listener, self._woken, self._wakes, connection, *self._waiting.values()):
            each.close()

    def _report(self) -> None:
        while self._waiting:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            with self._waiting.pop(child) as connection:
                try:
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                except BrokenPipeError:  # nobody waits any more
                    continue


def settle(request: dict[str, Any]) -> None:
    """Turn the process into the requested one."""
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["directory"])
    os.umask(request["umask"])
    sys.path[:0] = [path for path in request["environment"].get("PYTHONPATH", "").split(os.pathsep) if path]
    importlib.invalidate_caches()
    if "jax" in sys.modules:
        configure_jax(request["environment"])
    if "numpy.random" in sys.modules:  # a new interpreter has a state of its own
        sys.modules["numpy.random"].seed()
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)


def configure_jax(environment: dict[str, str]) -> None:
    """Give JAX the options of its cache that it would have read from the environment when it was imported."""
    config = sys.modules["jax"].config
    for variable, text in environment.items():
        option = variable.lower()
        if not variable.startswith(OF_JAX_CACHE) or not hasattr(config, option):
            continue
        default = getattr(config, option)
        if isinstance(default, bool):
            config.update(option, text.lower() in ("y", "yes", "t", "true", "on", "1"))
        else:
            config.update(option, text if default is None else type(default)(text))


def _stream(descriptor: int, model: TextIO) -> TextIO:
    """A standard stream of a new interpreter: the server's own knows another file."""
    file = open(descriptor, "wb" if descriptor else "rb", closefd=False)  # noqa: SIM115  it stays open
    return io.TextIOWrapper(
        file, encoding=model.encoding, errors=model.errors, newline="\n" if descriptor else None,
        line_buffering=descriptor == 2, write_through=False,
    )  # fmt: skip


def run(command: list[str]) -> None:
    """Runs a program as the interpreter does: ``-c TEXT``, ``-m MODULE`` or a file, and its arguments."""
    sys.orig_argv = [sys.executable, *command]
    if command[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    KEEP.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    main.__dict__["__builtins__"] = builtins
    if command[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *command[2:]]
        main.__loader__ = importlib.machinery.BuiltinImporter
        text, name = command[1], "<string>"
    else:
        sys.path.insert(0, os.path.dirname(command[0]))
        sys.argv = command
        name = main.__file__ = command[0]
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
        with open(name, encoding="utf-8") as file:
            text = file.read()
    exec(compile(text, name, "exec", dont_inherit=True), main.__dict__)


def main() -> None:
    """Import the modules and serve; in a child, run the requested program."""
    path, modules = sys.argv[1], sys.argv[2:]
    del sys.path[0]  # this file's directory
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a child does not copy what it only looks through
    server = Server(path)
    print("ready", flush=True)
    try:
        server.serve()
    except Child as child:
        request = child.request
    else:
        return
    settle(request)
    leave(lambda: run(request["command"]))


def leave(program: Callable[[], None]) -> NoReturn:
    """Run a program and end like the interpreter, but without finalizing the modules, which would take longest.

    Wait for threads that are no daemons, call the functions registered with `atexit`, and flush streams.
    """
    try:
        code = ended(program)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BrokenPipeError:
        code = 120  # as Python's own where what is left cannot be written
    sys.stderr.flush()
    os._exit(code)


def ended(program: Callable[[], None]) -> int:
    """Runs a program; the exit code that Python would give it."""
    try:
        program()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001  as the interpreter does; without the frames of this file
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        return 1
    return 0


if __name__ == "__main__":
    main()
