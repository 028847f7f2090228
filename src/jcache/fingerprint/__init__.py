"""Fingerprint of a callable and its arguments: everything that decides the result, and nothing else."""

from jcache.fingerprint.call import Fingerprint, changed_meanwhile, digest_of, fingerprint
from jcache.fingerprint.describe import changes

__all__ = ["Fingerprint", "changed_meanwhile", "changes", "digest_of", "fingerprint"]
