"""Which entries of a store were used when: batches that each host appends, and that a prune merges.

A batch is an object of its own, so that no two writers meet: ``v1/usage/<day>/<host>-<random>``, in zstd, a line for
each entry: the name of its object without ``v1/`` and ``-cache``, a blank, and nanoseconds since 1970.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from jcache import clock
from jcache.layout import ENTRY_SUFFIX, Kind
from jcache.remote.client import Remote
from jcache.remote.names import USAGE, VERSION, entry_name, parse_name

_MAX_BYTES: Final = 256 << 20  # of a batch, decompressed
_NOT_IN_HOSTS: Final = re.compile(r"[^A-Za-z0-9.-]+")

RemoteId = tuple[Kind, str, str]


def record_uses(remote: Remote, uses: Mapping[RemoteId, int] | Iterable[RemoteId]) -> None:
    """Append a batch of uses to a store.

    Args:
        remote: the store.
        uses: kind, namespace and key of the entries, with the times of their last uses in nanoseconds since 1970;
            without times, now.

    Raises:
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
    """
    now_ns = clock.now_ns()
    times = uses if isinstance(uses, Mapping) else dict.fromkeys(uses, now_ns)
    lines = [f"{_short(entry_name(*entry))} {used_ns}\n" for entry, used_ns in times.items()]
    if lines:
        write_batch(remote, lines, now_ns)


def write_batch(remote: Remote, lines: Iterable[str], now_ns: int) -> str:
    """Store a batch of lines, and return the name of its object; raise as `record_uses`."""
    import time

    import zstandard

    host = _NOT_IN_HOSTS.sub("-", socket.gethostname()).strip("-.") or "host"
    day = time.strftime("%Y-%m-%d", time.gmtime(now_ns // 1_000_000_000))
    name = f"{USAGE}{day}/{host[:64]}-{os.urandom(8).hex()}"
    data = zstandard.ZstdCompressor().compress("".join(lines).encode())
    remote.transport.put(name, data, {}, replace=False)
    return name


def batch_names(remote: Remote) -> list[str]:
    """Return the names of all batches of a store, the oldest days first; raise as `record_uses`."""
    return sorted(one.name for batch in remote.transport.objects(USAGE) for one in batch)


def read_batch(remote: Remote, name: str) -> Iterator[tuple[str, int]]:
    """Yield the short names of entries and the times of their last uses that a batch tells; raise as `record_uses`.

    What is no batch tells nothing, and neither does a line that is none.
    """
    import zstandard

    found = remote.transport.get(name)
    if found is None:
        return
    try:
        data = zstandard.ZstdDecompressor().decompress(found.data, max_output_size=_MAX_BYTES)
    except zstandard.ZstdError:
        return
    for line in data.decode(errors="replace").splitlines():
        short, _, time_text = line.rpartition(" ")
        if time_text.isdecimal() and len(time_text) < 20 and parse_name(f"{VERSION}/{short}{ENTRY_SUFFIX}"):
            yield short, int(time_text)


def short_name(entry: RemoteId) -> str:
    """Return how a batch names an entry."""
    return _short(entry_name(*entry))


def _short(name: str) -> str:
    return name.removeprefix(f"{VERSION}/").removesuffix(ENTRY_SUFFIX)
