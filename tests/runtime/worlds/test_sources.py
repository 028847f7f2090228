"""The files of the modules that are loaded."""

import os
import sys
import types
from pathlib import Path

import pytest

from jcache import clock
from jcache.runtime.worlds.digests import Digests
from jcache.runtime.worlds.distributions import Distributions
from jcache.runtime.worlds.sources import Sources, file_of, imported_since


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module that is loaded, and that was there before the process began."""
    path = tmp_path / "helper.py"
    path.write_text("RATE = 'RATE_OF'\n")
    module = types.ModuleType("helper")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "helper", module)
    monkeypatch.setattr(clock, "began_ns", lambda: path.stat().st_mtime_ns + 10**9)
    return path


def taken(some: Sources, top: Path) -> tuple[dict[str, str], set[str], str | None]:
    """Return what is known of the sources."""
    return some.take(Distributions(), Digests(None), str(top))


@pytest.mark.full
def test_a_users_file_is_known_by_its_content(helper: Path) -> None:
    """By its path from the program's directory, or by the module's name elsewhere; with the variables that it names."""
    found, variables, reason = taken(Sources(), helper.parent)
    assert "source helper.py" in found and "RATE_OF" in variables and reason is None
    elsewhere, _, _ = taken(Sources(), helper.parent / "other")
    assert elsewhere["source helper"] == found["source helper.py"]
    helper.write_text("RATE = 2\n")
    assert taken(Sources(), helper.parent)[0]["source helper.py"] != found["source helper.py"]


@pytest.mark.full
def test_a_file_that_changes_while_the_program_runs_makes_the_world_unknown(helper: Path) -> None:
    """What was loaded is not what the file has: nobody can compare it."""
    some = Sources()
    assert taken(some, helper.parent)[2] is None
    helper.write_text("RATE = 3\n")
    assert taken(some, helper.parent)[2] == "helper.py was changed while the program ran"


def test_a_file_that_is_younger_than_the_process_makes_the_world_unknown(
    helper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been another when it was loaded."""
    monkeypatch.setattr(clock, "began_ns", lambda: helper.stat().st_mtime_ns - 10**9)
    assert taken(Sources(), helper.parent)[2] == "helper.py was changed while the program ran"


def test_files_of_python_and_of_distributions_are_no_sources(helper: Path) -> None:
    """Distributions count as a whole, Python by its version."""
    distributions, digests = Distributions(), Digests(None)
    distributions.contents(sys.path, digests)
    found, _, _ = Sources().take(distributions, digests, str(helper.parent))
    assert not [label for label in found if "pytest" in label or "pathlib" in label or "jcache" in label]


@pytest.mark.full
def test_an_edited_file_of_a_distribution_is_known_by_its_content(tmp_path: Path) -> None:
    """As long as it was not changed after it was installed, the distribution's record stands for it."""
    site = tmp_path / "site-packages"
    (site / "tables-1.0.dist-info").mkdir(parents=True)
    (site / "tables.py").write_text("1")
    (site / "tables-1.0.dist-info" / "RECORD").write_text("tables.py,sha256=aaa,1\n")
    distributions, digests = Distributions(), Digests(None)
    distributions.contents([str(site)], digests)
    some = Sources()
    some.add("tables", str(site / "tables.py"), distributions, digests, str(tmp_path))
    assert some.has(str(site / "tables.py")) and some.digest(str(site / "tables.py"), digests) is None
    os.utime(site / "tables.py", ns=(2**62, 2**62))
    later = Sources()
    later.add("tables", str(site / "tables.py"), distributions, digests, str(tmp_path))
    assert later.digest(str(site / "tables.py"), digests) is not None
    assert "edited tables.py" in later.take(distributions, digests, str(tmp_path))[0]


@pytest.mark.full
def test_a_first_line_that_names_the_interpreter_does_not_count(helper: Path) -> None:
    """Scripts are installed with the path of their environment."""
    helper.write_text("#!/one/bin/python\nx = 1\n")
    os.utime(helper, ns=(1, 1))
    one = taken(Sources(), helper.parent)[0]["source helper.py"]
    helper.write_text("#!/two/bin/python\nx = 1\n")
    os.utime(helper, ns=(1, 1))
    assert taken(Sources(), helper.parent)[0]["source helper.py"] == one


def test_whatever_is_among_the_modules_is_left_as_it_is(helper: Path) -> None:
    """A module that loads lazily, or none at all, has no file that is known."""

    class Odd:
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(name)

    assert file_of(Odd()) is None and file_of(None) is None and file_of(types.ModuleType("x")) is None
    assert dict(imported_since(frozenset(sys.modules) - {"helper"})) == {"helper": str(helper)}
