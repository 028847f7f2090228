"""Tests for `jcache.fingerprint.distributions`: an installed distribution is what its files hold."""

import os
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.helpers import jax_programs
from tests.helpers.installations import As, Site
from tests.helpers.interpreters import anew, base_environment

SOURCES = Path(__file__).parents[2] / "src"


# -- a distribution that is used by another one, or by the program


class By(StrEnum):
    """What uses it: a file of the program, or a distribution, and what its metadata say of that."""

    PROGRAM = "by the program"
    NOT = "not declared"
    EXTRA = "for an extra"
    ALWAYS = "declared"


class Edit(StrEnum):
    """How the distribution that is used is installed, and edited."""

    REINSTALLED = "reinstalled"
    IN_PLACE = "in place"
    EDITABLE = "editable"
    UNRECORDED = "without a record"
    OF_INDEX = "reinstalled, for one of an index"


METADATA = {
    By.NOT: "",
    By.EXTRA: "Provides-Extra: fast\nRequires-Dist: own-rates ; extra == 'fast'\n",
    By.ALWAYS: "Requires-Dist: own-rates\n",
}
POINTS = "[own.rates]\nusual = ratesource:rate\n"
IMPORT = "from importlib.metadata import entry_points\n"
FOUND = "[each.load() for each in entry_points(group='own.rates')]"
USED = {
    "its value is read at import": "import ratesource\nTABLE = [ratesource.rate()]\ndef rate(): return TABLE[0]\n",
    "imported at module level": "import ratesource\ndef rate(): return ratesource.rate() * 1\n",
    "imported within the function": "def rate():\n    from ratesource import rate\n    return rate()\n",
    "importlib": "from importlib import import_module\n"
    "def rate(): return import_module('-source'.replace('-', 'rate')).rate()\n",
    "resolved by name": "from pkgutil import resolve_name\n"
    "NAME = 'ratesource:rate'\ndef rate(): return resolve_name(NAME)()\n",
    "entry point at import": f"{IMPORT}FOUND = {FOUND}\ndef rate(): return FOUND[0]()\n",
    "entry point": f"{IMPORT}def rate(): return {FOUND}[0]()\n",
}
LATE = {"imported within the function", "importlib", "resolved by name", "entry point"}
READS = {
    "code": "RATE = {rate}\ndef rate(): return RATE\n",
    "data at import": "import json, pathlib\n"
    "RATE = json.loads((pathlib.Path(__file__).parent / 'rates.json').read_text())\ndef rate(): return RATE\n",
    "data": "import json, pathlib\n"
    "def rate(): return json.loads(pathlib.Path(__file__).with_name('rates.json').read_text())\n",
    "resources": "import json\nfrom importlib import resources\n"
    "def rate(): return json.loads(resources.files(__package__).joinpath('rates.json').read_text())\n",
    "pkgutil": "import json, pkgutil\ndef rate(): return json.loads(pkgutil.get_data(__package__, 'rates.json'))\n",
}
STUDY = "from library import rate\ndef scaled(x): return x * rate()\ndef built(n): return [rate(), n]\n"
PROGRAM = """
import json, site, sys, warnings
packages, root = sys.argv[1:]
site.addsitedir(packages)
import jcache
jcache.enable(root)
import study
warnings.simplefilter("ignore")
computed = [float(jcache.jit(study.scaled)(1.0)), jcache.graph(study.built)(2)[0]]
stats = jcache.stats()
hits = [stats.traces.hits, stats.graphs.hits]
print(json.dumps([computed, [study.scaled(1.0), study.built(2)[0]], hits]))
"""
Case = tuple[By, str, Edit, str]
FOUND_STALE: Final[list[Case]] = [
    (By.NOT, "imported at module level", Edit.REINSTALLED, "code"),
    (By.NOT, "its value is read at import", Edit.OF_INDEX, "code"),
    (By.EXTRA, "imported at module level", Edit.REINSTALLED, "code"),
    (By.NOT, "entry point", Edit.REINSTALLED, "code"),
    (By.ALWAYS, "imported at module level", Edit.IN_PLACE, "data at import"),
    (By.NOT, "its value is read at import", Edit.EDITABLE, "data at import"),
    (By.ALWAYS, "its value is read at import", Edit.EDITABLE, "pkgutil"),
    (By.NOT, "its value is read at import", Edit.UNRECORDED, "resources"),
    (By.EXTRA, "importlib", Edit.IN_PLACE, "data"),
    (By.NOT, "entry point at import", Edit.EDITABLE, "code"),
    (By.PROGRAM, "resolved by name", Edit.REINSTALLED, "code"),
]
ALL: Final[list[Case]] = list(product(By, USED, Edit, READS))


