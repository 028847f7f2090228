"""Roots that are copied, mirrored or moved, and used again: changed entries are found, and entries that JAX
has written again are sound.
"""

import shutil
from pathlib import Path

import pytest

from jcache.store import birth_time
from jcache.verify import checks
from tests.helpers.command_line import Jcache, keys, run_jax
from tests.helpers.waiting import until

pytestmark = pytest.mark.jax
TRAIN = Path(__file__).parents[1] / "programs" / "train.py"


@pytest.fixture
def known(jcache: Jcache, cache: Path) -> Path:
    """A JAX directory whose digests are on record."""
    if birth_time.born_ns(cache) is None:
        pytest.skip("this file system does not tell when files were born")
    assert jcache("verify", "--root", cache).code == 0
    return cache


def train(root: Path) -> None:
    """Run a program in a new interpreter, which compiles some executables to other bytes than the one before."""
    result = run_jax(root, program=(str(TRAIN),), PYTHONHASHSEED="random")
    assert (result.code, result.err) == (0, "")


def flip(cache: Path) -> str:
    path = sorted(cache.glob("*-cache"))[2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    return path.name.removesuffix("-cache")


def now_born_ns(path: Path) -> int:
    """Return the creation time that the file system gives to a new file."""
    path.touch()
    born = birth_time.born_ns(path)
    path.unlink()
    assert born is not None
    return born


@pytest.mark.parametrize("times", [True, False], ids=["cp -a", "cp -r"])
@pytest.mark.parametrize("there", [False, True], ids=["a new directory", "one that was there"])
def test_a_flip_in_a_copy_is_found(jcache: Jcache, known: Path, tmp_path: Path, times: bool, there: bool) -> None:
    """Digests count in a copy, whether its directory is younger or older than they are."""
    copy = tmp_path / "copy"
    if there:
        copy.mkdir()
    copied = shutil.copy2 if times else shutil.copyfile
    shutil.copytree(known, copy, copy_function=copied, dirs_exist_ok=True)
    key = flip(copy)
    (finding,) = jcache("verify", "--json", "--root", copy).json["findings"]
    assert finding["key"] == key
    assert jcache("verify", "--root", known).code == 0


@pytest.mark.parametrize("verified", [True, False], ids=["verified there", "not verified there"])
def test_what_jax_writes_anew_in_a_copy_is_sound(jcache: Jcache, known: Path, tmp_path: Path, verified: bool) -> None:
    """JAX writes missing entries again with other bytes: that is no finding, in a copy or not."""
    for path in known.glob("*-cache"):
        path.unlink()
    train(known)
    assert jcache("verify", "--root", known).code == 0
    copy = Path(shutil.copytree(known, tmp_path / "copy"))
    if verified:
        assert jcache("verify", "--root", copy).code == 0
    copied_ns = birth_time.born_ns(copy)
    assert copied_ns is not None
    until(lambda: now_born_ns(tmp_path / "probe") > copied_ns + checks._COPY_TOLERANCE_NS)
    for root in (copy, known):
        everything = keys(root)
        for path in root.glob("*-cache"):
            path.unlink()
        train(root)
        assert keys(root) == everything
        report = jcache("verify", "--json", "--root", root)
        assert report.code == 0 and report.json["findings"] == [] and report.json["rewritten_entries"] > 0


def test_a_bounded_jax_after_an_unbounded_one(jcache: Jcache, known: Path) -> None:
    """After a repair, missing sidecars of an unbounded root are a note; --repair makes them."""
    leftover = known / ".jcache-tmp-old"
    leftover.write_bytes(b"x")
    assert jcache("verify", "--repair", "--grace", "0s", "--root", known).code == 0
    next(known.glob("jit_train-*-cache")).unlink()
    next(known.glob("jit_train-*-atime")).unlink()
    assert run_jax(known).err == ""
    noted = jcache("verify", "--json", "--root", known)
    assert noted.code == 0 and [note["damage"] for note in noted.json["notes"]] == ["missing_sidecar"]
    assert jcache("verify", "--repair", "--root", known).code == 0
    next(known.glob("jit_train-*-cache")).unlink()
    bounded = run_jax(known, bounded=10**9)
    assert (bounded.code, bounded.err) == (0, "")
    assert jcache("verify", "--root", known).code == 0
