"""Fingerprint of a callable and its arguments: everything that decides the result, and nothing else."""

from jcache.fingerprint.call import Fingerprint, changed_meanwhile, fingerprint
from jcache.fingerprint.describe import changes
from jcache.fingerprint.walk import digest_of

__all__ = ["Fingerprint", "changed_meanwhile", "changes", "digest_of", "fingerprint"]
