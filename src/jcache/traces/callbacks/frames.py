"""Texts with stack frames, which some libraries keep for their error messages, without this host's directories."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Final

_FILE: Final = 'File "'
_PLACES: Final = ("platlib", "purelib", "stdlib")  # the first two may lie in the last one, so they come first


def has_frames(text: str) -> bool:
    """Return whether a text names the file of a frame, as a traceback does."""
    return _FILE in text


def without_directories(text: str) -> str:
    """Return a text with marks in place of the directories of the program, notebook cells, packages and Python."""
    for mark, directory in _directories():
        text = text.replace(f"{_FILE}{directory}", f"{_FILE}{mark}")
    return text


def with_directories(text: str) -> str:
    """Return a text from `without_directories`, with the directories of this process in place of the marks."""
    for mark, directory in _directories():
        text = text.replace(f"{_FILE}{mark}", f"{_FILE}{directory}")
    return text


def _directories() -> list[tuple[str, str]]:
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    found = [] if path is None else [("\0program\0", os.path.dirname(os.path.abspath(path)))]
    if (cells := sys.modules.get("ipykernel.compiler")) is not None:
        found.append(("\0cells\0", cells.get_tmp_directory()))
    found += [(f"\0{name}\0", sysconfig.get_paths()[name]) for name in _PLACES]
    return [(mark, os.path.join(directory, "")) for mark, directory in found]
