"""Real programs under `jcache.jit`: a second process does not trace them, and computes the same bits."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment

PROGRAM = Path(__file__).parents[1] / "programs" / "traces.py"
NO_CALLBACKS = {"EQX_ON_ERROR": "nan"}
PROGRAMS = {
    "layers": (),
    "linear_algebra": (),
    "equinox": ("equinox", "optax"),
    "diffrax": ("diffrax",),
    "numpyro": ("numpyro",),
    "linen": ("flax", "optax"),
    "training": ("flax", "optax"),
    "nnx": ("flax",),
}
pytestmark = pytest.mark.jax


def run(root: Path, name: str, whose: str = "jcache", **env: str) -> Any:
    """What a program says, in a process of its own."""
    for module in PROGRAMS.get(name, ("equinox",)):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"without {module}")
    done = with_jax.run([str(PROGRAM), whose, str(root), name], environment=environment(env))
    assert done.returncode == 0, done.stderr
    assert "The program goes on" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_process_does_not_trace(tmp_path: Path, name: str) -> None:
    """No code of the user's runs, whatever libraries it calls, and the results are the same to the last bit."""
    cold, warm = (run(tmp_path / "root", name) for _ in range(2))
    assert (cold["traced"], warm["traced"]) == (1, 0), warm["explanation"]
    assert warm["digest"] == cold["digest"]


def test_what_calls_back_to_the_host_is_served(tmp_path: Path) -> None:
    """The runtime checks of Equinox are made again in the process that is served."""
    cold, warm = (run(tmp_path / "root", "checked") for _ in range(2))
    assert [said["traced"] for said in (cold, warm)] == [1, 0], warm["explanation"]
    assert cold["digest"] == warm["digest"]


def test_variables_that_libraries_read_while_they_are_imported_count(tmp_path: Path) -> None:
    """One that bears the name of a distribution is a part of the key: what it decides does not show in the code."""
    root = tmp_path / "root"
    assert run(root, "checked", **NO_CALLBACKS)["traced"] == 1
    assert run(root, "checked", **NO_CALLBACKS)["traced"] == 0
    raising = run(root, "checked", EQX_ON_ERROR="raise")
    assert raising["traced"] == 1
    assert run(root, "checked", **NO_CALLBACKS)["traced"] == 0
