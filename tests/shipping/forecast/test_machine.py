"""The machine on which executables will be hit or not."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from jcache.shipping.forecast.judge import judge_root
from jcache.shipping.forecast.machine import this_machine
from jcache.shipping.forecast.verdict import ProgramKind
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture


@pytest.mark.jax
def test_what_is_installed(cpu_entries: JaxEntries) -> None:
    """Versions are those that JAX has, and an entry made here will hit where it was made."""
    code = "import jax, jaxlib; print(jax.__version__, jaxlib.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    machine = this_machine(os.environ)
    assert f"{machine.jax} {machine.jaxlib}\n" == done.stdout
    assert "cpu" in machine.platforms and machine.interpreter == sys.executable
    with closing(Store(open_root(cpu_entries.directory))) as store:
        announced = judge_root(store, machine, {})
    assert announced.hits(ProgramKind.PLAIN) == len(announced.verdicts) > 2
