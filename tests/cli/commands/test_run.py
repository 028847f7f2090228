"""`jcache run`."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import PROGRAM, Jcache, call, clean_environment, entry_files, keys
from tests.helpers.waiting import LIMIT_S


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.mark.jax
@pytest.mark.smoke
def test_a_cold_and_a_warm_run(jcache: Jcache, root: Path) -> None:
    """The first run stores everything, the second hits everything, wherever the root then lies; stats counts both."""
    cold = jcache("run", "--root", root, "--", sys.executable, PROGRAM)
    entries = len(keys(root / "executables"))
    assert cold.code == 0 and f"0 hits, {entries} misses (stored), 0 not stored, 0 bypassed" in cold.err
    assert cold.out.startswith("loss ")
    moved = root.rename(root.with_name("moved"))
    warm = jcache("run", "--root", moved, "--", sys.executable, PROGRAM)
    assert f"{entries} hits, 0 misses (stored), 0 not stored, 0 bypassed" in warm.err
    assert warm.out == cold.out
    stats = jcache("stats", "--root", moved, "--json").json
    assert stats["totals"] | {"runs": 2, "hits": entries, "stored": entries, "not_stored": 0} == stats["totals"]
    assert stats["totals"]["saved_seconds"] > 0
    last = jcache("stats", "--root", moved, "--json", "--run", "last").json
    assert last["totals"]["hits"] == entries and last["totals"]["runs"] == 1
    listed = jcache("ls", "--root", moved, "--json").json["entries"]
    assert all(isinstance(e["build_seconds"], float) and e["build_seconds"] > 0 for e in listed)
    shown = jcache("show", "jit_train", "--root", moved, "--json").json
    assert shown["digest_matches_ledger"] is True and shown["ledger"]["hits"] == 1
    assert jcache("du", "--root", moved, "--by", "run", "--json").json["groups"][0]["entries"] == entries
    assert "jcache_hits_total" in jcache("stats", "--root", moved, "--prometheus").out
    assert "hits" in jcache("stats", "--root", moved, "--plot").out
    assert jcache("stats", "--root", moved, "--zero").code == 0
    assert jcache("stats", "--root", moved, "--json").json["totals"]["runs"] == 0


@pytest.mark.jax
def test_the_root_is_made_and_marked(jcache: Jcache, root: Path) -> None:
    """`run` makes a root that backup programs skip, with no file of jcache among the executables."""
    jcache("run", "--root", root, "--", sys.executable, PROGRAM)
    assert (root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert {p.name[-6:] for p in (root / "executables").iterdir()} <= {"-cache", "-atime"}


@pytest.mark.full
@pytest.mark.jax
@pytest.mark.smoke
def test_a_plain_jax_directory_stays_one(jcache: Jcache, cache: Path) -> None:
    """If JAX_COMPILATION_CACHE_DIR names the cache, its entries are hit and new ones are stored beside them."""
    before = len(entry_files(cache))
    env = {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    result = jcache("run", "--", sys.executable, PROGRAM, env=env)
    assert f"{before} hits, 0 misses" in result.err
    fresh = cache.parent / "new"
    jcache("run", "--", sys.executable, PROGRAM, env={"JAX_COMPILATION_CACHE_DIR": str(fresh)})
    assert len(entry_files(fresh)) == before


def test_run_inside_run_means_the_same_root(jcache: Jcache, root: Path) -> None:
    """A command started by `jcache run` sees the root, not its executables directory, as the root."""
    result = jcache("run", "-q", "--root", root, "--", sys.executable, "-m", "jcache", "dir")
    assert result.out.strip() == str(root)


@pytest.mark.jax
def test_the_report_is_written_as_json(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """--report writes the numbers; one that cannot be written is a warning and the program's exit code stays."""
    report = tmp_path / "report.json"
    jcache("run", "--root", root, "--report", report, "--", sys.executable, PROGRAM)
    written = json.loads(report.read_text())
    assert written["schema_version"] == 1 and written["exit_code"] == 0
    assert (
        written["requests"]
        == written["hits"] + written["stored"] + written["not_stored"]
        == len(keys(root / "executables"))
    )
    for name in ("trace_seconds", "lower_seconds", "compile_seconds", "retrieve_seconds", "saved_seconds"):
        assert isinstance(written[name], float)
    result = jcache(
        "run", "--root", root, "--report", tmp_path / "no" / "r.json", "--", sys.executable, "-c", "exit(5)"
    )
    assert result.code == 5 and "report" in result.err


