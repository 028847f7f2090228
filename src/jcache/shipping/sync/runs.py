"""Store what the recorded runs of a root used, so that `jcache run` on another host can fetch it ahead."""

from __future__ import annotations

from jcache.layout import Root
from jcache.remote.client import Remote
from jcache.remote.run_keys import write_run
from jcache.remote.transfer import in_parallel
from jcache.runs.records import last_runs


def push_runs(root: Root, remote: Remote) -> None:
    """Store for each command of the latest recorded runs the keys that its last run used; raise as `write_run`."""
    for _ in in_parallel(lambda run: write_run(remote, *run), last_runs(root).items()):
        pass
