"""Where jcache's own source lies; every path into it starts here."""

import os
from typing import Final

PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
OWN_FILES: Final = f"{PACKAGE}{os.sep}"  # how the file names of jcache's modules begin


def own_file(*parts: str) -> str:
    """The path of a file of jcache's, by its path below the package."""
    return os.path.join(PACKAGE, *parts)