def test_a_program_without_jax_runs_just_the_same(jcache: Jcache, root: Path) -> None:
    """Streams, arguments and exit code are the program's; the report says that no JAX was used."""
    code = "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.stderr.write(sys.argv[1]); sys.exit(7)"
    result = jcache("run", "--root", root, "--", sys.executable, "-c", code, "--root", stdin="text")
    assert result.code == 7 and result.out == "TEXT" and result.err.startswith("--root")
    assert "no use of JAX was recorded" in result.err
    quiet = jcache("run", "-q", "--root", root, "--", sys.executable, "-c", "pass")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_a_program_that_cannot_be_started(jcache: Jcache, root: Path, tmp_path: Path) -> None:
    """A missing program is exit 127, one that is not executable 126, each with a sentence."""
    missing = jcache("run", "--root", root, "--", "no-such-program")
    assert missing.code == 127 and "no-such-program" in missing.err
    (tmp_path / "text").write_text("x")
    assert jcache("run", "--root", root, "--", tmp_path / "text").code == 126


def test_signals_are_forwarded(root: Path) -> None:
    """SIGTERM to jcache reaches the program, whose end is then jcache's."""
    code = "from signal import *; pthread_sigmask(SIG_BLOCK, {15}); print('up', flush=True); sigwait({15}); exit(9)"
    command = [sys.executable, "-m", "jcache", "run", "--root", str(root), "--", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment())
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 9


def test_a_root_is_not_made_among_other_files(jcache: Jcache, tmp_path: Path) -> None:
    """`run` does not turn a directory with foreign files into a cache."""
    (tmp_path / "mine.txt").write_text("mine")
    result = jcache("run", "--root", tmp_path, "--", sys.executable, "-c", "print('ran')")
    assert result.code == 10 and result.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


OWN = """
import os, sys
import jax, jax.numpy as jnp
early = "EARLY" in os.environ and jax.jit(lambda x: x + 1)(1.0)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
print(float(jax.jit(lambda x: jnp.sin(x) * 2)(jnp.ones(3))[0]))
"""


@pytest.fixture
def own(tmp_path: Path) -> list[object]:
    """Return the command of a program that sets its own cache directory."""
    (tmp_path / "own.py").write_text(OWN)
    return [sys.executable, tmp_path / "own.py", tmp_path / "its own"]


@pytest.mark.jax
def test_a_cache_directory_of_its_own_is_told(jcache: Jcache, root: Path, own: list[object], tmp_path: Path) -> None:
    """The report names the directory that the program sets, and a command for it, even if the root has the
    same keys.
    """
    again = ["run", "--root", root, "--", *own]
    first = jcache(*again)
    number, there = len(keys(tmp_path / "its own")), str(tmp_path / "its own")
    text = f"The program has set its own cache directory: {number} executables are in {there}, and not in {root}"
    assert number and text in first.err and not keys(root / "executables")
    shutil.copytree(there, root / "executables", dirs_exist_ok=True)
    assert text in jcache(*again).err
    listed = jcache("ls", "--root", root, "--json").json["entries"]
    assert len(listed) == number  # and none was hit, as none is on record
    assert jcache("show", listed[0]["key"], "--root", root, "--json").json["ledger"] == {}
    told = jcache("stats", "--root", root, "--run", "last")
    assert text in told.err

    (suggested,) = re.findall("`(jcache run [^`]*)`", first.err)
    pasted = call([sys.executable, "-m", *shlex.split(suggested)])
    assert pasted.code == 0 and f"{number} hits" in pasted.err and "of its own" not in pasted.err
    assert jcache("stats", "--root", there, "--json").json["totals"]["hits"] == number