class Used:
    """A program that uses a library, which uses another distribution."""

    def __init__(self, base: Path, case: Case) -> None:
        by, used, self.edit, self.reads = case
        self.site, self.root, self.program = Site(base), base / "root", base / "program"
        self.program.mkdir()
        (self.program / "study.py").write_text(STUDY)
        if by is By.PROGRAM:
            (self.program / "library.py").write_text(USED[used])
        else:
            local = self.edit is not Edit.OF_INDEX
            self.site.install("own-library", {"library.py": USED[used]}, metadata=METADATA[by], local=local)
        self.where = self.site.packages
        self.install(3)

    def install(self, rate: int) -> None:
        files = {"ratesource/__init__.py": READS[self.reads].format(rate=rate), "ratesource/rates.json": str(rate)}
        how = {Edit.EDITABLE: As.EDITABLE, Edit.UNRECORDED: As.UNRECORDED}.get(self.edit, As.REGULAR)
        if rate != 3 and self.edit in {Edit.IN_PLACE, Edit.EDITABLE, Edit.UNRECORDED}:
            self.site.write(self.where, files)
        else:
            self.where = self.site.install("own-rates", files, how, entry_points=POINTS)

    def run(self) -> list[list[float]]:
        """What `jit` and `graph` compute, what plain Python does, and whether each hit."""
        found: list[list[float]] = jax_programs.run(PROGRAM, self.site.packages, self.root, cwd=self.program).value
        return found


@pytest.mark.jax
@pytest.mark.parametrize("case", FOUND_STALE, ids=", ".join)
def test_what_an_own_distribution_uses_counts_by_its_content(case: Case, tmp_path: Path) -> None:
    """However it is declared, imported, installed and read, jit and graph serve the new number after an edit.

    Without an edit the next process hits.
    """
    assert said(case, tmp_path) == expected(case)


@pytest.mark.jax
def test_every_combination_counts_by_its_content(full: bool, tmp_path: Path) -> None:
    """All of them with --full."""
    told = {case: said(case, tmp_path / str(number)) for number, case in enumerate(ALL if full else ())}
    assert {case: what for case, what in told.items() if what != expected(case)} == {}


def said(case: Case, base: Path) -> list[list[list[float]]]:
    """What two processes compute, and then two after an edit."""
    base.mkdir(exist_ok=True)
    program = Used(base, case)
    found = []
    for rate in (3, 5):
        program.install(rate)
        found += [program.run() for _ in range(2)]
    return found


def expected(case: Case) -> list[list[list[float]]]:
    by, used, edit, _ = case
    has_no_key = by is By.PROGRAM and used == "importlib"
    stores_no_trace = used == "entry point"  # which lists a directory
    is_named = by is By.PROGRAM and used == "imported within the function"
    is_late = edit in {Edit.EDITABLE, Edit.UNRECORDED} and used in LATE and not is_named
    # then its functions are the program's own, and are compared only if something has imported them
    again = [float(not (has_no_key or stores_no_trace or is_late)), float(not has_no_key)]
    return [[[rate, rate], [rate, rate], hits] for rate in (3.0, 5.0) for hits in ([0.0, 0.0], again)]


def test_looking_for_what_is_loaded_loads_nothing(tmp_path: Path) -> None:
    """A module that loads itself when it is looked into stays as it is, and odd things among the modules do no harm."""
    site = Site(tmp_path)
    site.install("pricing", {"pricing/__init__.py": "", "pricing/rates.py": "RATE = 1\n"})
    program = "import importlib.util as u, sys\n"
    program += "spec = u.find_spec('pricing.rates')\nspec.loader = u.LazyLoader(spec.loader)\n"
    program += "lazy = sys.modules['pricing.rates'] = u.module_from_spec(spec)\nspec.loader.exec_module(lazy)\n"
    program += "sys.modules['odd'] = 3; sys.modules['none'] = None\n"
    program += "from jcache.fingerprint.distributions import loaded\n"
    program += "print('loaded distribution pricing' in loaded([]), type(lazy).__name__)"
    environment = base_environment() | {"PYTHONPATH": os.pathsep.join(map(str, (site.packages, SOURCES)))}
    done = anew(["-c", program], environment=environment, cwd=tmp_path)
    assert done.stdout.split() == ["True", "_LazyModule"], done.stderr
