"""What metadata claim is believed only where it can be a digest and seconds."""

import pytest

from jcache.remote.entries import claims_of

DIGEST = f"blake3:{'0' * 64}"


@pytest.mark.parametrize(
    ("metadata", "claims"),
    [
        ({"digest": DIGEST, "seconds": "1.5"}, (DIGEST, 1.5)),
        ({"digest": DIGEST, "other": "x"}, (DIGEST, None)),
        ({"digest": "md5:00", "seconds": "nan"}, (None, None)),
        ({"seconds": "-1"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_claims(metadata: dict[str, str], claims: tuple[str | None, float | None]) -> None:
    """Other texts count as nothing."""
    assert claims_of(metadata) == claims
