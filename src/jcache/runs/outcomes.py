"""What becomes of an executable or a trace that a program asks for, in the words of reports."""

from typing import Final

HIT: Final = "hit"
STORED: Final = "stored"
NOT_STORED: Final = "not_stored"
BYPASSED: Final = "bypassed"
