"""A list of keys in little memory."""

import tracemalloc
from random import Random

from hypothesis import given, strategies as st

from jcache.layout import is_key
from jcache.layout.key_list import KeyList
from tests.helpers.entries import digits, key

names = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=8).filter(str.isprintable)
keys = st.builds(lambda name, number: f"{name}-{digits(number)}", names, st.integers(0, 50))
texts = keys | st.text(max_size=8)  # of another program


@given(st.lists(texts, max_size=30), st.integers(-40, 40), st.integers(-40, 40))
def test_it_is_the_list_of_its_keys(some: list[str], begin: int, end: int) -> None:
    """Length, items, slices, order and equality are those of a list of texts."""
    found = KeyList(some)
    assert list(found) == some == found and len(found) == len(some) and found == KeyList(some)
    assert found[begin:end] == some[begin:end]
    assert [found[at] for at in range(-len(some), len(some))] == some * 2
    assert found != [*some, key(1)]


@given(st.lists(st.tuples(texts, st.booleans()), max_size=30))
def test_rows(some: list[tuple[str, bool]]) -> None:
    """`where` keeps the flagged keys in their order."""
    assert KeyList(text for text, _ in some).where([keep for _, keep in some]) == [text for text, keep in some if keep]


@given(st.lists(texts, max_size=20))
def test_it_is_packed_and_unpacked(some: list[str]) -> None:
    """Keys come back as they were; with a text that is no key, nothing comes back."""
    found = KeyList.unpacked(KeyList(some).packed())
    assert found == some if all(map(is_key, some)) else found is None


@given(
    st.binary(max_size=200) | st.lists(keys, max_size=3).map(lambda some: KeyList(some).packed()),
    st.randoms(use_true_random=False),
)
def test_any_bytes_are_unpacked(data: bytes, chance: Random) -> None:
    """Whatever bytes a ledger holds, only keys come out of them."""
    mutable = bytearray(data)
    for _ in range(chance.randrange(3) if mutable else 0):
        mutable[chance.randrange(len(mutable))] = chance.randrange(256)
    found = KeyList.unpacked(bytes(mutable))
    assert found is None or all(is_key(text) and "/" not in text for text in found)


@given(st.lists(keys, max_size=30, unique=True))
def test_places_order_by_name_and_hash(some: list[str]) -> None:
    """Keys of a name come together, in the order of their hashes."""
    places = KeyList(some).places()
    ordered = [some[row] for row in sorted(range(len(some)), key=places.__getitem__)]
    assert ordered == sorted(some, key=lambda text: (text[:-64], text[-64:]))


def test_a_key_takes_little_memory() -> None:
    """Ten thousand keys take less than half of what their texts take."""
    some = [key(number, f"jit_f{number % 20}") for number in range(10_000)]
    tracemalloc.start()
    found = KeyList()
    found.extend(some)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 45 * len(found)
