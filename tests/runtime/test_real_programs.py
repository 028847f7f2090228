"""Real programs with `jcache.enable()`: a second process hits all programs of the first, with identical results."""

import importlib.util
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import files_of
from tests.helpers.jax_programs import run

PROGRAMS = Path(__file__).parents[1] / "programs"
JAX = tuple(int(part) for part in version("jax").split(".")[:3])
KEEPS_CALLBACKS = JAX >= (0, 8, 1)  # on the CPU, by jcache or by JAX itself
Env = Mapping[str, str]
NONE: Env = {}
ERRORS = {"TORAX_ERRORS_ENABLED": "1"}
TWO_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
pytestmark = pytest.mark.jax

PRELUDE = """
import contextlib, io, json, runpy, sys
import jcache
roots, options, script, *lines = sys.argv[1:]

def run(root, line):
    import jax
    jax.clear_caches()
    jcache.enable(root, strict=True, **json.loads(options))
    sys.argv[:] = [script, *line]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(script, run_name="__main__")
            jax.effects_barrier()
        except RuntimeError as error:
            print(f"raised {type(error).__name__}: {error}")
    stats = jcache.stats()
    names = sorted({program.name for program in stats.programs})
    jcache.disable()
    return printed.getvalue(), names, stats.hits, stats.stored, stats.not_stored, stats.bypassed

print(json.dumps([run(f"{roots}/{number}", line) for number, line in enumerate(map(json.loads, lines))]))
"""


class Done(NamedTuple):
    """The output of a program, its executables, and their outcomes."""

    printed: str
    names: list[str]
    hits: int
    stored: int
    not_stored: int
    bypassed: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.hits, self.stored, self.not_stored, self.bypassed


def program(script: str, roots: Path, *lines: str, callbacks: bool = True, env: Env = NONE) -> list[Done]:
    """Run a program once for each line of arguments, in one process, with a separate root for each."""
    arguments = [json.dumps(line.split(" ") if line else []) for line in lines]
    said = run(PRELUDE, roots, json.dumps({"callbacks": callbacks}), PROGRAMS / script, *arguments, env=env)
    assert "The program goes on" not in said.err, said.err  # as all warnings of the cache say
    return [Done(*values) for values in said.value]


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


def clean(root: Path) -> None:
    with Store(open_root(root)) as store:
        assert verify(store, VerifyRequest()).findings == []


def executables(root: Path) -> set[str]:
    return set(files_of(open_root(root).directory(Kind.EXECUTABLES)))


def assert_warm(cold: Done, warm: Done) -> None:
    """Assert that everything was hit, nothing was stored, and the output is the same to the last digit."""
    asked = cold.hits + cold.stored
    assert cold.stored > 0
    assert warm.counts == (asked, 0, 0, 0), warm
    assert (warm.printed, warm.names) == (cold.printed, cold.names)


# -- flax

B, USE_B, C, USE_C = "jit_b", "jit_use_b", "jit__reduce_sum", "jit_use_c"
SEQUENCES = {  # how often "… is computed" is printed, by JAX and by Python, and the programs asked for
    "b b": (1, 1, [B]),
    "b use_b": (2, 1, [B, USE_B]),
    "use_b use_b": (2, 1, [USE_B]),
    "use_b b": (2, 1, [B, USE_B]),
    "c c": (1, 1, [C]),
    "c use_c": (1, 1, [C, USE_C]),
    "use_c use_c": (2, 1, [USE_C]),
    "use_c c": (2, 2, [C, USE_C]),
}


@needs("flax")
@pytest.mark.parametrize("by", ["jax", "python"])
def test_a_node_with_a_cached_property_and_a_cache_field(by: str, tmp_path: Path) -> None:
    """A second process hits whatever the identity, ``__dict__`` or hash of flax's `PyTreeNode`, prints of JAX included.

    Each sequence asks for the programs that it should, and prints as often as it should, from cold and from warm.
    """
    cold = program(
        "flax_grid.py", tmp_path, *(f"{line} --print {by}" for line in SEQUENCES), env={"PYTHONHASHSEED": "1"}
    )
    again = [f"{line} --print {by} --labelled" for line in SEQUENCES]
    warm = program("flax_grid.py", tmp_path, *again, env={"PYTHONHASHSEED": "2"})
    for (line, (by_jax, by_python, names)), first, second in zip(SEQUENCES.items(), cold, warm, strict=True):
        assert first.printed.count("is computed") == (by_jax if by == "jax" else by_python), line
        assert first.names == names and (by == "jax" or first.counts == (0, len(names), 0, 0)), line
        if by == "python" or KEEPS_CALLBACKS:
            assert_warm(first, second)
        assert first.printed == second.printed
    clean(tmp_path / "1")


