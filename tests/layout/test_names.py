"""The kinds of entries."""

import pytest

from jcache.errors import InvalidValue
from jcache.layout import Kind, parse_kind


def test_kinds() -> None:
    """There are three kinds, and an unknown one is answered with all of them."""
    assert [parse_kind(kind) for kind in ("executables", "traces", "graphs")] == list(Kind)
    with pytest.raises(InvalidValue, match="choose from executables, traces, graphs"):
        parse_kind("Executables")
