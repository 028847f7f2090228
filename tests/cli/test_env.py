"""`jcache env` makes no warm program cold without a word."""

import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from jcache.jax_internals.path_keys import in_keys
from tests.helpers.command_line import Jcache, entry_files, run_jax

VARIABLE = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
pytestmark = [
    pytest.mark.jax,
    pytest.mark.contract,
    pytest.mark.skipif(not in_keys(version("jax")), reason="keys of this JAX do not depend on the path"),
]


def fill(path: Path, environment: Mapping[str, str]) -> None:
    """Run a program with JAX alone in an environment, with XLA's default caches unless the environment says
    otherwise.
    """
    default = {VARIABLE: "xla_gpu_per_fusion_autotune_cache_dir"}
    settings: dict[str, Any] = {**default, **environment, "JAX_COMPILATION_CACHE_DIR": str(path)}
    assert run_jax(path, **settings).code == 0


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A directory that JAX alone has filled with its default settings."""
    path = tmp_path / "cache"
    fill(path, {})
    return path


def test_a_directory_of_jax_stays_warm(jcache: Jcache, filled: Path) -> None:
    """If JAX has stored keys with the path, `env` leaves XLA's setting unchanged, and one sentence says so."""
    told = jcache("env", "--root", filled, "--json")
    assert VARIABLE not in told.json["environment"]
    assert len(told.err.splitlines()) == 1 and f"{VARIABLE}=none" in told.err and "jcache run --root" in told.err
    before = entry_files(filled)
    fill(filled, told.json["environment"])
    assert entry_files(filled) == before


@pytest.mark.parametrize("caches", ["all", "xla_gpu_kernel_cache_file"])
def test_a_directory_of_jax_with_other_caches_of_xla_stays_warm(jcache: Jcache, tmp_path: Path, caches: str) -> None:
    """Where JAX was set to use other caches of XLA, the environment has that setting, since it hits only with it."""
    fill(tmp_path / "cache", {VARIABLE: caches})
    told = jcache("env", "--root", tmp_path / "cache", "--json")
    assert told.json["environment"][VARIABLE] == caches and f"only with {VARIABLE}={caches}" in told.err
    before = entry_files(tmp_path / "cache")
    fill(tmp_path / "cache", told.json["environment"])
    assert entry_files(tmp_path / "cache") == before
    fill(tmp_path / "cache", {})
    told = jcache("env", "--root", tmp_path / "cache", "--json")
    assert VARIABLE not in told.json["environment"] and "with other values of this variable" in told.err


def test_other_directories_get_keys_without_the_path(jcache: Jcache, filled: Path, tmp_path: Path) -> None:
    """For a new root, a copy, or one that was filled in this environment, nothing is lost, and no sentence is
    printed.
    """
    copy = shutil.copytree(filled, tmp_path / "copy")
    for root in (tmp_path / "new", copy, tmp_path / "again"):
        told = jcache("env", "--root", root, "--json")
        assert told.json["environment"][VARIABLE] == "none" and not told.err
        fill(tmp_path / "again", told.json["environment"])


def test_another_path_of_the_directory(jcache: Jcache, filled: Path) -> None:
    """If JAX has stored entries under another path of the directory, a sentence says that it misses them
    under this one.
    """
    (filled.parent / "link").symlink_to(filled)
    told = jcache("env", "--root", filled.parent / "link", "--json")
    assert told.json["environment"][VARIABLE] == "none" and f"another path, {filled}: " in told.err


def test_where_not_all_was_read(jcache: Jcache, filled: Path) -> None:
    """If only some entries were read, and none of these is JAX's own, a sentence says so."""
    hidden = filled.parent / "hidden"
    filled.rename(hidden)
    filled.mkdir()
    for number in range(600):
        (filled / f"jit_f-{number:064x}-cache").write_bytes(b"x" * 9)
    told = jcache("env", "--root", filled, "--json")
    assert told.json["environment"][VARIABLE] == "none" and "Only some entries" in told.err


def test_the_setting_of_the_user_stays(jcache: Jcache, filled: Path) -> None:
    """A setting of the user is not printed again, and no sentence is printed."""
    told = jcache("env", "--root", filled, "--json", env={VARIABLE: "all"})
    assert VARIABLE not in told.json["environment"] and not told.err
