"""Entries in an object store or behind HTTP: addresses, names of objects, and a client that verifies what it reads.

It imports what is below `store`, and obstore inside the functions that need it. Begin with `client`: `open_remote`
returns a `Remote`, which reads, stores, lists and removes entries. `names` is the layout; `transport` says what a store
must do, and `object_store`, `http` and `bazel` do it. Nobody who names no URL imports this room.
"""

from jcache.remote.address import Address, parse_address
from jcache.remote.client import Remote, open_remote
from jcache.remote.entries import FoundEntry, RemoteEntry
from jcache.remote.names import UNKNOWN, namespace_of
from jcache.remote.transport import Timeouts
from jcache.remote.usage import record_uses

__all__ = [
    "UNKNOWN", "Address", "FoundEntry", "Remote", "RemoteEntry", "Timeouts", "namespace_of", "open_remote",
    "parse_address", "record_uses",
]  # fmt: skip
