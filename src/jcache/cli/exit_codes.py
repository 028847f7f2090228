"""The exit code of a command, and the sentence on the error that ended it."""

import sys
from collections.abc import Callable

from jcache.cli import INTERRUPTED, output
from jcache.errors import JcacheError
from jcache.text import shown


def exit_code(command: Callable[[], int | None]) -> int:
    """Run a command, print an error of it as a sentence, and return its exit code."""
    try:
        code = command()
        sys.stdout.flush()
    except JcacheError as error:
        output.error(shown(str(error)))
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        output.abandon(sys.stdout)
        code = 0
    except OSError as error:
        output.error(f"Cannot use {error.filename or 'the standard output'}: {error.strerror or error}.")
        output.abandon(sys.stdout)
        code = 1
    return code or 0
