"""A program under ``launch`` cannot detect jcache."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from select import select

import pytest

from jcache.errors import InvalidValue
from jcache.runs.launch import CannotStart, CommandNotFound, ProgramExit, launch
from tests.helpers.terminals import open_terminal
from tests.helpers.waiting import LIMIT_S

LAUNCHER = """
import json, os, sys
from jcache.runs.launch import launch
outcome = launch(sys.argv[2:], os.environ)
with open(sys.argv[1], "w") as file:
    json.dump([outcome.exit_code, outcome.signal, outcome.seconds], file)
"""
# Names every signal it gets and who sent it (128: the kernel, 0: kill), until SIGTERM.
LISTENER = """
import os, signal
wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGCONT}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
while True:
    info = signal.sigwaitinfo(wanted)
    print("got", info.si_signo, info.si_code, flush=True)
    if info.si_signo == signal.SIGTERM:
        raise SystemExit(5)
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="sigwaitinfo and /proc")
OF_TERMINALS = [
    getattr(signal, f"SIG{name}") for name in ("INT", "QUIT", "HUP", "TERM", "TSTP", "TTIN", "TTOU", "CONT")
]


def launcher(result: Path, *command: str) -> list[str]:
    return [sys.executable, "-c", LAUNCHER, str(result), *command]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code_is_passed_on(code: int) -> None:
    """`launch` returns the program's exit code."""
    outcome = launch(["sh", "-c", f"exit {code}"], os.environ)
    assert (outcome.exit_code, outcome.signal) == (code, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_death_by_signal_reads_as_in_a_shell(number: signal.Signals) -> None:
    """Death by signal n is exit code 128 + n."""
    outcome = launch(["sh", "-c", f"kill -{int(number)} $$"], os.environ)
    assert (outcome.exit_code, outcome.signal) == (128 + number, number)


def test_environment_is_the_one_given() -> None:
    """The program sees the environment that was passed and nothing else."""
    command = ["sh", "-c", 'test "$JCACHE_TEST" = yes && test -z "$JCACHE_OTHER"']
    assert launch(command, {"PATH": os.environ["PATH"], "JCACHE_TEST": "yes"}).exit_code == 0


def test_unknown_command_is_127() -> None:
    """For a command that does not exist there is one sentence and exit code 127."""
    with pytest.raises(CommandNotFound, match="no such command") as failure:
        launch(["jcache-no-such-command"], os.environ)
    assert failure.value.exit_code == 127


def test_a_directory_on_the_path_is_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory on the PATH is no command, even if it may not be searched: as in shells, there is no such command."""
    (tmp_path / "jcache-no-such-command").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(CommandNotFound, match="no such command"):
        launch(["jcache-no-such-command"], os.environ)
    (tmp_path / "jcache-no-such-command").rmdir()
    (tmp_path / "jcache-no-such-command").touch(0o644)
    with pytest.raises(CannotStart, match="cannot be run"):
        launch(["jcache-no-such-command"], os.environ)


@pytest.mark.parametrize("text", [None, "#!/no/such/interpreter\n", "no program\n"])
def test_file_that_cannot_run_is_126(tmp_path: Path, text: str | None) -> None:
    """For a file that cannot be executed there is one sentence and exit code 126."""
    file = tmp_path / "program"
    file.write_text(text or "#!/bin/sh\n")
    file.chmod(0o644 if text is None else 0o755)
    with pytest.raises(CannotStart, match="cannot be run") as failure:
        launch([str(file)], os.environ)
    assert failure.value.exit_code == 126


@pytest.mark.parametrize("command", [[], ["sh", "a\0b"]])
def test_no_command_is_a_usage_error(command: list[str]) -> None:
    """An empty command, or one with a NUL byte, is refused."""
    with pytest.raises(InvalidValue):
        launch(command, os.environ)


def test_signal_state_is_restored() -> None:
    """Mask and handlers are the same after a run, also after one that could not start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGCHLD)
    launch(["true"], os.environ)
    with pytest.raises(CommandNotFound):
        launch(["jcache-no-such-command"], os.environ)
    assert (signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGCHLD)) == before


def test_exit_status_is_known_where_children_are_reaped_unseen() -> None:
    """A parent that ignores SIGCHLD does not cost the exit code."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert launch(["sh", "-c", "exit 7"], os.environ).exit_code == 7
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_streams_pass_through(tmp_path: Path) -> None:
    """stdin, stdout and stderr are the program's own."""
    run = subprocess.run(
        launcher(tmp_path / "outcome", "sh", "-c", "cat; echo error >&2"),
        input=b"one\x00two\xff", capture_output=True, check=True,
    )  # fmt: skip
    assert (run.stdout, run.stderr) == (b"one\x00two\xff", b"error\n")