@needs("flax")
def test_callbacks_can_be_left_out(tmp_path: Path) -> None:
    """With ``callbacks=False``, programs with callbacks are compiled again up to jax 0.10.2; others are hit."""
    lines = ["use_b use_b --print jax", "c use_c --print jax"]
    cold = program("flax_grid.py", tmp_path, *lines, callbacks=False)
    warm = program("flax_grid.py", tmp_path, *lines, callbacks=False)
    kept = JAX >= (0, 11)
    assert [done.counts for done in cold] == [(0, int(kept), int(not kept), 0), (0, 2, 0, 0)]
    assert [done.counts for done in warm] == [(int(kept), 0, int(not kept), 0), (2, 0, 0, 0)]
    assert [done.printed for done in warm] == [done.printed for done in cold]


@needs("flax", "optax")
def test_training_with_flax(tmp_path: Path) -> None:
    """Training with linen and nnx, with random numbers, donated state and optax's optimizers, is warm."""
    cold, warm = (program("flax_training.py", tmp_path, "", env={"PYTHONHASHSEED": seed})[0] for seed in "12")
    assert_warm(cold, warm)
    assert {"jit_linen_step", "jit_nnx_step"} <= set(cold.names)
    clean(tmp_path / "0")


# -- JAX


@pytest.mark.skipif(not KEEPS_CALLBACKS, reason="programs with callbacks are not kept")
def test_transformations_in_either_precision(tmp_path: Path) -> None:
    """Loops, own rules, callbacks, donation, shards, LAPACK: 32 and 64 bits have keys of their own, and both hit."""
    narrow, wide = TWO_DEVICES, TWO_DEVICES | {"JAX_ENABLE_X64": "1"}
    cold = program("transforms.py", tmp_path, "", env=narrow)[0]
    before = executables(tmp_path / "0")
    wide_cold = program("transforms.py", tmp_path, "", env=wide)[0]
    assert wide_cold.stored > 0 and wide_cold.printed != cold.printed
    assert len(executables(tmp_path / "0")) == len(before) + wide_cold.stored
    assert_warm(cold, program("transforms.py", tmp_path, "", env=narrow)[0])
    assert_warm(wide_cold, program("transforms.py", tmp_path, "", env=wide)[0])
    clean(tmp_path / "0")


# -- errors


@needs("equinox")
@pytest.mark.skipif(not KEEPS_CALLBACKS, reason="programs with callbacks are not kept")
def test_errors_of_equinox(tmp_path: Path) -> None:
    """A program from the cache raises the same errors as a compiled one, and works afterwards."""
    cold, warm = (program("equinox_checked.py", tmp_path, "4 -1 9")[0] for _ in range(2))
    assert cold.printed.splitlines() == ["2.0", "refused: x must not be negative", "3.0"]
    assert_warm(cold, warm)
    clean(tmp_path / "0")


THIN = {  # a plasma for which torax's own checks fail, with the same programs
    "profile_conditions": {"n_e": {"0": {"0": 2e10, "1": 2e10}}, "n_e_right_bc": None},
    "geometry": {"geometry_type": "circular", "a_minor": 0.01, "R_major": 0.1},
}


@pytest.mark.wide
@needs("torax")
def test_torax_with_errors_enabled(tmp_path: Path) -> None:
    """Torax's basic configuration compiles nothing the second time, computes the same bits, and raises its errors."""
    cold, warm = (program("torax_basic.py", tmp_path, "", env=ERRORS)[0] for _ in range(2))
    assert cold.printed.startswith("NO_ERROR")
    assert_warm(cold, warm)
    thin = json.dumps(THIN, separators=(",", ":"))
    (failed,) = program("torax_basic.py", tmp_path, thin, env=ERRORS)
    assert "|tc_out_new*tc_in_new| unexpectedly < eps" in failed.printed and "raised" in failed.printed
    assert failed.hits > 0 and failed.counts[1:] == (0, 0, 0)
    clean(tmp_path / "0")
