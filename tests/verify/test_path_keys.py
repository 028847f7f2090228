"""Directories that keys depend on, by the version of JAX and the options of an executable."""

import pytest

from jcache.jax_internals.path_keys import in_keys
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.path_keys import describe_portable_keys, directory_in_key, maker_text, parse_maker, version_numbers
from tests.helpers.entries import digits, key

OLD = "/no such place/old"
MAKER = {"cache_path": OLD, "xla_options": f"{1 << 512:x}", "platform": None}


def test_versions() -> None:
    """Versions are compared by their numbers, whatever follows them."""
    assert version_numbers("0.4.31+cuda12.cudnn89") == (0, 4, 31)
    assert version_numbers("0.11.0.dev20260101") == version_numbers("0.11.0") > version_numbers("0.10.2")
    assert version_numbers("0.12.0.1") == (0, 12, 0, 1)
    assert version_numbers("unknown") == ()


@pytest.mark.parametrize(
    ("version", "has"),
    [("0.4.35", False), ("0.4.36", True), ("0.6.2", True), ("0.10.2", True), ("0.11.0", False), ("0.12.0.1", False)],
)
def test_versions_with_the_path_in_keys(version: str, has: bool) -> None:
    """JAX hashes its directory from 0.4.36 to 0.10.2, and so do keys by the record of what made them."""
    assert in_keys(version) is has
    assert directory_in_key(OLD, version, 1 << 300, portable=False) == (OLD if has else None)
    assert directory_in_key(OLD, version, 1 << 300, portable=True) is None


@pytest.mark.parametrize(("newest", "keyed"), [(392, True), (512, True), (514, False), (557, False), (None, True)])
def test_what_has_no_record(newest: int | None, keyed: bool) -> None:
    """Whether the path is in the key is told by the newest of XLA's options, those of jaxlib 0.10.2 ending at 512."""
    options = None if newest is None else 1 << newest
    assert directory_in_key(OLD, None, options, portable=False) == (OLD if keyed else None)
    assert directory_in_key(None, None, options, portable=False) is None


def test_what_is_remembered() -> None:
    """What is told comes back, and nothing comes of another version's text."""
    assert parse_maker(maker_text(MAKER)) == {name: value for name, value in MAKER.items() if value is not None}
    for text in ("", "[1]", "1", "{}", '{"version": 1}'):
        assert parse_maker(text) is None


def test_keys_that_jax_alone_does_not_look_for(plain: Root) -> None:
    """It is told where jcache has stored entries for a jax that has the path in its keys, without reading any."""
    ways = [("seen", "0.10.2"), ("run", "0.11.0"), ("program", None), ("copy", "0.4.35"), ("import", "0.10.2")]
    with Store(plain) as store:
        for number, (origin, jaxlib) in enumerate([*ways, ("program", "0.10.2")]):
            assert describe_portable_keys(store) is None
            known = Known(Kind.EXECUTABLES, key(number), digits(number), 10, origin=origin, jaxlib=jaxlib)
            store.ledger.record([known])
        sentence = describe_portable_keys(store)
        assert sentence is not None and f"jcache run --root {plain.path}" in sentence
