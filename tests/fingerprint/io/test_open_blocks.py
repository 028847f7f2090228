"""The blocks that are open, by the threads that work for them."""

import os
import threading
from pathlib import Path
from types import FrameType

from jcache.fingerprint.io import open_blocks
from jcache.fingerprint.io.reads import Reads
from tests.helpers.reads import reads_of


def test_only_the_thread_of_the_block_counts(rates: Path) -> None:
    """What other threads read is theirs, also where they have blocks of their own."""

    def loader() -> None:
        ask.wait()
        rates.read_text()
        there.append(reads_of(lambda: (rates.read_text(), os.getenv("RATE"))))

    there: list[Reads] = []
    ask = threading.Event()
    thread = threading.Thread(target=loader)
    thread.start()
    with Reads() as here:
        ask.set()
        thread.join()
    assert not here.parts and here.reason is None and len(there[0].parts) == 2


def test_blocks_within_blocks_all_hear(rates: Path) -> None:
    """What an inner block reads is read by the outer one too, and not the other way round."""
    with Reads() as outer:
        rates.read_text()
        with Reads() as inner:
            os.getenv("RATE")
    assert list(inner.parts) == ["environment RATE"] and len(outer.parts) == 2


def test_a_thread_works_for_the_blocks_that_it_is_given() -> None:
    """For those of them that are open, and for its own again afterwards, until they are left."""
    with Reads() as mine, Reads() as other:
        with open_blocks.working_for([other]):
            assert open_blocks.of_this_thread() == [other]
            with open_blocks.working_for([]):
                assert open_blocks.of_this_thread() == []
            open_blocks.leave(other)
            assert open_blocks.of_this_thread() == []
        assert open_blocks.of_this_thread() == [mine]
        open_blocks.enter(other)
        with open_blocks.working_for([Reads(), mine]):
            assert open_blocks.of_this_thread() == [mine]
    assert open_blocks.of_this_thread() == [] and open_blocks.are_none()


def test_what_goes_wrong_with_a_note_is_a_reason() -> None:
    """The program goes on, and a later process may see no such thing."""

    def failing(*_: object) -> None:
        raise ZeroDivisionError

    with Reads() as reads:
        open_blocks.report([reads], failing, ())
    assert reads.reason == "could not be watched (ZeroDivisionError())" and reads.is_temporary


def test_what_a_note_reads_itself_is_not_told(rates: Path) -> None:
    """The frame that it is told of is the one that has called."""
    told = []

    def note(blocks: list[Reads], frame: FrameType, *arguments: object) -> None:
        rates.read_text()
        told.append((frame.f_code.co_name, *arguments))

    def caller() -> None:
        open_blocks.report([reads], note, (1, 2), depth=0)
        open_blocks.report([reads], note, (3,))

    with Reads() as reads:
        caller()
        rates.with_name("other").exists()
    assert told == [("caller", 1, 2), ("test_what_a_note_reads_itself_is_not_told", 3)]
    assert list(reads.parts) == [f"existence {rates.with_name('other')}"]
