"""Several threads use one ledger."""

from pathlib import Path

from tests.helpers.interpreters import anew, base_environment

AT_THE_END = """
import sys
from pathlib import Path
import jcache.runtime.program_store
ledger = jcache.runtime.program_store.ThreadsLedger(Path(sys.argv[1]))
ledger.begin_anew()
jcache.runtime.program_store._Slot = None  # as Python does when it ends
ledger = None
"""


def test_a_ledger_that_lives_until_the_interpreter_ends_says_nothing(tmp_path: Path) -> None:
    """A ledger that lives until the interpreter ends causes no error, although Python's modules are gone by then."""
    (tmp_path / ".jcache").mkdir()
    done = anew(
        ["-W", "always", "-c", AT_THE_END, str(tmp_path / ".jcache" / "l.sqlite")], environment=base_environment()
    )
    assert (done.returncode, done.stderr) == (0, "")
