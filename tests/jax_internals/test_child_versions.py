"""The packages that an interpreter has, as a separate program prints them."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from jcache.jax_internals import child_versions

PROGRAM = child_versions.__file__


def look(*options: str, **environment: str) -> dict[str, object]:
    """Return what the program prints."""
    done = subprocess.run([sys.executable, *options, PROGRAM], capture_output=True, check=True, env=environment)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_versions_are_those_of_the_metadata() -> None:
    """Versions of jax and jaxlib are found, and those of packages that are missing are left out."""
    found = look("-P")
    assert found["versions"]["jax"] == version("jax") and found["versions"]["jaxlib"] == version("jaxlib")  # type: ignore[index]
    assert set(found["versions"]) <= set(child_versions.NAMES)  # type: ignore[call-overload]
    assert (found["executable"], found["zstandard"]) == (sys.executable, True)
    assert found["python"] == list(sys.version_info[:3])


def test_it_needs_the_standard_library_alone(tmp_path: Path) -> None:
    """Without any package it runs, and metadata that are torn count as missing."""
    torn = tmp_path / "jaxlib-0.0.dist-info"
    torn.mkdir()
    (torn / "METADATA").write_bytes(b"\xff\xfe")
    found = look("-S", "-P", PYTHONPATH=str(tmp_path))
    assert found["versions"] == {} and found["zstandard"] is False


def test_it_imports_none_of_the_packages(tmp_path: Path) -> None:
    """A jax that raises on import is only looked at."""
    (tmp_path / "jax.py").write_text("raise SystemExit('imported')")
    (tmp_path / "zstandard.py").write_text("raise SystemExit('imported')")
    assert look("-P", PYTHONPATH=str(tmp_path))["zstandard"] is True
