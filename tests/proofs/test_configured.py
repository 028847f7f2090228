"""Settings that a program reads from files into the state of a library: each edit has its effect, and only that."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.helpers.installations import Site
from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment
from tests.proofs.configured import LIBRARY, OWN_STATE, READ, Project, edited, project
from tests.runtime.test_enable import clean

pytestmark = [pytest.mark.jax, pytest.mark.full]
STARTS = 9


class Place:
    """A directory with a project, the library that it uses and a root of its own."""

    def __init__(self, path: Path, project: Project) -> None:
        self.path, self.project = path / "project", project
        self.path.mkdir(parents=True)
        (self.path / "main.py").write_text(project.main())
        site = Site(path / "site")
        site.install("rtset", {"rtset.py": LIBRARY})
        self._environment = environment({"PYTHONPATH": site.packages, "JCACHE_DIR": path / "root"})
        self.root = path / "root"

    def start(self) -> tuple[list[float], list[str]]:
        """Return what the program prints, and what became of its calls."""
        done = with_jax.run(["main.py"], environment=self._environment, cwd=self.path)
        assert done.returncode == 0, done.stderr
        printed: Any = json.loads(done.stdout.splitlines()[-1])
        return printed[0], printed[1]


@pytest.mark.parametrize("form", READ)
def test_each_edit_of_settings_has_its_effect(form: str, tmp_path: Path, chance: Random) -> None:
    """However often an edit of another setting had none; and where nothing was edited since, every call is a hit."""
    made, settings = project(chance, form)
    place = Place(tmp_path, made)
    unused = [name for name in settings if name not in made.used]
    for number in range(STARTS):
        made.write(place.path, settings, f"note {number}")
        for again in (False, True) if chance.random() < 0.4 else (False,):
            numbers, outcomes = place.start()
            assert numbers == made.expected(settings), (number, settings)
            assert not again or outcomes == ["hit"] * len(made.used), (number, outcomes)
        settings = edited(chance, settings, made.used, unused[0])
    clean(place.root)


def test_a_program_that_reads_what_its_last_run_wrote_is_served(tmp_path: Path, chance: Random) -> None:
    """After the starts that found that this has no effect."""
    made, settings = project(chance, "json")
    place = Place(tmp_path, made)
    (place.path / "main.py").write_text(OWN_STATE + made.main())
    made.write(place.path, settings, "")
    outcomes = [place.start()[1] for _ in range(7)]
    assert outcomes[-1] == outcomes[-2] == ["hit"] * len(made.used), outcomes
