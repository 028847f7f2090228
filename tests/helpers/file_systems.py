"""What the file system of the tests keeps."""

import os
from pathlib import Path

from jcache.store.access_times import access_times


def keeps_access_times(directory: Path) -> bool:
    """Return whether the access times in a directory tell last uses; a chroot that is no mount does not say so."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        return access_times(descriptor).within_ns is not None
    finally:
        os.close(descriptor)
