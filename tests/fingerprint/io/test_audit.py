"""Blocks hear what Python does, and nothing stays replaced after the last of them."""

import importlib
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jcache.fingerprint.io.reads import Reads
from tests.helpers.jax_programs import run
from tests.helpers.reads import SAY, WATCH, reads_of


def test_the_last_of_many_blocks_hears_what_the_first_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 loses count of so many changes of a class."""
    monkeypatch.setenv("RATE", "0.5")
    for how in (lambda: os.environ["RATE"], lambda: os.getenv("RATE"), lambda: "RATE" in os.environ):
        assert all(reads_of(how).parts == {"environment RATE": "'0.5'"} for _ in range(200))


def test_a_traceback_shows_its_source_as_without_jcache(tmp_path: Path) -> None:
    """Python opens the source to print it while no Python code runs, so that no frame can be asked who reads."""
    rest = "def fail():\n    raise ValueError('no')\n\nfail()\n"
    script = tmp_path / "script.py"
    shown = []
    for first in ("import jcache; jcache.graph(print)\n", "\n"):
        script.write_text(first + rest)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        shown.append(done.stderr)
    assert shown[0] == shown[1] and "raise ValueError('no')" in shown[0]


def test_nothing_stays_replaced() -> None:
    """After the last block, Python's own functions are in their places, in whatever order blocks of threads end."""
    places: list[tuple[type, str]] = [(type(os.environ), "__len__"), (threading.Thread, "start")]
    before = [getattr(*place) for place in places]
    first, second = Reads(), Reads()
    first.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        assert getattr(*places[0]) is not before[0]
        pool.submit(second.__exit__, None, None, None).result()
    assert [getattr(*place) for place in places] == before


def test_what_cannot_be_watched_is_a_reason() -> None:
    """Where another audit hook refuses ours, or the environment is not Python's, nothing built may be stored."""
    refusing = (
        "def refuse(event, args):\n    if event == 'sys.addaudithook': raise RuntimeError\nsys.addaudithook(refuse)\n"
    )
    replaced = "os.environ = dict(os.environ)\n"
    for program in (f"import sys\n{refusing}{WATCH}", WATCH + replaced):
        said = run(program + "with Reads() as reads: os.environ.get('X')" + SAY)
        assert "cannot be watched" in said.value[1]


def test_events_of_a_program_with_other_arguments_raise_nothing() -> None:
    """An audit event of the program's own that looks like one of Python's stops nothing, and is a reason."""
    assert "could not be watched" in str(reads_of(lambda: sys.audit("open", "only one")).reason)


def test_each_block_replaces_what_is_there_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program has put in the place of a function between two blocks is what the second one finds."""

    def draw() -> float:
        return random.random()

    assert reads_of(draw).chance == {"`random.random`"}
    with monkeypatch.context() as patch:
        patch.setattr(random, "random", random.Random(1).random)
        assert not reads_of(draw).chance
    assert reads_of(draw).chance == {"`random.random`"}


def test_what_the_program_replaces_in_a_block_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its function is there after the block, calls Python's own, and in a later block is heard no less."""
    calls = []
    monkeypatch.setattr(os, "stat", os.stat)  # which is put back after the test
    with Reads() as reads:
        ours = os.stat

        def theirs(path: Any, **options: Any) -> os.stat_result:
            calls.append(path)
            return ours(path, **options)

        vars(os)["stat"] = theirs
        os.path.exists(tmp_path / "a")
    assert os.stat is theirs and os.path.isdir(tmp_path) and {tmp_path / "a", tmp_path} <= set(calls)
    assert list(reads.parts) == [f"status {tmp_path}/a"]  # which tells more than whether it exists
    assert any(str(tmp_path / "b") in label for label in reads_of(lambda: os.path.exists(tmp_path / "b")).parts)


def test_a_library_that_is_imported_in_a_block_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it opens in C code counts, as if it had been imported before."""
    for name in ("sqlite3", "sqlite3.dbapi2"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "rates.db").touch()
    with Reads(strict=False) as reads:
        library = importlib.import_module("sqlite3")
        with closing(library.connect(":memory:")) as connection:
            connection.execute(f"attach '{tmp_path}/rates.db' as o")
    assert f"file {tmp_path}/rates.db" in reads.parts and reads.reason is None
