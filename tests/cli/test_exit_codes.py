"""The exit code of a command, and the sentence on the error that ended it."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from jcache.cli.exit_codes import exit_code
from jcache.errors import InvalidValue, NoCacheHere
from tests.helpers.jax_programs import environment

FAILS = """
import sys
from jcache.cli.exit_codes import exit_code

def command():
    raise {error}

sys.exit(exit_code(command))
"""


def raises(error: BaseException) -> Callable[[], int]:
    """Return a command that ends with an error."""

    def command() -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        (lambda: None, 0, ""),
        (lambda: 3, 3, ""),
        (raises(InvalidValue("no such size.")), 2, "jcache: no such size."),
        (raises(NoCacheHere("nothing there.")), 10, "jcache: nothing there."),
        (raises(KeyboardInterrupt()), 130, ""),
    ],
)
def test_each_end_has_its_code(
    command: Callable[[], int | None], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of jcache is told in one sentence on stderr."""
    assert exit_code(command) == code
    assert " ".join(capsys.readouterr().err.split()) == sentence


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        ("BrokenPipeError()", 0, ""),
        ("OSError(28, 'No space left', 'file')", 1, "jcache: Cannot use file: No space left."),
    ],
)
def test_an_error_of_the_system_leaves_stdout_alone(error: str, code: int, sentence: str) -> None:
    """In a process of its own, since its standard output is given up."""
    command = [sys.executable, "-c", FAILS.format(error=error)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (code, sentence)
