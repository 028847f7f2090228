"""The installed distributions by their content."""

import os
from pathlib import Path

import pytest

from jcache.runtime.worlds.digests import Digests
from jcache.runtime.worlds.distributions import Distributions

ROWS = "tables/__init__.py,sha256=aaa,1\ntables/__pycache__/__init__.cpython-311.pyc,,\n../../bin/tables,sha256=bbb,2\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with one distribution."""
    return install(tmp_path / "site-packages")


def install(site: Path, rows: str = ROWS, version: str = "1.0") -> Path:
    """Install a distribution, and return the directory."""
    metadata = site / f"My_Tables-{version}.dist-info"
    metadata.mkdir(parents=True)
    (site / "tables").mkdir(exist_ok=True)
    (site / "tables" / "__init__.py").write_text("1")
    (metadata / "RECORD").write_text(f"{rows}{metadata.name}/RECORD,,\n{metadata.name}/METADATA,sha256=ccc,3\n")
    return site


def contents(*places: Path) -> dict[str, str]:
    """Return what is installed in some directories, as a process finds it."""
    return Distributions().contents([str(place) for place in places], Digests(None))


def test_a_distribution_is_known_by_version_and_record(site: Path, tmp_path: Path) -> None:
    """Another host has the same digest, whatever its scripts, bytecode and metadata are; other content has another."""
    (known,) = contents(site).values()
    assert list(contents(site)) == ["my-tables"] and known.startswith("1.0 ")
    other = ROWS.replace("bbb", "zzz") + "tables/__pycache__/x.pyc,sha256=ddd,9\n"
    assert contents(install(tmp_path / "other", other)) == contents(site)
    assert contents(install(tmp_path / "edited", ROWS.replace("aaa", "eee"))) != contents(site)
    assert contents(install(tmp_path / "later", version="2.0"))["my-tables"].startswith("2.0 ")


def test_the_first_on_the_path_counts(site: Path, tmp_path: Path) -> None:
    """As with imports."""
    other = install(tmp_path / "other", ROWS.replace("aaa", "eee"))
    assert contents(site, other) == contents(site) != contents(other, site) == contents(other)


def test_files_that_are_newer_than_the_record_were_edited(site: Path) -> None:
    """What no distribution has in its record is the user's, wherever it lies."""
    found = Distributions()
    found.contents([str(site)], Digests(None))
    path, record = site / "tables" / "__init__.py", site / "My_Tables-1.0.dist-info" / "RECORD"
    assert found.installed_ns(str(path)) == record.stat().st_mtime_ns
    assert found.inner(str(path)) == os.path.join("tables", "__init__.py")
    assert found.installed_ns(str(site / "mine.py")) is None and found.installed_ns("/elsewhere/tables.py") is None


def test_metadata_without_a_record_are_known_by_themselves(tmp_path: Path) -> None:
    """As Debian installs packages: a directory, or a file."""
    site = tmp_path / "dist-packages"
    (site / "one-1.0.egg-info").mkdir(parents=True)
    (site / "one-1.0.egg-info" / "PKG-INFO").write_text("Version: 1.0")
    (site / "one-1.0.egg-info" / "top_level.txt").write_text("uno\n")
    (site / "two-2.0.egg-info").write_text("Version: 2.0")
    found = Distributions()
    assert sorted(found.contents([str(site)], Digests(None))) == ["one", "two"]
    assert all(found.installed_ns(str(site / name)) for name in ("uno.py", "uno/a.py", "two.py"))


def test_a_distribution_that_is_installed_meanwhile_is_found(site: Path) -> None:
    """Its directory has another modification time then."""
    found, digests = Distributions(), Digests(None)
    assert list(found.contents([str(site), "/nowhere"], digests)) == ["my-tables"]
    (site / "new-1.0.dist-info").mkdir()
    (site / "new-1.0.dist-info" / "RECORD").write_text("new.py,sha256=a,1\n")
    os.utime(site, ns=(1, 1))
    assert list(found.contents([str(site)], digests)) == ["my-tables", "new"]
