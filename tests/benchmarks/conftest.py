"""Entries of a real training step at two depths, and of the small programs around it."""

import hashlib
import shutil
from pathlib import Path

import pytest

from jcache.formats.inspection import inspect
from jcache.verify.pool import usable_cores
from tests.helpers.command_line import run_jax

BYTES = 2 << 30
LAYERS = (12, 24)
JAX_STORES_FROM_S = 1  # jax_persistent_cache_min_compile_time_secs
PROGRAM = Path(__file__).parent.parent / "programs" / "transformer.py"


@pytest.fixture(scope="session")
def two_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which JAX has cached one model at two depths."""
    if not shutil.which("zstd"):
        pytest.skip("there is no zstd to compare with")
    made = tmp_path_factory.mktemp("made")
    for layers in LAYERS:
        result = run_jax(made, program=(str(PROGRAM), str(layers)))
        assert result.code == 0, result.err
    return made


@pytest.fixture(scope="session")
def real_entries(two_versions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two gigabytes of JAX's entries, in the proportion in which JAX wrote them."""
    originals = {path: path.read_bytes() for path in two_versions.glob("*-cache")}
    assert all(data[:4] == b"\x28\xb5\x2f\xfd" for data in originals.values())
    return filled(tmp_path_factory.mktemp("entries") / "cache", originals)


@pytest.fixture(scope="session")
def default_entries(two_versions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two gigabytes of the entries that JAX stores by default: those with a compile time of at least a
    second.
    """
    originals = {path: path.read_bytes() for path in two_versions.glob("*-cache")}
    slow = {path: data for path, data in originals.items() if (inspect(data).seconds or 0) >= JAX_STORES_FROM_S}
    return filled(tmp_path_factory.mktemp("entries") / "cache", slow)


def filled(path: Path, originals: dict[Path, bytes]) -> Path:
    """Make a directory with so many bytes of entries, each original equally often."""
    path.mkdir()
    size = number = 0
    while size < BYTES:
        for original, data in originals.items():
            number, size = number + 1, size + len(data)
            (path / f"{original.name[:-71]}-{hashlib.sha256(str(number).encode()).hexdigest()}-cache").write_bytes(data)
    print(f"\n{number:,} entries, {size / 1e9:.2f} GB, {len(originals)} different ones, {usable_cores()} cores")
    return path
