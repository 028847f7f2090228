"""Values whose state Python does not show count by their type, and by what is known of them all the same."""

import concurrent.futures
import functools
import json
import logging
import mmap
import queue
import tempfile
import threading
import xml.etree.ElementTree
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from jcache.errors import GraphKeyError
from jcache.fingerprint import Fingerprint, fingerprint
from jcache.fingerprint.opaque import functions_in
from jcache.fingerprint.values import Encoder
from tests.helpers.fingerprints import key_of

holder: Any = None


class Worker(threading.Thread):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self.chatty = rate, rate > 1


def finished(value: float) -> "concurrent.futures.Future[float]":
    future: concurrent.futures.Future[float] = concurrent.futures.Future()
    future.set_result(value)
    return future


def local(value: float) -> threading.local:
    made = threading.local()
    made.rate = value
    return made


def used() -> object:
    """Name the attributes `rate` and `result`."""
    return holder.rate, holder.result()


def of(value: object) -> Fingerprint:
    """Return the fingerprint of a function that reaches a value."""
    global holder
    holder = value
    return fingerprint(used)


NAMED: dict[str, Callable[[float], object]] = {
    "an attribute of a thread": Worker,
    "a value of a thread": local,
    "a result to come": finished,
    "a function in a ufunc": lambda rate: np.frompyfunc(lambda x, k=rate: x * k, 1, 1),
    "a function that compares": lambda rate: functools.cmp_to_key(functools.partial(lambda k, a, b: k * (a - b), rate)),
}


@pytest.mark.parametrize("case", NAMED)
def test_what_the_code_names_counts(case: str) -> None:
    """So do functions of Python in a value of C; two with the same content share a key."""
    make = NAMED[case]
    assert of(make(1.0)).key == of(make(1.0)).key != of(make(2.0)).key


def test_plain_values_that_no_code_names_are_told_beside_the_key() -> None:
    """Such as whether an event is set, and the level that a logger has from another one."""
    event = threading.Event()
    before = of(event)
    event.set()
    assert of(event).key == before.key and of(event).loose != before.loose
    parent, logger = logging.getLogger("opaque"), logging.getLogger("opaque.one")
    parent.setLevel(logging.DEBUG)
    before = of(logger)
    parent.setLevel(logging.ERROR)
    assert of(logger).key == before.key and of(logger).loose != before.loose
    assert of(threading.Lock()).loose == {}


def test_what_can_be_called_is_looked_for_in_a_value_of_c() -> None:
    """A library's classes are not: its distribution counts as a whole."""
    assert functions_in(Encoder(), np.add) == [] == functions_in(Encoder(), [1, "a", int])
    assert len(functions_in(Encoder(), [used, 1, functools.partial(used), [].append])) == 3


def test_what_a_value_of_c_refers_to_is_told_beside_the_key() -> None:
    """If it cannot be copied: the objects that it holds, and its bytes."""
    text = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    made = [text({}, None, None, None, mark, ",", False, False, True) for mark in "::="]
    key = of(made[0]).key
    assert key == of(made[2]).key and of(made[0]).loose == of(made[1]).loose != of(made[2]).loose
    memory = [mmap.mmap(-1, 8) for _ in range(3)]
    memory[2][:1] = b"a"
    assert of(memory[0]).loose == of(memory[1]).loose != of(memory[2]).loose
    large = [mmap.mmap(-1, 65 << 20) for _ in range(2)]
    assert of(large[0]).loose == of(large[1]).loose
    for place in (slice(1), slice(-1, None)):  # parts of the first and of the last sample
        large[1][place] = b"a"
        assert of(large[0]).loose != of(large[1]).loose
        large[1][place] = b"\0"


def test_a_value_of_c_counts_by_what_a_copy_is_made_from() -> None:
    """As a global and as an argument; what cannot be copied is no argument, for two could not be told apart."""
    trees = [xml.etree.ElementTree.fromstring(f"<a><b>{text}</b></a>") for text in "112"]
    assert of(trees[0]).key == of(trees[1]).key != of(trees[2]).key
    assert key_of(trees[0]) == key_of(trees[1]) != key_of(trees[2])
    for value in (mmap.mmap(-1, 8), zlib.compressobj()):
        with pytest.raises(GraphKeyError, match="holds what Python does not show"):
            key_of(value)


def test_a_value_that_shows_all_of_its_state_counts_by_that() -> None:
    """A number in order, and what a decoder of JSON calls: as a global and as an argument, though neither is copied."""
    order = functools.cmp_to_key(lambda one, other: int(one) - int(other))  # type: ignore[call-overload]
    numbers = [order(number) for number in (1, 1, 2)]
    decoders = [json.JSONDecoder(parse_float=functools.partial(round, ndigits=digits)) for digits in (1, 1, 2)]
    for one, same, other in (numbers, decoders):
        assert of(one).key == of(same).key != of(other).key
        assert key_of(one) == key_of(same) != key_of(other)


def test_a_file_within_a_file_counts_by_its_content() -> None:
    """As that of a temporary file which is in memory while it is small."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.SpooledTemporaryFile()) for _ in range(3)]
        for file, text in zip(files, (b"1", b"1", b"2"), strict=True):
            file.write(text)
        assert of(files[0]).key == of(files[1]).key != of(files[2]).key


def half_read() -> "queue.SimpleQueue[int]":
    made: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(30):
        made.put(number)
    made.get()
    return made


def half_built() -> xml.etree.ElementTree.TreeBuilder:
    made = xml.etree.ElementTree.TreeBuilder()
    made.start("a", {})
    return made


@pytest.mark.parametrize("make", [half_read, half_built])
def test_a_list_of_c_may_have_empty_places(make: Callable[[], Any]) -> None:
    """To iterate over such a list would end the process."""
    made = make()
    before = of(made)
    if isinstance(made, queue.SimpleQueue):
        made.get()
    else:
        made.start("b", {})
    assert of(made).key == before.key and of(made).loose != before.loose


def decompressed(content: bytes) -> object:
    made = zlib.decompressobj()
    made.decompress(zlib.compress(b"a") + content)
    return made


def test_fields_of_c_that_no_copy_shows_are_told_beside_the_key() -> None:
    """Such as what a decompressor has not used."""
    one, same, other = of(decompressed(b"1")), of(decompressed(b"1")), of(decompressed(b"2"))
    assert one.loose == same.loose != other.loose
