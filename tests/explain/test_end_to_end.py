"""`jcache explain` on real runs of JAX: after each change, alone, it names that change and nothing else."""

import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jcache.vocabulary import CauseKind
from tests.helpers.command_line import Jcache, call, keys, run_jax

JAX = tuple(int(part) for part in version("jax").split(".")[:2])
EXPLAINED = Path(__file__).parent.parent / "programs" / "explained.py"
PROGRAMS = 3


class Expected(NamedTuple):
    """What is to be said after a change.

    Attributes:
        item: the cause.
        misses: the number of its misses.
        name, current, baseline: as in the cause; None for anything.
        argument: of the program in the second run.
        environment: of the second run.
    """

    item: CauseKind
    misses: int
    name: str = ""
    current: str | None = None
    baseline: str | None = None
    argument: str = ""
    environment: Mapping[str, str] = {}


FLAG = "--xla_cpu_enable_fast_math=true"
DEVICES = "--xla_force_host_platform_device_count=2"
CHANGES = {
    "XLA flag": Expected(CauseKind.XLA_FLAGS, 3, "", FLAG, "", environment={"XLA_FLAGS": FLAG}),
    "device count": Expected(CauseKind.DEVICES, 3, "", "2 x cpu", "1 x cpu", environment={"XLA_FLAGS": DEVICES}),
    "compile option": Expected(
        CauseKind.COMPILE_OPTION, 1, "xla_cpu_enable_fast_min_max", "True", "", argument="compile option"
    ),
    "x64": Expected(CauseKind.JAX_OPTION, 3, "jax_enable_x64", "True", "False", argument="x64"),
    "matmul precision": Expected(
        CauseKind.JAX_OPTION, 1, "jax_default_matmul_precision", "highest", "None", argument="matmul precision"
    ),
    "static argument": Expected(CauseKind.STATIC, 1, "layers", "3", "2", argument="static argument"),
    "shape": Expected(CauseKind.SHAPE, 1, "batch", "f32[61,8]", "f32[64,8]", argument="shape"),
    "dtype": Expected(CauseKind.DTYPE, 3, "weights", "f16[8,8]", "f32[8,8]", argument="dtype"),
    "weak type": Expected(CauseKind.WEAK_TYPE, 1, "scale", argument="weak type"),
    "sharding": Expected(CauseKind.SHARDING, 1, "batch", argument="sharding"),
    "donation": Expected(CauseKind.DONATION, 1, "batch", "donated", "not donated", argument="donation"),
    "captured constant": Expected(CauseKind.CONSTANT, 1, argument="captured constant"),
    "renamed helper": Expected(CauseKind.NAMES, 1, "", "@helper_v2", "@helper", argument="renamed helper"),
    "code": Expected(CauseKind.CONSTANT, 1, "", "dense<3.000000e+00> : tensor<f32>", argument="code"),
}


