r"""Run a program as if jcache were not there: same terminal, same process group, same streams, same signals.

The program inherits stdin, stdout and stderr and stays in jcache's process group, so job control and the terminal's own
signals work as usual. While jcache waits, it blocks all other signals that would end it, takes them one by one with
``sigwaitinfo`` and passes them on. A signal of the terminal (Ctrl-C, Ctrl-\, a hang-up) reaches the whole group, the
program included; the kernel marks it SI_KERNEL, and jcache does not send it a second time. A signal that ``kill`` sends
to the whole group looks the same as one sent to jcache alone, so the program gets it twice.
"""

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from jcache import clock
from jcache.errors import InvalidValue, JcacheError

_SI_KERNEL: Final = 0x80  # <asm-generic/siginfo.h>; sent by the terminal driver
_ENDING_SIGNALS: Final = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "POLL", "PWR", "XCPU")
_REAL_TIME_SIGNALS: Final = range(getattr(signal, "SIGRTMIN", 0), getattr(signal, "SIGRTMAX", -1) + 1)
_FORWARDED: Final = frozenset(getattr(signal, "SIG" + n) for n in _ENDING_SIGNALS if hasattr(signal, "SIG" + n)) | {
    *_REAL_TIME_SIGNALS
}
_FROM_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP})
_IGNORED_BY_PYTHON: Final = tuple(getattr(signal, n) for n in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, n))


class CannotStart(JcacheError):
    """The command exists, but the system refuses to run it."""

    exit_code = 126  # as in POSIX shells


class CommandNotFound(CannotStart):
    """There is no such command."""

    exit_code = 127  # as in POSIX shells


class ProgramExit(NamedTuple):
    """The end of a program.

    Attributes:
        exit_code: the exit code as a shell has it: 128 + n after death by signal n.
        signal: the number of the signal that ended the program; None if it ended by itself.
        seconds: the time that the program ran.
    """

    exit_code: int
    signal: int | None
    seconds: float


def launch(command: Sequence[str], env: Mapping[str, str]) -> ProgramExit:
    """Run a program, pass signals on to it, and wait until it ends. This works in the main thread only.

    Every other thread must block signals meanwhile: the system would give it the signals that are meant for the
    program.

    Args:
        command: the program and its arguments.
        env: the program's environment.

    Raises:
        InvalidValue: the command is empty or has a NUL byte.
        CommandNotFound: there is no such program.
        CannotStart: the program cannot be executed.
    """
    if not command or any("\0" in word for word in command):
        raise InvalidValue("Give a command to run after '--', without NUL bytes.")
    # A handler, since SIGCHLD may be ignored (inherited): the kernel would then lose the program's exit status.
    handler = signal.signal(signal.SIGCHLD, lambda *_: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    try:
        started = clock.monotonic()
        pid = _spawn(command, env, before)
        watch = threading.Thread(target=_notify_end, args=(pid, threading.get_ident()), daemon=True)
        watch.start()
        status = _wait(pid)
        seconds = clock.monotonic() - started
        watch.join()
        return _exit_of(status, seconds)
    finally:
        _drop_pending()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if handler is None else handler)


def _spawn(command: Sequence[str], env: Mapping[str, str], mask: set[int] | set[signal.Signals]) -> int:
    """Start the program with the signal mask and dispositions that jcache itself was started with."""
    try:
        # exec resets handlers to the default and keeps ignored signals ignored, but Python itself ignores SIGPIPE.
        return os.posix_spawnp(command[0], list(command), env, setsigmask=mask, setsigdef=_IGNORED_BY_PYTHON)
    except FileNotFoundError as error:
        if "/" in command[0] and Path(command[0]).exists():
            raise CannotStart(f"{command[0]} cannot be run: the interpreter that it names is missing.") from error
        raise CommandNotFound(f"{command[0]}: there is no such command.") from error
    except OSError as error:
        if isinstance(error, PermissionError) and "/" not in command[0] and not _is_on_path(command[0]):
            raise CommandNotFound(f"{command[0]}: there is no such command.") from error
        raise CannotStart(f"{command[0]} cannot be run: {error.strerror}.") from error


def _is_on_path(name: str) -> bool:
    """Return whether PATH has a file of this name; the system's error is the same for a directory without access."""
    import shutil

    return shutil.which(name, os.F_OK) is not None


def _notify_end(pid: int, waiting_thread: int) -> None:
    """Send SIGCHLD to the waiting thread at the program's end, since the system may send its own to another thread."""
    if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
        with suppress(ChildProcessError):  # the other SIGCHLD arrived, and the waiting thread was faster
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            signal.pthread_kill(waiting_thread, signal.SIGCHLD)


def _wait(pid: int) -> int:
    """Pass signals on to the program until it ends; return its wait status."""
    while True:
        number, terminal = _next_signal()
        if number == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == pid:
                return status
        elif not terminal:
            os.kill(pid, number)  # at worst a zombie: only waitpid above frees the pid


def _next_signal() -> tuple[int, bool]:
    """Wait for the next signal; return it, and whether the terminal sent it to the whole process group."""
    if sys.platform != "darwin":
        info = signal.sigwaitinfo(_FORWARDED | {signal.SIGCHLD})
        return info.si_signo, info.si_signo in _FROM_TERMINAL and info.si_code == _SI_KERNEL
    number = signal.sigwait(_FORWARDED | {signal.SIGCHLD})
    return number, number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()


def _in_foreground() -> bool:
    """Return whether a terminal's Ctrl-C reaches this process group: macOS does not tell the sender of a signal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _drop_pending() -> None:
    """Discard signals that came too late for the program, so that they do not end jcache before its report."""
    while late := signal.sigpending() & (_FORWARDED | {signal.SIGCHLD}):
        if sys.platform == "darwin":
            signal.sigwait(late)
        else:
            signal.sigtimedwait(late, 0)  # another thread may just have taken it: sigwait would wait for ever


def _exit_of(status: int, seconds: float) -> ProgramExit:
    code = os.waitstatus_to_exitcode(status)
    return ProgramExit(code, None, seconds) if code >= 0 else ProgramExit(128 - code, -code, seconds)
