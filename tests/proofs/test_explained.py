"""On real libraries, `jcache explain` names each change, alone, as the one cause of all misses.

pytest tests/proofs/test_explained.py -m full --full
"""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from jcache.store.roots import create_root
from jcache.vocabulary import CauseKind
from tests.helpers.command_line import call
from tests.helpers.records import new_record, records_of

PROGRAMS = Path(__file__).parent.parent / "programs"
LIBRARIES = ("flax", "equinox", "diffrax", "numpyro")
SEED: Mapping[str, str] = {"PYTHONHASHSEED": "1"}
FLAGS = {
    "XLA flag": {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"},
    "device count": {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
}
CHANGES = {
    "static argument": CauseKind.STATIC,
    "dtype": CauseKind.DTYPE,
    "shape": CauseKind.SHAPE,
    "x64": CauseKind.JAX_OPTION,
    "captured constant": CauseKind.CONSTANT,
    "renamed helper": CauseKind.NAMES,
    "XLA flag": CauseKind.XLA_FLAGS,
    "device count": CauseKind.DEVICES,
}
TORAX = {
    "XLA flag": CauseKind.XLA_FLAGS,
    "device count": CauseKind.DEVICES,
    "shape": CauseKind.SHAPE,
    "x64": CauseKind.JAX_OPTION,
}
SHORT = '{"numerics": {"t_final": 0.2}}'
OTHER_GRID = '{"numerics": {"t_final": 0.2}, "geometry": {"geometry_type": "circular", "n_rho": 30}}'


def run(root: Path, script: str, *arguments: str, environment: Mapping[str, str], start: tuple[str, ...] = ()) -> str:
    """Run a program under `jcache run`; return what it wrote to stderr."""
    words = [sys.executable, "-m", "jcache", "run", "--quiet", "--root", str(root), "--", sys.executable]
    done = call([*words, *start, str(PROGRAMS / script), *arguments], env=environment)
    assert done.code == 0, done.err
    return done.err


def the_cause(root: Path) -> CauseKind:
    """Return the one cause of the misses of the last run; there must be one, and only one."""
    done = call([sys.executable, "-m", "jcache", "explain", "--root", str(root), "--json"])
    assert done.code == 0, done.err
    found = json.loads(done.out)
    causes = [(cause["item"], cause["name"], cause["misses"], cause["functions"]) for cause in found["causes"]]
    assert len(causes) == 1, causes
    assert causes[0][2] == found["misses"] > 0
    return CauseKind(causes[0][0])


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Roots in which the programs have run, made where they are needed."""
    return {"": tmp_path_factory.mktemp("bases")}


def base(bases: dict[str, Path], name: str, script: str, *arguments: str) -> Path:
    if name not in bases:
        bases[name] = bases[""] / name
        run(bases[name], script, *arguments, environment=SEED)
    return bases[name]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_change_alone_is_the_one_cause(
    bases: dict[str, Path], tmp_path: Path, library: str, change: str, full: bool
) -> None:
    """A change to a program of a library, which calls many operations of JAX, is one cause."""
    if not full and library != "flax":
        pytest.skip("in the full form only")
    pytest.importorskip(library)
    root = shutil.copytree(base(bases, library, "explained_libraries.py", library), tmp_path / "root")
    run(root, "explained_libraries.py", library, change, environment={**SEED, **FLAGS.get(change, {})})
    assert the_cause(root) is CHANGES[change]


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_hash_seed_of_a_program_that_iterates_a_set_is_the_one_cause(
    tmp_path: Path, library: str, full: bool
) -> None:
    """Another order of a set gives another program under another seed, and that is told."""
    if not full and library != "flax":
        pytest.skip("in the full form only")
    pytest.importorskip(library)
    for seed in ("1", "2"):
        run(tmp_path, "explained_libraries.py", library, "set", environment={"PYTHONHASHSEED": seed})
    assert the_cause(tmp_path) is CauseKind.HASH_SEED


WITH_LOG = """
import logging, runpy, sys
logging.basicConfig(format="LOG %(message)s", force=True)
for name in ("cache_key", "compiler"):
    logging.getLogger("jax._src." + name).setLevel(logging.DEBUG)
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
HASH = re.compile(r"LOG get_cache_key hash of serialized (.+): ([0-9a-f]{64})$", re.MULTILINE)
TOLD = {
    "hit": re.compile(r"LOG Persistent compilation cache hit for '(.+)' with key '(.+)'$", re.MULTILINE),
    "stored": re.compile(r"LOG PERSISTENT COMPILATION CACHE MISS for '(.+)' with key '(.+)'$", re.MULTILINE),
}


@pytest.mark.parametrize("library", [*LIBRARIES, "torax"])
def test_outcomes_and_parts_are_those_of_jaxs_log(tmp_path: Path, library: str, full: bool) -> None:
    """Every hit, miss and hash of a part in JAX's DEBUG log is in the record, and nothing else is; cold and warm."""
    if not full and library != "flax":
        pytest.skip("in the full form only")
    pytest.importorskip(library)
    script = ("torax_basic.py", SHORT) if library == "torax" else ("explained_libraries.py", library)
    root = create_root(tmp_path / "root")
    for outcome in TOLD:
        before = records_of(root)
        log = run(root.path, *script, environment=SEED, start=("-c", WITH_LOG))
        record = new_record(root, before, log)
        programs = [program for process in record.processes for program in process.programs]
        for expected, pattern in TOLD.items():
            told = sorted((one.name, one.key) for one in programs if one.outcome == expected)
            assert sorted(set(pattern.findall(log))) == sorted(set(told)), (outcome, expected)
        hashes = {pair for program in programs for pair in program.parts.items()}
        assert hashes == set(HASH.findall(log))


@pytest.mark.parametrize("change", TORAX)
def test_a_change_to_torax_alone_is_the_one_cause(
    bases: dict[str, Path], tmp_path: Path, change: str, full: bool
) -> None:
    """A change to Torax's basic configuration, or to what surrounds it, is one cause."""
    if not full:
        pytest.skip("in the full form only")
    pytest.importorskip("torax")
    root = shutil.copytree(base(bases, "torax", "torax_basic.py", SHORT), tmp_path / "root")
    environment = {**SEED, **FLAGS.get(change, {}), **({"JAX_PRECISION": "f32"} if change == "x64" else {})}
    run(root, "torax_basic.py", OTHER_GRID if change == "shape" else SHORT, environment=environment)
    assert the_cause(root) is TORAX[change]
