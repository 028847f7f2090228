"""The report of `jcache import`."""

from pathlib import Path

from jcache.layout import Kind
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache, keys
from tests.helpers.entries import add, key
from tests.helpers.imports import check_clean, content, populated

WITH_PATHS = "xla_gpu_per_fusion_autotune_cache_dir"  # JAX's default, with which it hashes the directory's path


def test_files_of_xla_are_counted(jcache: Jcache, tmp_path: Path) -> None:
    """The number of imported files of XLA's sub-caches is printed in the singular and in the plural."""
    root = populated(tmp_path / "source")  # with one such file
    archive = tmp_path / "some.archive"
    for number in ("1 file", "2 files"):
        assert jcache("export", "-q", "--xla", "--root", root.path, "-o", archive).code == 0
        assert f"{number} of XLA's sub-caches" in jcache("import", archive, "--root", tmp_path / number).out
        (root.directory(Kind.EXECUTABLES) / WITH_PATHS / "another.pb").write_bytes(b"x")


def test_twice(jcache: Jcache, archive: Path, target: Path) -> None:
    """A second import of the same archive has nothing to do, and says so."""
    first = jcache("import", archive, "--root", target)
    assert first.code == 0 and "Imported 12 entries" in first.out and "12 new" in first.out
    second = jcache("import", archive, "--root", target)
    assert second.code == 0 and "Imported 0 entries" in second.out and "12 present and equal" in second.out
    check_clean(jcache, target)


def test_different(jcache: Jcache, archive: Path, target: Path) -> None:
    """A different entry is kept and reported by exit code 3; --replace takes the archive's."""
    a_key = key(0)
    place = add(create_root(target).directory(Kind.EXECUTABLES), a_key, content(Kind.EXECUTABLES, a_key, build=1))
    kept = jcache("import", archive, "--root", target)
    assert kept.code == 3 and "1 present and different, kept" in kept.out and "--replace" in kept.out
    assert place.read_bytes() == content(Kind.EXECUTABLES, a_key, build=1)
    replaced = jcache("import", archive, "--root", target, "--replace")
    assert replaced.code == 0 and "1 replaced" in replaced.out
    assert place.read_bytes() == content(Kind.EXECUTABLES, a_key)
    check_clean(jcache, target)


def test_over_the_cap(jcache: Jcache, archive: Path, target: Path) -> None:
    """An import evicts nothing, and reports it if JAX's bound is exceeded."""
    result = jcache("import", archive, "--root", target, env={"JAX_COMPILATION_CACHE_MAX_SIZE": "100"})
    assert result.code == 0 and "prune --max-size 100" in result.out
    assert len(keys(target / "executables")) == 4
