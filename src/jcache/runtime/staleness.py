"""What has changed of that which an entry was found to depend on while it was made."""

from __future__ import annotations

from collections.abc import Mapping

from jcache.fingerprint.describe import changes
from jcache.fingerprint.distributions import loaded_now
from jcache.fingerprint.flattening import flattened_now
from jcache.fingerprint.io.digests import now
from jcache.fingerprint.observed import discovered, discovered_now
from jcache.formats.envelope import EnvelopeHeader


def found_in(header: EnvelopeHeader, known: Mapping[str, str]) -> dict[str, str]:
    """What an entry was found to depend on while it was made, besides the parts of its key."""
    return {label: text for label, text in header.key_parts.items() if label not in known}


def staleness(header: EnvelopeHeader, known: Mapping[str, str]) -> list[str]:
    """What has changed of that which ran or was read while an entry was made.

    Args:
        header: of the entry.
        known: the parts of its key.
    """
    then = found_in(header, known)
    if not then:
        return []
    ran, pytrees, libraries = discovered(then), flattened_now(then), loaded_now(then)
    rest = then.keys() - ran.keys() - pytrees.keys() - libraries.keys()
    today = {**libraries, **now(rest), **discovered_now(ran), **pytrees}
    return [] if today == then else changes(then, today)