def run(jcache: Jcache, root: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
    done = jcache("run", "--quiet", "--root", root, "--", sys.executable, EXPLAINED, *arguments, env=environment)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root after the first run of the program; not to be changed."""
    root = tmp_path_factory.mktemp("filled") / "root"
    done = call([sys.executable, "-m", "jcache", "run", "--root", str(root), "--", sys.executable, str(EXPLAINED)])
    assert done.code == 0, done.err
    return root


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(filled, tmp_path / "root"))


def explained(jcache: Jcache, root: Path, *arguments: str) -> dict[str, Any]:
    done = jcache("explain", *arguments, "--root", root, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert sum(cause["misses"] for cause in found["causes"]) == found["misses"]
    assert isinstance(found, dict)
    return found


@pytest.mark.jax
@pytest.mark.contract
@pytest.mark.skipif(JAX < (0, 6), reason="the contract of keys (tests/contract/test_key_parts.py) covers this jax")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_alone_is_named_and_nothing_else(jcache: Jcache, root: Path, change: str) -> None:
    """After a change to a real program, alone, the change is the one cause, with the right count."""
    expected = CHANGES[change]
    arguments = [expected.argument] if expected.argument else []
    run(jcache, root, *arguments, environment=expected.environment)
    found = explained(jcache, root)
    assert [cause["item"] for cause in found["causes"]] == [expected.item], found["causes"]
    (cause,) = found["causes"]
    assert cause["misses"] == expected.misses
    assert cause["name"] == expected.name
    for field in ("current", "baseline"):
        assert getattr(expected, field) in (None, cause[field])


@pytest.mark.jax
def test_a_second_run_has_nothing_to_explain(jcache: Jcache, root: Path) -> None:
    """The first run compiles everything for the first time; the second one hits everything."""
    (cause,) = explained(jcache, root)["causes"]
    assert (cause["item"], cause["misses"]) == (CauseKind.FIRST_TIME, PROGRAMS)
    run(jcache, root)
    found = explained(jcache, root)
    assert (found["hits"], found["misses"], found["causes"]) == (PROGRAMS, 0, [])


@pytest.mark.jax
def test_the_order_of_a_set_is_named_by_the_hash_seed_and_then_as_churn(jcache: Jcache, tmp_path: Path) -> None:
    """A program that iterates a set misses under each hash seed; where no seed is set, three runs show it as churn."""
    root = tmp_path / "root"
    for seed in ("1", "2"):
        run(jcache, root, "set", environment={"PYTHONHASHSEED": seed})
    (cause,) = explained(jcache, root)["causes"]
    assert (cause["item"], cause["function"], cause["misses"]) == (CauseKind.HASH_SEED, "loss", 1)
    for _ in range(3):
        run(jcache, tmp_path / "other", "set", environment={"PYTHONHASHSEED": "random"})
    (cause,) = explained(jcache, tmp_path / "other")["causes"]
    assert (cause["item"], cause["function"], cause["misses"]) == (CauseKind.CHURN, "loss", 1)
    assert cause["current"] != cause["baseline"] and "tensor<8x8xf32>" in cause["current"]


@pytest.mark.jax
def test_entries_that_were_removed_are_told_with_who_removed_them(jcache: Jcache, root: Path) -> None:
    """A miss of an entry that `jcache rm` removed is evicted; one that `rm` removed without jcache is as well."""
    assert jcache("rm", "jit_step", "--yes", "--root", root).code == 0
    next((root / "executables").glob("jit_loss-*-cache")).unlink()
    run(jcache, root)
    by_function = {cause["function"]: cause for cause in explained(jcache, root)["causes"]}
    assert {cause["item"] for cause in by_function.values()} == {CauseKind.EVICTED}
    assert by_function["step"]["reason"].endswith("ago by jcache rm")
    assert by_function["loss"]["misses"] == 1 and len(by_function) == 2


@pytest.mark.jax
def test_a_damaged_entry_is_told(jcache: Jcache, root: Path) -> None:
    """A miss of an entry that was damaged, found by the run itself or by `verify --repair`, says so."""
    damage(next((root / "executables").glob("jit_step-*-cache")))
    run(jcache, root)
    (cause,) = explained(jcache, root)["causes"]
    assert (cause["item"], cause["function"], cause["misses"]) == (CauseKind.DAMAGED, "step", 1)
    damage(next((root / "executables").glob("jit_loss-*-cache")))
    jcache("verify", "--repair", "--grace", "0s", "--root", root)
    run(jcache, root)
    (cause,) = explained(jcache, root)["causes"]
    assert (cause["item"], cause["function"], cause["misses"]) == (CauseKind.DAMAGED, "loss", 1)


def damage(path: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.jax
def test_what_could_not_be_stored_is_told(jcache: Jcache, tmp_path: Path) -> None:
    """A program that compiles too fast to be stored misses in each run for that reason."""
    slow_only = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1000"}
    for _ in range(2):
        run(jcache, tmp_path / "root", environment=slow_only)
    (cause,) = explained(jcache, tmp_path / "root")["causes"]
    assert (cause["item"], cause["misses"], cause["reason"]) == (
        CauseKind.NOT_STORED,
        PROGRAMS,
        "compiled in less than 1000 s",
    )
    assert "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" in cause["resolution"]


@pytest.mark.jax
def test_a_function_or_a_key_alone_is_explained(jcache: Jcache, root: Path) -> None:
    """A function, a key, a beginning of a key and a run are found; two keys, and two runs, are compared."""
    (before,) = [key for key in keys(root / "executables") if key.startswith("jit_step-")]
    run(jcache, root, "shape")
    (after,) = {key for key in keys(root / "executables") if key.startswith("jit_step-")} - {before}
    first, second = (report["id"] for report in jcache("stats", "--root", root, "--json").json["runs"][::-1])
    assert explained(jcache, root, "step")["causes"] == explained(jcache, root)["causes"]
    assert explained(jcache, root, after[:20]) == explained(jcache, root, "step")
    assert explained(jcache, root, "norm")["causes"][0]["item"] == CauseKind.FIRST_TIME  # it has hit since
    assert explained(jcache, root, first)["causes"][0]["item"] == CauseKind.FIRST_TIME
    assert explained(jcache, root, second, first) == explained(jcache, root, first, second) == explained(jcache, root)
    compared = jcache("explain", before, after, "--root", root, "--json").json
    assert [(cause["item"], cause["current"]) for cause in compared["causes"]] == [(CauseKind.SHAPE, "f32[61,8]")]
    diff = jcache("explain", "--diff", "--root", root).out
    assert "tensor<64x8xf32>" in diff and "tensor<61x8xf32>" in diff and " | " in diff


@pytest.mark.jax
def test_entries_that_no_run_has_recorded_are_compared_by_what_they_say(jcache: Jcache, tmp_path: Path) -> None:
    """Two entries of plain JAX runs are compared, and a first recorded run is compared with such entries."""
    cache = tmp_path / "cache"
    for change in ("", "shape"):
        assert run_jax(cache, program=(str(EXPLAINED), change)).code == 0
    steps = sorted(key for key in keys(cache) if key.startswith("jit_step-"))
    compared = jcache("explain", *steps, "--root", cache, "--json").json
    assert compared["recorded"] is False
    assert [cause["item"] for cause in compared["causes"]] == [CauseKind.SHAPE]
    assert jcache("explain", steps[0], "--root", cache, "--json").json["baseline"] == steps[1]
    missing = jcache("explain", "--root", cache)
    assert missing.code == 1 and "jcache run" in missing.err
