"""``python -m jcache`` is ``jcache``."""

from jcache.cli import main

main()
