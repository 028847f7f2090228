"""A command of jcache on a terminal of some width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.helpers.command_line import clean_environment
from tests.helpers.waiting import LIMIT_S

WIDTHS = [60, 80, 120, 200]


def open_terminal() -> tuple[int, int]:
    """Return the descriptors of a new terminal; skip the test where the system gives none, as in a bare chroot."""
    try:
        return pty.openpty()
    except OSError as error:
        pytest.skip(f"there is no terminal here: {error}")


class Terminal:
    """A command that runs on a terminal without colour, whose screen is read."""

    def __init__(self, *arguments: str | Path, columns: int = 80) -> None:
        self._primary, secondary = open_terminal()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = clean_environment({"TERM": "xterm", "NO_COLOR": "1", "LANG": "C.UTF-8"})
        del environment["COLUMNS"]
        command = [sys.executable, "-m", "jcache", *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=secondary, stdout=secondary, stderr=secondary, env=environment, close_fds=True
        )
        os.close(secondary)

    def answer(self, text: str) -> str:
        """Waits for a question, answers, and returns what was on the screen before."""
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(self._primary, 4096)
        os.write(self._primary, text.encode())
        return seen.decode()

    def finish(self) -> tuple[int, list[str]]:
        """Returns the exit code and the lines on the screen."""
        seen = b""
        try:
            while chunk := os.read(self._primary, 4096):
                seen += chunk
        except OSError:
            pass  # Linux ends a pty with EIO
        code = self._process.wait(LIMIT_S)
        os.close(self._primary)
        return code, re.sub(r"\x1b\[[0-9;]*m", "", seen.decode().replace("\r\n", "\n")).splitlines()
