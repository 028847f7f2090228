"""Values that come back from a text, as parts of what a call sets."""

import json
import logging
import threading
from pathlib import Path

import numpy as np
import pytest

from jcache.fingerprint import texts
from jcache.fingerprint.settings import Maker, as_json, checked

VALUES = [
    b"", b"\x00a", 1j, complex("nan"), float("inf"), float("nan"), Path("a/b"), np.dtype("float32"), np.dtype("<U3"),
    logging.getLogger("jcache.test_texts"), logging.getLogger("jcache.test_texts").name, np.float32(0.5), np.int8(3),
    np.bool_(True), np.complex64(1j),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back(value: object) -> None:
    """Of the same type, and equal; a logger is the same one."""
    made = as_json({"a": value}, ())
    assert made is not None and checked([["n", 0, made[0]]])
    again = Maker().decoded(json.loads(json.dumps(made))[0])["a"]
    assert type(again) is type(value) and repr(again) == repr(value)
    assert again is value or not isinstance(value, logging.Logger)


def test_a_lock_that_is_free_comes_back() -> None:
    """As another one; one that is held does not."""
    lock = threading.Lock()
    made = as_json(lock, ())
    assert made is not None
    again = Maker().decoded(made[0])
    assert type(again) is type(lock) and again is not lock and not again.locked()
    with lock:
        assert as_json(lock, ()) is None


@pytest.mark.parametrize(
    "value",
    [
        logging.Logger("jcache.of nobody"), np.dtype([("a", int)]), threading.RLock(), bytearray(b"a"), object(),
        type("P", (type(Path()),), {})("a") if hasattr(Path, "with_segments") else memoryview(b""),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_other_values_have_no_text(value: object) -> None:
    """Also a logger that is not found by its name."""
    assert texts.written(value) is None and as_json(value, ()) is None


@pytest.mark.parametrize(
    "value", [["other", ""], ["bytes", "x"], ["bytes", 1], ["dtype", "x"], ["float", ""], ["a"], 1]
)
def test_a_damaged_text_is_told(value: object) -> None:
    """As any other damage of an entry."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        checked([["n", 0, {"text": value}]])
