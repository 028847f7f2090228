"""Fixtures of the tests of structures."""

from collections.abc import Iterator

import pytest

from tests.helpers.structure_peers import Peer


@pytest.fixture(scope="package")
def peers() -> Iterator[tuple[Peer, Peer]]:
    """Two processes, of which one encodes and the other one decodes."""
    both = Peer(1), Peer(2)
    yield both
    for peer in both:
        peer.end()
