"""What the last run of a command used: a list that a push stores, so that `jcache run` elsewhere can fetch ahead.

It is advice, one object for each command, which the next push replaces: a line for each key, in the order of use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from jcache.layout import is_key
from jcache.remote.client import Remote
from jcache.remote.names import run_name

_MOST_KEYS: Final = 10_000
_MAX_BYTES: Final = 4 << 20


def write_run(remote: Remote, command: Sequence[str], keys: Iterable[str]) -> None:
    """Store the keys of the executables that a run of a command used.

    Args:
        remote: the store.
        command: the program and its arguments, without secrets.
        keys: the keys, in the order of their use.

    Raises:
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
    """
    lines = [f"{key}\n" for key in islice(keys, _MOST_KEYS)]
    remote.transport.put(run_name(command), "".join(lines).encode(), {}, replace=True)


def read_run(remote: Remote, command: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that a run of a command used, none if the store does not know; raise as `write_run`."""
    found = remote.transport.get(run_name(command))
    if found is None or len(found.data) > _MAX_BYTES:
        return ()
    lines = found.data.decode(errors="replace").splitlines()
    return tuple(dict.fromkeys(islice(filter(is_key, lines), _MOST_KEYS)))
