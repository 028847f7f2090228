"""jcache's own events reach those who record the process, and no failure reaches the program."""

from pathlib import Path

import pytest

from tests.runs.recorder.test_sitecustomize import BASE, run


@pytest.mark.jax
def test_what_nobody_records_is_lost(tmp_path: Path) -> None:
    """Events raise nothing if the process is not recorded, or if the listener fails."""
    program = """
import sys
from jcache.runs import observers
observers.tell_damaged("k", "digest")
assert not observers.is_recorded()
class Finder:
    jcache_told = 3
    def find_spec(name, path=None, target=None): pass
sys.meta_path.append(Finder)
observers.add(lambda line: 1 / 0)
heard = []
observers.add(heard.append)
observers.tell_not_stored("k", "full")
(line,) = heard
assert (line["e"], line["key"], line["reason"]) == ("not_stored", "k", "full") and observers.is_recorded()
"""
    run(program, BASE)
