"""The words for causes: each has a reason and a resolution that can be printed."""

import pytest

from jcache.vocabulary import RANK, VOCABULARY, CauseKind, bypass_resolution, not_stored_resolution


@pytest.mark.parametrize("item", CauseKind)
def test_each_cause_has_its_words(item: CauseKind) -> None:
    """Reason and resolution are there, name nothing but what changed and a command, and end without a full stop."""
    words = VOCABULARY[item]
    for text in words:
        about = {"name": "batch", "command": "python train.py", "environment": "JAX_ENABLE_X64=1 ", "root": " --root r"}
        shown = text.format_map(about)
        assert shown and shown[-1] != "." and "{" not in shown and shown[0].isprintable()


def test_the_order_is_that_of_the_diagnosis() -> None:
    """What became of an entry is asked before what changed, and the harmless before the grave in a module."""
    order = [
        CauseKind.DAMAGED,
        CauseKind.EVICTED,
        CauseKind.NOT_STORED,
        CauseKind.FIRST_TIME,
        CauseKind.VERSION,
        CauseKind.XLA_FLAGS,
        CauseKind.SHAPE,
    ]
    assert [RANK[item] for item in order] == sorted(RANK[item] for item in order)
    assert RANK[CauseKind.NAMES] < RANK[CauseKind.CONSTANT] < RANK[CauseKind.PROGRAM]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("compiled in less than 1 s", "MIN_COMPILE_TIME_SECS"),
        ("smaller than 100 bytes", "MIN_ENTRY_SIZE_BYTES"),
        ("only process 0 writes", "write='all'"),
        ("something else", "jcache run stores all"),
    ],
)
def test_what_was_not_stored_has_a_resolution_of_its_own(reason: str, words: str) -> None:
    """The resolution follows the reason; an unknown reason has the usual one."""
    assert words in not_stored_resolution(reason)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("the compilation cache is disabled", "JAX_ENABLE_COMPILATION_CACHE"),
        ("no key could be made: x", "message of JAX"),
        ("else", "turn the cache on"),
    ],
)
def test_what_was_bypassed_has_a_resolution_of_its_own(reason: str, words: str) -> None:
    """The resolution follows the reason; an unknown reason has the usual one."""
    assert words in bypass_resolution(reason)
