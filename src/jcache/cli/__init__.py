"""Command-line interface: thin commands over the library. Only `output` prints."""

import gc
import os
import sys
from contextlib import suppress
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run ``jcache`` with the process's arguments and exit with the code that `jcache.cli.app` documents."""
    # A command is short and makes no cycles worth breaking, but importing modules and listing 100,000 entries
    # allocates enough to start collections that find nothing: they take 15 % of the CPU time of `jcache info`.
    gc.disable()
    code: int | None
    try:
        _mend_streams()
        from jcache.cli.plain_run import run_plainly

        code = run_plainly(sys.argv[1:])
        if code is None:
            from jcache.cli.app import run

            code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _mend_streams() -> None:
    """Open closed streams (``>&-``) on the null device, and let stdout and stderr escape what they cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  it stays open until the process ends
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
