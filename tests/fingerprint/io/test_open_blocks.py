"""The blocks that are open, by the threads that work for them."""

import os
import threading
from pathlib import Path

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
