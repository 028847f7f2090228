"""Kinds have names."""

import pytest

from jcache.errors import InvalidValue
from jcache.layout import Kind, parse_kind


def test_kinds() -> None:
    """There are three kinds, and the error on an unknown one lists them."""
    assert [parse_kind(kind) for kind in ("executables", "traces", "graphs")] == list(Kind)
    with pytest.raises(InvalidValue, match="did you mean 'executables'\\? Choose from executables, traces, graphs"):
        parse_kind("Executables")
