"""Texts of frames without the directories of one host."""

import json
import os
import sysconfig
import traceback

import pytest

from jcache.traces.callbacks.frames import has_frames, with_directories, without_directories

PLACES = ("purelib", "stdlib")


@pytest.mark.parametrize("place", PLACES)
def test_the_directories_of_a_process_are_left_out_and_put_back(place: str) -> None:
    """Of packages and of Python; the text is the same afterwards."""
    path = os.path.join(sysconfig.get_paths()[place], "package", "module.py")
    text = f'  File "{path}", line 3, in call\n    return 1 / 0\n'
    short = without_directories(text)
    assert os.path.dirname(path) not in short and "module.py" in short
    assert with_directories(short) == text


def test_a_traceback_is_the_same_afterwards() -> None:
    """Of files anywhere, Python's own among them."""
    try:
        json.loads("{")
    except ValueError:
        text = traceback.format_exc()
    assert has_frames(text) and with_directories(without_directories(text)) == text
    assert sysconfig.get_paths()["stdlib"] not in without_directories(text)
    assert not has_frames("a file")
