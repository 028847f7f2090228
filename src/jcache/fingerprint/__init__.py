"""The key of a callable and its arguments: everything that decides its result, and nothing else."""

from jcache.fingerprint.discovery import Discovery, discovered, discovered_now
from jcache.fingerprint.texts import changes
from jcache.fingerprint.walk import digest_of, keep
from jcache.fingerprint.whole import Fingerprint, changed_meanwhile, fingerprint

__all__ = [
    "Discovery", "Fingerprint", "changed_meanwhile", "changes", "digest_of", "discovered", "discovered_now",
    "fingerprint", "keep",
]  # fmt: skip