@linux
def test_signal_mask_and_dispositions_are_the_original_ones(tmp_path: Path) -> None:
    """The program blocks and ignores exactly the signals that it would without jcache."""
    look = ["grep", "-E", "SigBlk|SigIgn|SigCgt", "/proc/self/status"]
    through = subprocess.run(launcher(tmp_path / "outcome", *look), capture_output=True, check=True).stdout
    direct = subprocess.run(look, capture_output=True, check=True).stdout
    assert sets(through) == sets(direct)


def sets(status: bytes) -> list[int]:
    """Return the signal sets of /proc/PID/status without 32 and 33, which glibc's posix_spawn ignores."""
    return [int(line.split()[1], 16) & ~0x1_8000_0000 for line in status.splitlines()]


@linux
def test_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    """A program that would be immune to Ctrl-C, as in the background of a script, still is."""
    look = "grep SigIgn /proc/self/status"
    script = 'trap "" INT; "$@"'
    through = subprocess.run(
        ["sh", "-c", script, "sh", *launcher(tmp_path / "o", "sh", "-c", look)], capture_output=True, check=True
    )
    direct = subprocess.run(["sh", "-c", script, "sh", "sh", "-c", look], capture_output=True, check=True)
    assert sets(through.stdout) == sets(direct.stdout) != [0]


@linux
def test_each_signal_reaches_the_program_once(tmp_path: Path) -> None:
    """Signals sent to jcache alone are passed on once each, and jcache outlives them."""
    result = tmp_path / "outcome"
    with subprocess.Popen(launcher(result, *python(LISTENER)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        sent = [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGTERM]
        for number in sent:
            process.send_signal(number)
            assert process.stdout.readline() == f"got {int(number)} 0\n"
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert ProgramExit(*json.loads(result.read_text())).exit_code == 5


def read_until(terminal: int, text: str, seen: str = "") -> str:
    while text not in seen:
        assert select([terminal], [], [], LIMIT_S)[0], f"no {text!r} after {seen!r}"
        seen += os.read(terminal, 4096).decode()
    return seen


def on_terminal(command: list[str]) -> tuple[int, int]:
    """Start a command as a terminal's own session does, whatever signals the tests ignore."""
    for descriptor in open_terminal():
        os.close(descriptor)
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            for number in OF_TERMINALS:
                signal.signal(number, signal.SIG_DFL)
            os.environ["LC_ALL"] = "C"  # in which bash says "Stopped"
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    return pid, terminal


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*forkpty:DeprecationWarning")
def test_ctrl_c_reaches_the_program_once(tmp_path: Path) -> None:
    """Ctrl-C on the terminal reaches the program from the kernel and not from jcache as well."""
    pid, terminal = on_terminal(launcher(tmp_path / "outcome", *python(LISTENER)))
    read_until(terminal, "ready")
    os.write(terminal, b"\x03")
    read_until(terminal, "got 2 128")
    os.kill(pid, signal.SIGTERM)  # in order behind a second SIGINT, if there were one
    assert "got 2 0" not in read_until(terminal, "got 15 0")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert json.loads((tmp_path / "outcome").read_text())[0] == 5


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*forkpty:DeprecationWarning")
def test_ctrl_z_and_fg(tmp_path: Path) -> None:
    """Ctrl-Z stops the program and jcache, the shell prints its prompt, and `fg` continues both."""
    pid, terminal = on_terminal(["bash", "--norc", "--noprofile", "-i"])
    words = " ".join(f"'{word}'" for word in launcher(tmp_path / "outcome", sys.executable, str(tmp_path / "l.py")))
    (tmp_path / "l.py").write_text(LISTENER)
    (tmp_path / "run.sh").write_text(f"exec {words}\n")
    os.write(terminal, f"bash {tmp_path}/run.sh; echo code=$?\n".encode())
    read_until(terminal, "ready")
    os.write(terminal, b"\x1a")
    read_until(terminal, "Stopped")
    os.write(terminal, b"echo prom''pt\n")
    read_until(terminal, "prompt")
    os.write(terminal, b"fg\n")
    read_until(terminal, f"got {int(signal.SIGCONT)}")
    os.write(terminal, b"\x03")
    read_until(terminal, "got 2 128")
    os.write(terminal, b"\x1a")
    read_until(terminal, "Stopped")
    os.write(terminal, b"kill %1; fg; exit\n")
    read_until(terminal, "got 15 0")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert json.loads((tmp_path / "outcome").read_text())[0] == 5
