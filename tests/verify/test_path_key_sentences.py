"""Sentences on keys that depend on the path of a directory."""

from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.path_key_sentences import describe_portable_keys
from tests.helpers.entries import digits, key


def test_keys_that_jax_alone_does_not_look_for(plain: Root) -> None:
    """If jcache has stored entries for a jax that hashes the path, a sentence says so without reading any entry."""
    ways = [("seen", "0.10.2"), ("run", "0.11.0"), ("program", None), ("copy", "0.4.35"), ("import", "0.10.2")]
    with Store(plain) as store:
        for number, (origin, jaxlib) in enumerate([*ways, ("program", "0.10.2")]):
            assert describe_portable_keys(store, store.listing(Kind.EXECUTABLES)) is None
            known = Known(Kind.EXECUTABLES, key(number), digits(number), 10, origin=origin, jaxlib=jaxlib)
            store.ledger.record([known])
        sentence = describe_portable_keys(store, store.listing(Kind.EXECUTABLES))
        assert sentence is not None and f"jcache run --root {plain.path}" in sentence
