"""The command line: thin commands over the engines. `output` is the only place that prints."""

import gc
import sys


def main() -> None:
    """Runs ``jcache`` with the process's arguments and exits with the code that `jcache.cli.app` documents."""
    # A command lives for a moment and makes no cycles worth breaking, but importing and listing 100,000 entries
    # allocates enough to set off collections that find nothing: 15 % of the CPU time of `jcache info`.
    gc.disable()
    from jcache.cli.app import run

    sys.exit(run(sys.argv[1:]))