@pytest.mark.jax
def test_what_jax_uses_is_told_and_not_what_keys_are_there(
    jcache: Jcache, root: Path, own: list[object], tmp_path: Path
) -> None:
    """A setting that JAX does not follow, and entries that are gone, are no directory of the program's own."""
    late = jcache("run", "--root", root, "--", *own, env={"EARLY": "1"})
    assert "of its own" not in late.err and keys(root / "executables") and not (tmp_path / "its own").exists()
    clear = f"import shutil; exec(open({str(PROGRAM)!r}).read()); shutil.rmtree({str(root / 'executables')!r})"
    gone = jcache("run", "--root", root, "--", sys.executable, "-c", clear)
    assert gone.code == 0 and "misses (stored)" in gone.err and "of its own" not in gone.err
    link = tmp_path / "link"
    link.symlink_to(root / "executables")
    (root / "executables").mkdir(exist_ok=True)
    assert "of its own" not in jcache("run", "--root", root, "--", *own[:2], link).err


@pytest.mark.jax
def test_json_has_what_is_warned_of(jcache: Jcache, root: Path, own: list[object]) -> None:
    """With --json, stderr is only the report, which includes the notices; stdout is the program's."""
    done = jcache("run", "--json", "--root", root, "--", *own)
    (notice,) = json.loads(done.err)["notices"]
    assert "has set its own cache directory" in notice and done.out == "1.6829419136047363\n"
    warm = jcache("warm", "--json", "--root", root, "--", *own)
    assert warm.code == 1 and json.loads(warm.err)["run"]["notices"]


ENABLED = """
import sys, jcache
enabled = jcache.enable()
import jax
assert jax.jit(lambda x: x * 7)(3.0) == 21
print(enabled.warnings, jcache.stats().hits > 0, jcache.stats().stored > 0)
"""


@pytest.mark.jax
@pytest.mark.parametrize("launcher", [[], ["env", "PYTHONPATH=src"]])
def test_enable_checks_for_itself(jcache: Jcache, root: Path, launcher: list[str]) -> None:
    """A program that calls `jcache.enable()` has its cache and no warning, with and without the recorder."""
    for hits in (False, True):
        done = jcache("run", "--root", root, "--", *launcher, sys.executable, "-c", ENABLED)
        assert (done.code, done.out) == (0, f"() {hits} {not hits}\n"), done.err


@pytest.mark.jax
def test_a_cache_that_is_turned_off_is_told(jcache: Jcache, root: Path) -> None:
    """If the environment turns the cache off, nothing is stored, and the report names the variable."""
    off = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    done = jcache("run", "--root", root, "--", sys.executable, PROGRAM, env=off)
    assert done.code == 0 and "JAX_ENABLE_COMPILATION_CACHE" in done.err and not keys(root / "executables")
    warm = jcache("warm", "--root", root, "--", sys.executable, PROGRAM, env=off)
    assert warm.code == 0 and "JAX_ENABLE_COMPILATION_CACHE" not in warm.err and keys(root / "executables")


def test_run_goes_on_without_a_cache(jcache: Jcache, tmp_path: Path) -> None:
    """A cache that the environment names and that cannot be used is a warning; the program runs."""
    for place in ("gs://bucket/x", "/dev/null/x"):
        result = jcache("run", "--", "sh", "-c", "exit 9", env={"JAX_COMPILATION_CACHE_DIR": place})
        assert result.code == 9 and "runs without jcache" in result.err


def test_run_goes_on_without_a_place_to_record(tmp_path: Path) -> None:
    """If no temporary directory can be made, the program runs without a cache and without a report."""
    tool = "import tempfile, sys; tempfile.tempdir = '/dev/null'; sys.argv[1:] = %r; import jcache.__main__"
    arguments = [
        "run",
        "--root",
        str(tmp_path / "root"),
        "--",
        "sh",
        "-c",
        "echo $JAX_ENABLE_COMPILATION_CACHE; exit 9",
    ]
    result = call([sys.executable, "-c", tool % arguments])
    assert (result.code, result.out) == (
        9,
        "false\n",
    ) and "cannot make a temporary directory to record the run" in result.err


def test_run_tells_of_a_cache_of_the_program_s_own(jcache: Jcache, tmp_path: Path) -> None:
    """A program that sets another cache directory is reported."""
    code = "import sys, jax; jax.config.update('jax_compilation_cache_dir', sys.argv[1]); jax.jit(jax.numpy.sin)(1.0)"
    result = jcache("run", "--root", tmp_path / "root", "--", sys.executable, "-c", code, tmp_path / "own")
    assert result.code == 0 and "has set its own cache directory" in result.err
