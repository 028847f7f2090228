"""The digest of stored bytes."""

import shutil
import subprocess
import sys
from io import FileIO
from pathlib import Path

import pytest

from jcache.formats.digest import Hasher, digest, digest_of_file, is_digest

ABC = "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"  # of BLAKE3's own test of "abc"
NOTHING = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_it_is_blake3() -> None:
    """The digest is that of BLAKE3, after the name of the algorithm."""
    assert digest(b"abc") == ABC and digest(b"") == Hasher().digest() == NOTHING


@pytest.mark.parametrize("size", [0, 1, 256 << 10, 600_001])
def test_in_pieces(size: int, tmp_path: Path) -> None:
    """Bytes at once, in pieces and in a file have the same digest."""
    data = bytes(i % 251 for i in range(size))
    hasher = Hasher()
    for at in range(0, size, 70_001):
        hasher.update(data[at : at + 70_001])
    (tmp_path / "file").write_bytes(data)
    with FileIO(tmp_path / "file") as file:
        assert digest_of_file(file) == digest(memoryview(data)) == hasher.digest()


@pytest.mark.parametrize("text", ["", ABC[7:], ABC.upper(), ABC + "0", ABC[:-1], "sha256:" + ABC[7:], ABC + "\n"])
def test_what_is_none(text: str) -> None:
    """A digest names its algorithm and has 64 hexadecimal digits in lower case."""
    assert is_digest(ABC) and not is_digest(text)


@pytest.mark.skipif(shutil.which("b3sum") is None, reason="there is no b3sum to compare with")
def test_as_b3sum_prints_it(tmp_path: Path) -> None:
    """`b3sum` prints the same digits."""
    (tmp_path / "file").write_bytes(b"abc")
    told = subprocess.run(["b3sum", "--no-names", tmp_path / "file"], capture_output=True, text=True, check=True)
    assert f"blake3:{told.stdout.strip()}" == ABC


def test_who_needs_none_loads_nothing() -> None:
    """The library is imported with the first digest, not before."""
    program = "import sys, jcache.formats.digest, jcache.cli; sys.exit('blake3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
