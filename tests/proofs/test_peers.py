"""The tests that other projects publish have the same outcomes, and their jitted functions the same results, with
`jcache.jit` in the place of `jax.jit`.

    pytest -m full --full tests/proofs/test_peers.py -s

They are downloaded from PyPI, for the versions that are installed. Projects that are not installed are skipped.
"""

import json
import subprocess
import sys
import tarfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import environment

PLUGIN = Path(__file__).parent
TESTS = {  # some of each project's tests that jit; each set takes a few minutes
    "diffrax": (),
    "dm-haiku": ("haiku/_src/base_test.py", "haiku/_src/dot_test.py", "haiku/_src/stateful_test.py"),
    "equinox": (),
    "flax": ("tests/core/core_lift_test.py", "tests/core/core_scope_test.py", "tests/struct_test.py"),
    "numpyro": ("test/test_optimizers.py", "test/test_distributions_util.py"),
    "optax": (
        "optax/_src/base_test.py",
        "optax/losses/_smoothing_test.py",
        "optax/schedules/_inject_test.py",
        "optax/transforms/_masking_test.py",
    ),
    "tinygp": ("tests",),
}
COUNTING = ("::test_jit_cache", "::test_numpyrooptim_no_double_jit")  # of flax and numpyro: these count traces
LIMIT_S = 1800


def sources(project: str, to: Path) -> Path:
    """The source distribution of the version that is installed, unpacked; skips the test where it cannot be had."""
    try:
        wanted = f"{project}=={version(project)}"
    except PackageNotFoundError:
        pytest.skip(f"without {project}")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", project, "--dest", str(to)]
    done = subprocess.run([*pip, wanted], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    found = sorted(to.glob("*.tar.gz"))
    if not found:
        pytest.skip(f"{wanted} cannot be downloaded: {done.stderr.strip()[-200:]}")
    with tarfile.open(found[0]) as archive:
        archive.extractall(to, filter="data")
    return next(path for path in sorted(to.iterdir()) if path.is_dir())


def outcomes(where: Path, chosen: tuple[str, ...], whose: str, root: Path) -> Any:
    """By name what each test came to and what its functions returned, and what became of the calls."""
    noted = root.with_name(f"{root.name}-{whose}.json")
    noted.unlink(missing_ok=True)
    more = {"JCACHE_PEER_JIT": whose, "JCACHE_PEER_ROOT": root, "JCACHE_PEER_OUTCOMES": noted, "PYTHONPATH": PLUGIN}
    plugins = ["swapped_jit", "no:randomly", "no:cacheprovider", "no:xdist"]
    options = ["-q", "-c", "/dev/null", *(f"-p{name}" for name in plugins)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={where}", *chosen],
        cwd=where, env=environment(more), capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert noted.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    print(f"{whose}: {done.stdout.splitlines()[-1]}")
    came_to, counts = json.loads(noted.read_text())
    results: dict[str, list[str]] = {}
    now = results["before the tests"] = []
    for line in Path(f"{noted}.log").read_text().splitlines():
        what, _, rest = line.partition(" ")
        if what == "test":
            now = results[rest] = []
        else:
            now.append(rest)
    return came_to, results, counts


@pytest.mark.parametrize("project", sorted(TESTS))
def test_a_projects_own_tests(project: str, tmp_path: Path, full: bool) -> None:
    """Each test passes, fails or is skipped as it is with `jax.jit`, from cold and from warm; results are the same.

    Tests that count how often a function is traced differ from warm, where it is not. Results are compared where two
    runs with `jax.jit` give the same ones.
    """
    if not full:
        pytest.skip("with --full")
    if not TESTS[project]:
        pytest.skip(f"the source distribution of {project} has no tests")
    where = sources(project, tmp_path)
    (theirs, returned, _), (_, again, _) = (
        outcomes(where, TESTS[project], "jax", tmp_path / "plain") for _ in range(2)
    )
    assert "passed" in theirs.values()
    repeatable = [name for name, each in returned.items() if again.get(name) == each]
    for start in ("cold", "warm"):
        ours, results, counts = outcomes(where, TESTS[project], "jcache", tmp_path / "ours")
        differing = {name: (was, ours.get(name)) for name, was in theirs.items() if ours.get(name) != was}
        calls = sum(len(returned[name]) for name in repeatable)
        print(f"{project}, {start}: {len(theirs)} tests, {len(differing)} differ; {calls} results; calls: {counts}")
        assert all(start == "warm" and any(each in name for each in COUNTING) for name in differing), differing
        assert [name for name in repeatable if results.get(name) != returned[name]] == []
