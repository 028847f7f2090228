"""The command line: thin commands over the engines. `output` is the only place that prints."""

import gc
import os
import sys
from contextlib import suppress
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Runs ``jcache`` with the process's arguments and exits with the code that `jcache.cli.app` documents."""
    # A command lives for a moment and makes no cycles worth breaking, but importing and listing 100,000 entries
    # allocates enough to set off collections that find nothing: 15 % of the CPU time of `jcache info`.
    gc.disable()
    try:
        _mend_streams()
        from jcache.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _mend_streams() -> None:
    """Makes streams that were closed (``>&-``) swallow everything, and all of them take any text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  it stays open as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
