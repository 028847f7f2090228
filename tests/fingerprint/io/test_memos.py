"""What was read for results that the program keeps."""

import functools
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jcache.fingerprint.io import memos
from jcache.fingerprint.io.audit import record_always
from jcache.fingerprint.io.reads import Reads

record_always()


@functools.cache
def of_module(path: Path) -> list[str]:
    return [path.read_text(), *os.listdir(path.parent), os.environ.get("JCACHE_TEST_RATE", "")]


def later(path: Path) -> list[str]:
    return [path.read_text(), *os.listdir(path.parent), os.environ.get("JCACHE_TEST_RATE", "")]


class Config:
    def __init__(self) -> None:
        self.of_instance = functools.lru_cache(maxsize=None)(self._load)

    def _load(self, path: Path) -> list[str]:
        return later(path)

    @staticmethod
    @functools.cache
    def of_class(path: Path) -> list[str]:
        return later(path)


def of_closure() -> Callable[[Path], list[str]]:
    @functools.cache
    def load(path: Path) -> list[str]:
        return later(path)

    return load


def elsewhere(path: Path) -> list[str]:
    return later(path)


other_name = functools.lru_cache(elsewhere)
HELD: dict[str, Callable[[], Any]] = {
    "module": lambda: of_module,
    "other name": lambda: other_name,
    "instance": lambda: Config().of_instance,
    "class": lambda: Config.of_class,
    "closure": of_closure,
}


@pytest.fixture
def rates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that stays, since what one test reads by a function of the module is the next one's as well."""
    path = tmp_path_factory.mktemp("rates") / "rates"
    path.write_text("2")
    return path


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("held", HELD)
def test_a_block_that_takes_a_result_depends_on_what_was_read_for_it(held: str, strict: bool, rates: Path) -> None:
    """Wherever the `lru_cache` is held; a block that takes no result does not."""
    load = HELD[held]()
    load(rates)
    with Reads(strict=strict) as taking:
        load(rates)
    with Reads(strict=strict) as other:
        pass
    expected = {f"file {rates}", f"directory {rates.parent}", "environment JCACHE_TEST_RATE"}
    assert expected <= set(taking.parts) and taking.reason is None
    assert not other.parts


def test_a_result_of_what_has_changed_is_a_reason(rates: Path) -> None:
    """What the program holds is neither what is there now nor what a later process would make."""
    load = of_closure()
    load(rates)
    rates.write_text("22")
    with Reads() as reads:
        load(rates)
    assert reads.reason == f"used a result for which file {rates} was read, which has changed since"


def test_results_that_nothing_was_read_for(rates: Path) -> None:
    """They are taken without more ado."""
    double = functools.cache(lambda number: 2 * number)
    double(1)
    with Reads() as reads:
        double(1)
    assert not reads.parts and reads.reason is None


def test_a_file_that_is_only_written(tmp_path: Path) -> None:
    """A log that a memoized function opens is no input, whatever is written to it later."""

    @functools.cache
    def log() -> Path:
        with open(tmp_path / "log", "a") as file:
            file.write("begun")
        return tmp_path / "log"

    log().write_text("more")
    with Reads() as reads:
        log()
    assert not reads.parts and reads.reason is None


def test_a_served_trace_hands_on_its_variables_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """To what uses it. Its key describes them in other words, which are no sign of a change."""
    monkeypatch.setenv("JCACHE_TEST_RATE", "2")
    parts = {"environment JCACHE_TEST_RATE": "2", "environment JCACHE_TEST_NONE": "None", "global rate": "1"}
    with Reads() as reads:
        memos.hand_over(memos.reads_in(parts), (), None)
    assert reads.reason is None
    assert set(reads.parts) == {"environment JCACHE_TEST_RATE", "environment JCACHE_TEST_NONE"}


def test_what_was_read_for_a_trace_is_handed_over(tmp_path: Path) -> None:
    """To the block that uses the trace, unless it has changed meanwhile or could not be recorded."""
    file = tmp_path / "rate"
    file.write_text("1")
    with Reads() as made:
        file.read_text()
    with Reads() as reads:
        memos.hand_over(made.parts, {"`time.time` gives another time in each process"}, None)
    assert reads.reason is None and reads.parts == made.parts and len(reads.chance) == 1
    with Reads() as reads:
        memos.hand_over({}, (), "wrote a file")
    assert reads.reason == "wrote a file"
    file.write_text("2")
    with Reads() as reads:
        memos.hand_over(made.parts, (), None)
    assert "has changed since" in str(reads.reason)


class Loop:
    """An object with a method that runs for long."""

    def run(self, path: Path) -> bool:
        """Return whether a variable is freed when it is deleted, though a file was opened and a result was kept."""

        @functools.lru_cache
        def text(path: Path) -> str:
            return path.read_text()

        large = Loop()
        freed = weakref.ref(large)
        text(path)
        os.environ.get("JCACHE_TEST_RATE")
        del large
        return freed() is None


def test_noting_keeps_no_variable_alive(rates: Path) -> None:
    """A loop that runs for hours frees what it deletes, on an accelerator as well."""
    assert Loop().run(rates)
