"""Run the command line as ``python -m jcache``."""

from jcache.cli import main

main()
