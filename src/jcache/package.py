"""The directory of jcache's own source: every path into it starts here."""

import os
from typing import Final

PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
OWN_FILES: Final = f"{PACKAGE}{os.sep}"  # the beginning of the file names of jcache's modules


def own_file(*parts: str) -> str:
    """Return the absolute path of a file of jcache, given the parts of its path below the package."""
    return os.path.join(PACKAGE, *parts)
