"""What people write for a key, and the entries that it stands for."""

import pytest
from hypothesis import given, strategies as st

from jcache.errors import UnknownKey
from jcache.layout import Kind, Root, short_key
from jcache.store.lookup import KeyFinder, find_entry, find_pins
from jcache.store.store import Store
from tests.helpers.entries import add, digits, executable, key

TRAIN, EVAL, BARE = key(1, "jit_train_step"), key(2, "jit_eval-step"), digits(3)
PHASIC = "graph-" + "0123456789abcdef" * 2
KEYS = [TRAIN, EVAL, BARE, PHASIC]
NAMES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (TRAIN, [TRAIN]),
        ("jit_t", [TRAIN]),
        ("jit_", [TRAIN, EVAL]),
        (digits(1)[:4], [TRAIN]),
        (short_key(EVAL), [EVAL]),
        ("jit_e…" + short_key(EVAL)[-9:], [EVAL]),
        ("jit_e..." + short_key(EVAL)[-9:], [EVAL]),
        ("jit…" + TRAIN[-20:], [TRAIN]),
        (BARE[:6], [BARE]),
        ("graph-0123", [PHASIC]),
        ("0123456", [PHASIC]),
        ("", []),
        (BARE[1:], []),
        (BARE[1:9], []),
        ("train", []),
        ("step", []),
        ("jit_t…", []),
        ("…" + short_key(EVAL)[-9:], []),
        ("jit_train_step-…" + digits(1)[:8], []),
        ("jit_t…" + digits(1)[9:20], []),
        ("JIT_TRAIN", []),
        ("jit_t*", []),
        (f"{TRAIN}\n", []),
        (f"{TRAIN}/..", []),
    ],
)
def test_beginnings(text: str, meant: list[str]) -> None:
    """A key, a beginning of it or of its hash, or what `ls` prints on a narrow terminal; nothing else for removals."""
    assert KeyFinder(KEYS).answering(text) == set(meant)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("train", [TRAIN]), ("step", [TRAIN, EVAL]), (TRAIN[-8:], [TRAIN]), (BARE[1:9], [BARE]), ("", []), ("*", []),
     ("jit_e", [EVAL]), (digits(2)[20:40], [EVAL])],
)  # fmt: skip
def test_parts(text: str, meant: list[str]) -> None:
    """Where nothing is removed, any part of a key will do; a beginning is preferred."""
    assert KeyFinder(KEYS).answering(text, parts=True) == set(meant)


@given(st.lists(st.tuples(NAMES, st.integers(0, 50)), min_size=1, max_size=8), st.data())
def test_what_is_printed_is_understood(names: list[tuple[str, int]], data: st.DataObject) -> None:
    """Whatever names keys have, a key cut in the middle is read as that key, or as several, and never as another."""
    keys = [key(number, name) for name, number in names]
    wanted = data.draw(st.sampled_from(keys))
    short = short_key(wanted)
    head = data.draw(st.integers(1, max(1, len(short) - 10)))
    for text in (wanted, short, f"{short[:head]}…{short[-9:]}" if head < len(short) - 9 else short):
        for parts in (False, True):
            assert wanted in KeyFinder(keys).answering(text, parts=parts)


@given(st.lists(NAMES, min_size=1, max_size=8), st.text(max_size=6))
def test_only_beginnings_count(names: list[str], text: str) -> None:
    """For any text, a key that is found begins with it or with what precedes an ellipsis, or its hash does."""
    keys = [key(number, name) for number, name in enumerate(names)]
    for found in KeyFinder(keys).answering(text):
        heads = [text, text.partition("…")[0], text.partition("...")[0]]
        assert any(head and (found.startswith(head) or found.rpartition("-")[2].startswith(head)) for head in heads)


def test_several_are_named(native: Root) -> None:
    """The sentence has as many keys as help, in the form that tells them apart, and says how many more there are."""
    directory = native.directory(Kind.EXECUTABLES)
    for number in range(9):
        add(directory, key(number))
    add(directory, "jit_same-" + "a" * 64)
    add(directory, "jit_same-" + "a" * 63 + "b")
    with Store(native) as store:
        with pytest.raises(
            UnknownKey, match=r"^'jit_step' stands for 9 entries: (jit_step-[0-9a-f]{8}, ){2}\S+ and 6 "
        ):
            find_entry(store, "jit_step")
        with pytest.raises(UnknownKey, match=r"stands for 2 entries: jit_same-a{64}, jit_same-a{63}b; give more"):
            find_entry(store, "jit_same")
        with pytest.raises(UnknownKey, match=r"'jit_sayme'; did you mean 'jit_same'\? `jcache ls --root .*` lists all"):
            find_entry(store, "jit_sayme")


def test_an_empty_text_stands_for_nothing(native: Root) -> None:
    """Not even in a root with one entry, which is pinned."""
    add(native.directory(Kind.EXECUTABLES), key(1))
    with Store(native) as store:
        store.pins.add([(Kind.EXECUTABLES, key(1))])
        for parts in (False, True):
            with pytest.raises(UnknownKey):
                find_entry(store, "", parts=parts)
        assert find_pins(store, "") == []
        assert find_pins(store, "jit_step") == [(Kind.EXECUTABLES, key(1))]


def test_of_two_with_the_same_key_the_current_one_is_meant(native: Root) -> None:
    """A legacy entry may have the key of an entry; alone it is found as well."""
    directory = native.directory(Kind.EXECUTABLES)
    add(directory, key(1), executable())
    (directory / key(1)).write_bytes(executable())
    (directory / key(2)).write_bytes(executable())
    with Store(native) as store:
        assert not find_entry(store, key(1)).legacy
        assert find_entry(store, key(2)).legacy
