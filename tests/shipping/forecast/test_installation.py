"""The versions of an interpreter's JAX, and how it compresses, are known without importing it."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jcache.errors import InvalidValue
from jcache.formats.compression import Codec
from jcache.shipping.forecast.installation import JaxlibFacts, this_installation
from jcache.shipping.forecast.machine import this_machine
from tests.helpers.forecasts import MACHINE
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture


def test_what_a_jax_compresses_with() -> None:
    """Python's own zstd comes first from jax 0.7.1 on, and is hashed as zlib."""
    newest = replace(MACHINE, python=(3, 14))
    assert newest.compression("0.7.1") == (Codec.ZSTD, "zlib")
    assert newest.compression("0.7.0") == (Codec.ZSTD, "zstandard")
    assert replace(newest, zstandard=False).compression("0.7.0") == (Codec.ZLIB, "zlib")


def test_another_interpreter(tmp_path: Path) -> None:
    """The interpreter that is named is asked, without jcache and without importing JAX."""
    site = tmp_path / "site" / "jaxlib-0.6.2.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.6.2+cuda12.cudnn89\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    for machine in (this_machine({"JCACHE_PYTHON": str(python)}), this_installation({"JCACHE_PYTHON": str(python)})):
        assert (machine.jaxlib, machine.jax, machine.zstandard) == ("0.6.2", None, False)
        assert machine.python == tuple(sys.version_info[:3]) and machine.zstd_word is None
        assert machine.query_jaxlib() == JaxlibFacts()  # it has no jaxlib that could be asked


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        ("/no such python", "No such file or directory"),
        ("/etc/passwd", "Permission denied"),
        ("/bin/false", "it ended with exit code 1"),
        ("/bin/true", "it does not answer as one"),
        ("/bin/echo", "it does not answer as one"),
    ],
)
def test_no_interpreter(python: str, reason: str) -> None:
    """A name that is no Python is refused in one sentence with a remedy."""
    expected = f"JCACHE_PYTHON is {python}, which is no Python that can be asked for its JAX ({reason}): name the"
    with pytest.raises(InvalidValue, match=f"^{re.escape(expected)}.*`unset JCACHE_PYTHON`"):
        this_machine({"JCACHE_PYTHON": python})
