"""What a block looks for among modules, and which files it executes."""

import importlib.util
import runpy
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from jcache.fingerprint.io.reads import Reads

NAME = "absent_for_test_imports"
LOOKS = {
    "a statement": f"import {NAME}",
    "from a module": f"from {NAME} import x",
    "by a computed name": f"importlib.import_module('{NAME}')",
    "by the builtin": f"__import__('{NAME}')",
    "for its spec": f"importlib.util.find_spec('{NAME}')",
    "as a program": f"runpy.run_module('{NAME}')",
}


def looked(source: str) -> Reads:
    """Return what a block reads that looks for a module in vain."""
    with Reads(strict=False) as reads, suppress(ImportError):
        exec(source, {"importlib": importlib, "runpy": runpy, "__name__": "program"})
    return reads


@pytest.mark.parametrize("case", LOOKS)
def test_a_module_that_is_not_there_is_recorded(case: str) -> None:
    """However the block looks for it."""
    assert NAME in looked(LOOKS[case]).sought


def test_what_other_threads_look_for_does_not_count() -> None:
    """A block records what it does itself, and the process has its finders back afterwards."""
    before, asked, found = [*sys.meta_path], threading.Event(), threading.Event()

    def look() -> None:
        asked.wait(5)
        importlib.util.find_spec(f"{NAME}_2")
        found.set()

    thread = threading.Thread(target=look)
    thread.start()
    with Reads(strict=False) as reads:
        assert sys.meta_path[1:] == before
        asked.set()
        found.wait(5)
        importlib.util.find_spec(NAME)
    thread.join()
    assert reads.sought == {NAME} and sys.meta_path == before


def test_a_directory_in_which_a_block_looks_counts(tmp_path: Path) -> None:
    """One that is on the path for a while only: a later process does not look there by itself."""
    for directory in (tmp_path, tmp_path / "late"):
        with Reads() as reads:
            sys.path.insert(0, str(directory))
            with suppress(ImportError):
                importlib.import_module(NAME)
            sys.path.pop(0)
        assert f"directory {directory}" in reads.parts and reads.reason is None


def test_a_program_may_set_its_finders_meanwhile() -> None:
    """They are left as the program has set them."""
    before = [*sys.meta_path]
    try:
        with Reads(strict=False):
            sys.meta_path[:] = before[::-1]
        assert sys.meta_path == before[::-1]
    finally:
        sys.meta_path[:] = before


def test_files_that_are_executed_are_recorded(tmp_path: Path) -> None:
    """But not those that the block itself has written."""
    plugin, own = tmp_path / "plugin.py", tmp_path / "own.py"
    plugin.write_text("W = 1")
    with Reads(strict=False) as reads:
        runpy.run_path(str(plugin))
        own.write_text("W = 1")
        runpy.run_path(str(own))
        exec(compile("W = 1", "<text>", "exec"))
    assert {path for path in reads.executed if path.startswith(str(tmp_path))} == {str(plugin)}
