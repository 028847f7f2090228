"""The command line: thin commands over the engines. `output` is the only place that prints."""

import sys


def main() -> None:
    """Runs ``jcache`` with the process's arguments and exits with the code that `jcache.cli.app` documents."""
    from jcache.cli.app import run

    sys.exit(run(sys.argv[1:]))
