"""Fixtures of the tests of what is read."""

from pathlib import Path

import pytest


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates.json"
    path.write_bytes(b'{"rate": 2}')
    return path
