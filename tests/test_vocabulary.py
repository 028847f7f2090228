"""The words for causes of misses: each cause has a reason and a resolution, and so has each reason of JAX's."""

from string import Formatter

import pytest

from jcache.vocabulary import RANK, VOCABULARY, Item, bypass_resolution, not_stored_resolution


@pytest.mark.parametrize("item", Item)
def test_each_cause_has_a_reason_and_a_resolution(item: Item) -> None:
    """Both are sentences without a full stop, and only the command and the name of what changed are filled in."""
    for words in VOCABULARY[item]:
        assert words and not words.endswith(".")
        assert {name for _, name, _, _ in Formatter().parse(words) if name is not None} <= {"command", "name"}


def test_the_order_is_that_of_the_diagnosis() -> None:
    """What happened to an entry comes before what changed in its key; churn and unknown causes come last."""
    known = [Item.EVICTED, Item.FIRST_TIME, Item.VERSION, Item.SHAPE, Item.CHURN, Item.UNKNOWN]
    assert sorted(known, key=RANK.__getitem__) == known
    assert RANK.keys() == VOCABULARY.keys()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("compiled in less than 1 s", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"),
        ("smaller than 4096 bytes", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"),
        ("larger than the cache may grow", "jcache config"),
        ("the entry with this key is incomplete", "jcache verify --repair"),
        ("the write failed: OSError: no space left on device", "jcache verify"),
        ("a reason that no version of JAX has given yet", VOCABULARY[Item.NOT_STORED].resolution),
    ],
)
def test_the_reason_why_nothing_was_stored_has_its_resolution(reason: str, words: str) -> None:
    """Reasons are those of `jcache.runs.log_messages`."""
    assert words in not_stored_resolution(reason)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("the compilation cache is disabled", "JAX_ENABLE_COMPILATION_CACHE"),
        ("no key could be made: it calls back to the host", "message of JAX"),
        ("this backend cannot serialize executables", "nothing to do"),
        ("there is no usable cache directory", "set a cache directory"),
        ("a reason that no version of JAX has given yet", VOCABULARY[Item.BYPASSED].resolution),
    ],
)
def test_the_reason_of_a_bypass_has_its_resolution(reason: str, words: str) -> None:
    """Reasons are those of `jcache.runs.log` and `jcache.runs.log_messages`."""
    assert words in bypass_resolution(reason)
