"""`jcache.enable()`, tested in separate processes with the installed JAX."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jcache.jax_internals.presets import SETTINGS, Preset
from jcache.layout import Kind
from jcache.store.ledger import Ledger
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.command_line import PROGRAM, run_jax
from tests.helpers.entries import files_of
from tests.helpers.jax_programs import environment, run
from tests.helpers.waiting import LIMIT_S

QUIET = {"PYTHONWARNINGS": "ignore"}
PAGE = (Path(__file__).parents[2] / "docs/how-to/use-in-a-program.md").read_text()
pytestmark = pytest.mark.jax

PRELUDE = """
import json, os, sys, threading, warnings
from pathlib import Path
import jcache
def enable(*arguments, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        enabled = jcache.enable(*arguments, **options)
    assert [str(warning.message) for warning in said] == (
        ["jcache.enable(): " + " ".join(enabled.warnings)] if enabled.warnings else [])
    return enabled
def compute(number=2, size=3):
    import jax, numpy as np
    return jax.jit(lambda x: x * number + 1)(np.ones(size, np.float32)).tolist()
def counts():
    stats = jcache.stats()
    return [stats.hits, stats.stored, stats.not_stored, stats.bypassed]
def show(*values):
    print(json.dumps(values, default=str))
"""


def said(program: str, *arguments: object, cwd: Path | None = None, **env: object) -> Any:
    """Return the last output of a program, which must print no warning."""
    result = run(PRELUDE + program, *arguments, cwd=cwd, env={"PYTHONWARNINGS": "always"} | env)
    assert "Warning" not in result.err, result.err
    return result.value


def executables(root: Path) -> set[str]:
    return set(files_of(open_root(root).directory(Kind.EXECUTABLES)))


def clean(*roots: Path) -> None:
    """Every root verifies clean, the oracle of whatever has been done."""
    for root in roots:
        with Store(open_root(root)) as store:
            assert verify(store, VerifyRequest()).findings == []


# -- the main thing


@pytest.mark.smoke(since="0.8.1")
@pytest.mark.parametrize("order", ["before", "after"])
def test_the_second_process_compiles_nothing(order: str, tmp_path: Path) -> None:
    """Whether jcache is enabled before or after JAX's import, the first process stores all, and the second hits all."""
    program = """
if sys.argv[2] == "after":
    import jax
    assert not jax.config.jax_compilation_cache_dir
enabled = enable(sys.argv[1])
assert enabled is enable(sys.argv[1])
show(compute(), counts(), str(enabled.root), str(enabled.directory), enabled.store, enabled.warnings, enabled.notes)
"""
    root = tmp_path / "root"
    result, cold, *rest = said(program, root, order)
    assert result == [3, 3, 3] and cold[0] == 0 < cold[1]
    assert rest == [str(root), str(root / "executables"), "jcache", [], []]
    assert said(program, root, order)[:2] == [[3, 3, 3], [cold[1], 0, 0, 0]]
    assert len(executables(root)) == cold[1]
    clean(root)


def test_importing_jcache_imports_neither_jax_nor_numpy() -> None:
    """Importing jcache, or naming its public functions, imports neither JAX nor numpy."""
    program = """
before = [getattr(jcache, name) for name in jcache.__all__]
assert set(jcache.__all__) <= set(dir(jcache))
show([name for name in ("jax", "jaxlib", "numpy") if name in sys.modules])
"""
    assert said(program) == [[]]


@pytest.mark.full
@pytest.mark.smoke
def test_a_root_that_is_moved_or_copied_still_hits(tmp_path: Path) -> None:
    """Keys do not depend on the directory or its spelling, for any version of JAX."""
    program = "enable(sys.argv[1])\nshow(compute(), counts())"
    _, cold = said(program, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert said(program, tmp_path / "two")[1] == [cold[1], 0, 0, 0]
    (tmp_path / "link").symlink_to(tmp_path / "two")
    assert said(program, tmp_path / "link")[1] == [cold[1], 0, 0, 0]
    assert said(program, "two", cwd=tmp_path)[1] == [cold[1], 0, 0, 0]
    clean(tmp_path / "two")


def test_jax_without_jcache_shares_the_directory(tmp_path: Path) -> None:
    """JAX and jcache hit each other's entries in a plain directory, with a bound and without."""
    for bound in (None, 10**9):
        shared = tmp_path / str(bound)
        first = run_jax(shared, bounded=bound)
        assert (first.code, first.err) == (0, "")
        stored = executables(shared)
        program = """
import runpy
root, bound, script = sys.argv[1:]
sys.argv[1:] = []
enable(root, max_size=json.loads(bound))
runpy.run_path(script, run_name="__main__")
show(compute(), counts())
"""
        _, ours = said(program, shared, json.dumps(bound), PROGRAM)
        assert ours[0] == len(stored) and ours[1] > 0
        assert run_jax(shared, bounded=bound).err == ""
        clean(shared)


def test_the_environment_names_the_root(tmp_path: Path) -> None:
    """Without an argument, $JCACHE_DIR comes first, then JAX's own variable, which makes a plain directory."""
    program = (
        "enabled = enable()\ncompute()\nshow(str(enabled.root), str(enabled.directory), str(jcache.info().root.path))"
    )
    ours, plain = tmp_path / "ours", tmp_path / "plain"
    both = {"JCACHE_DIR": ours, "JAX_COMPILATION_CACHE_DIR": ours / "executables"}
    assert said(program, **both) == [str(ours), str(ours / "executables"), str(ours)]
    assert said(program, JAX_COMPILATION_CACHE_DIR=plain) == [str(plain)] * 3
    assert executables(ours) == executables(plain)
    assert said(program, XDG_CACHE_HOME=tmp_path)[0] == str(tmp_path / "jcache")


# -- taking effect, or not


def test_a_computation_without_any_cache_is_only_noted(tmp_path: Path) -> None:
    """JAX alone would never look at a directory that is set this late; with jcache all that follows is cached."""
    program = """
compute(5)
enabled = enable(sys.argv[1], strict=True)
compute(6)
show(enabled.notes, counts())
"""
    (note,), cold = said(program, tmp_path)
    assert "not cached" in note and cold[1] > 0
    assert said(program, tmp_path)[1] == [cold[1], 0, 0, 0]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"JAX_ENABLE_COMPILATION_CACHE": "false"}, "$JAX_ENABLE_COMPILATION_CACHE in the environment makes"),
        ({"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "9"}, "in preset 'balanced': unset the variable"),
        ({"JAX_COMPILATION_CACHE_DIR": "/elsewhere"}, "is /elsewhere, but jcache.enable() was given"),
        ({"JAX_COMPILATION_CACHE_MAX_SIZE": "12345"}, "is 12345, but jcache.enable() was given 1000000"),
    ],
)
def test_what_the_environment_overrides_is_told(variables: dict[str, str], told: str, tmp_path: Path) -> None:
    """A variable against a preset wins, one against an argument loses; there is one warning, or an error if strict."""
    program = """
enabled = enable(sys.argv[1], max_size=10**6)
compute()
try:
    jcache.enable(sys.argv[1], max_size=10**6, strict=True)
except jcache.NotInEffect as error:
    strict = str(error)
import jax
show(enabled.warnings, strict, enabled.max_bytes, counts(), jax.config.jax_compilation_cache_dir)
"""
    (warning,), strict, bound, counts, directory = said(program, tmp_path, cwd=None, **variables)
    assert told in warning and warning in strict
    assert bound == 10**6
    stores_nothing = "JAX_ENABLE_COMPILATION_CACHE" in variables or "9" in variables.values()
    assert (counts[1] == 0) == stores_nothing
    assert directory == variables.get("JAX_COMPILATION_CACHE_DIR")


def test_the_same_values_in_the_environment_are_no_override(tmp_path: Path) -> None:
    """The values that `jcache env` prints, or `jcache run` sets, cause no warning."""
    program = "show(enable(sys.argv[1]).warnings)"
    env = subprocess.run(
        [sys.executable, "-m", "jcache", "env", "--root", str(tmp_path), "--json"],
        env=environment(),
        capture_output=True,
        check=True,
    )
    assert said(program, tmp_path, **json.loads(env.stdout)["environment"]) == [[]]


@pytest.mark.parametrize(
    "arguments",
    [
        *("preset='fast'", "write='rank1'", "max_size='20 parsecs'", "max_size=-5", "max_size=2.5", "max_size=True"),
        *("''", "b'x'", "7", "read_only=[1]"),
    ],
)
def test_what_cannot_be_read_is_an_error(arguments: str) -> None:
    """A mistake in the call is an InvalidValue, which names it, and nothing is changed."""
    program = f"""
import jax
before = dict(jax.config.values)
try:
    jcache.enable({arguments})
except ValueError as error:
    assert dict(jax.config.values) == before
    show(type(error).__name__, str(error))
"""
    name, text = said(program)
    assert name == "InvalidValue" and text.endswith(".")


def test_after_a_root_that_is_not_in_use_none_is_guessed(tmp_path: Path) -> None:
    """If the root cannot be used, later calls without a root raise an error, since another cache must not
    lose entries.
    """
    (tmp_path / "thesis.tex").write_text("not ours")
    program = """
jcache.enable(sys.argv[1])
told = []
for action in (jcache.info, jcache.clear, lambda: jcache.prune(keep_last=1)):
    try:
        action()
    except jcache.NotInEffect as error:
        told.append(str(error))
show(told)
"""
    (told,) = run(PRELUDE + program, tmp_path, env=QUIET).value
    assert len(told) == 3 and all("name the root here" in text for text in told)


def test_an_odd_bound_is_told(tmp_path: Path) -> None:
    """A bound below -1 in JAX's configuration means none to us, and does not stop the program."""
    program = "enabled = enable(sys.argv[1])\nshow(compute(), enabled.max_bytes, enabled.warnings)"
    result, bound, (warning,) = said(program, tmp_path, JAX_COMPILATION_CACHE_MAX_SIZE="-5")
    assert (result, bound) == ([3, 3, 3], None) and "-5, which is no bound" in warning


@pytest.mark.parametrize(
    "setting", ["jax_enable_compilation_cache=False", "jax_persistent_cache_min_compile_time_secs=9.0"]
)
def test_what_the_program_has_set_wins(tmp_path: Path, setting: str) -> None:
    """An option that the program set before `enable` stays, with a warning, or an error under `strict`."""
    option, _, value = setting.partition("=")
    program = f"""
import jax
jax.config.update({option!r}, {value})
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    jcache.enable(sys.argv[1])
compute()
stored = counts()[1]
try:
    jcache.enable(sys.argv[1], strict=True)
except jcache.NotInEffect as error:
    show([str(w.message) for w in heard], stored, str(error), jax.config.values[{option!r}])
"""
    (heard,), stored, error, left = said(program, tmp_path)
    assert f"The program has set {option} to {value}" in heard and heard.partition(": ")[2] in error
    assert stored == 0 and str(left) == value


def test_damage_raises_where_jax_is_told_so(tmp_path: Path) -> None:
    """Under `jax_raise_persistent_cache_errors`, a damaged entry raises once, as in JAX, and is then compiled again."""
    program = """
import jax
enable(sys.argv[1])
compute(2)
for path in (pathlib.Path(sys.argv[1]) / "executables").glob("*-cache"):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
jax.clear_caches()
jax.config.update("jax_raise_persistent_cache_errors", True)
raised = []
for _ in range(9):
    try:
        compute(2)
    except Exception as error:
        raised.append(str(error))
    else:
        break
show(raised, compute(2))
"""
    raised, result = said("import pathlib" + program, tmp_path)
    assert raised and all("in quarantine now" in text for text in raised) and result
    clean(tmp_path)


def test_the_time_to_wait_for_a_lock(tmp_path: Path) -> None:
    """$JCACHE_LOCK_TIMEOUT holds for programs too; one that cannot be read is an error."""
    program = """
try:
    jcache.enable(sys.argv[1])
except jcache.InvalidValue as error:
    show(str(error))
"""
    (text,) = said(program, tmp_path, JCACHE_LOCK_TIMEOUT="soon")
    assert "JCACHE_LOCK_TIMEOUT" in text


# -- disabling


# -- presets


@pytest.mark.parametrize("preset", Preset)
def test_a_preset_sets_what_it_says(preset: Preset, tmp_path: Path) -> None:
    """A preset's options are in JAX's configuration and in the docs, and the next process hits its programs."""
    program = """
import jax
enabled = jcache.enable(sys.argv[1], preset=sys.argv[2])
compute()
show({name: jax.config.values.get(name) for name in json.loads(sys.argv[3])}, counts(), enabled.warnings)
"""
    options = SETTINGS[preset]
    arguments = (tmp_path, preset, json.dumps(list(options)))
    values, cold, told = run(PRELUDE + program, *arguments, env=QUIET).value
    absent = {name for name, value in values.items() if value is None}
    assert len(told) == len(absent) and all(name in " ".join(told) for name in absent)
    assert values == {name: None if name in absent else value for name, value in options.items()}
    assert run(PRELUDE + program, *arguments, env=QUIET).value[1] == [cold[1], 0, 0, 0]
    assert f"`{preset}`" in PAGE


# -- several roots, several processes


# -- statistics


@pytest.mark.full
@pytest.mark.smoke
def test_the_statistics_are_in_the_ledger_at_exit(tmp_path: Path) -> None:
    """`jcache stats` shows each process that enabled jcache as a run, with the numbers of `jcache.stats()`."""
    program = "enable(sys.argv[1])\ncompute()\nshow(counts(), jcache.stats().id)"
    shown = [said(program, tmp_path) for _ in range(2)]
    done = subprocess.run(
        [sys.executable, "-m", "jcache", "stats", "--root", str(tmp_path), "--json"],
        env=environment(),
        capture_output=True,
        check=True,
    )
    runs = json.loads(done.stdout)["runs"]
    assert [([run[n] for n in ("hits", "stored", "not_stored", "bypassed")], run["id"]) for run in runs] == [
        (counts, identity) for counts, identity in reversed(shown)
    ]
    assert all(run["exit_code"] is None for run in runs)
    with closing(Ledger(open_root(tmp_path).ledger)) as ledger:
        known = ledger.known(Kind.EXECUTABLES)
    assert sum(entry.hits for entry in known.values()) == shown[1][0][0]
    assert all(entry.seconds and entry.seconds != int(entry.seconds) for entry in known.values())


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os._exit(0)"])
def test_a_process_that_is_killed_has_told_the_ledger(end: str, tmp_path: Path) -> None:
    """A moment after it has compiled, digests, build seconds and statistics are on record, however it ends."""
    program = f"""
import time
from jcache.store.ledger import Ledger
jcache.enable(sys.argv[1])
compute()
def told():
    ledger = Ledger(Path(sys.argv[1], ".jcache", "ledger.sqlite3"))
    known = ledger.known("executables").values()
    return known and all(entry.digest for entry in known) and ledger.runs()
deadline = time.monotonic() + {LIMIT_S}
while not told() and time.monotonic() < deadline:
    time.sleep(0.1)
{end}
"""
    subprocess.run(
        [sys.executable, "-c", PRELUDE + program, str(tmp_path)], env=environment(), timeout=5 * LIMIT_S, check=False
    )
    with closing(Ledger(open_root(tmp_path).ledger)) as ledger:
        known = ledger.known(Kind.EXECUTABLES)
        (report,) = map(json.loads, ledger.runs())
    assert set(known) == executables(tmp_path) and all(entry.digest and entry.seconds for entry in known.values())
    assert report["stored"] == len(known)


def test_a_recorded_program_is_counted_once(tmp_path: Path) -> None:
    """Under `jcache run`, its report is the only one, with the same numbers."""
    program = PRELUDE + "jcache.enable()\ncompute()\nshow(counts())"
    command = ["run", "--root", str(tmp_path), "--", sys.executable, "-c", program]
    done = subprocess.run(
        [sys.executable, "-m", "jcache", *command], env=environment(), capture_output=True, text=True, check=True
    )
    ((hits, stored, *_),) = json.loads(done.stdout)
    assert hits == 0 and f"0 hits, {stored} miss" in done.stderr
    with closing(Ledger(open_root(tmp_path).ledger)) as ledger:
        (report,) = map(json.loads, ledger.runs())
    assert (report["hits"], report["stored"]) == (0, stored)


def test_without_enable_there_are_no_statistics() -> None:
    """Without `enable`, the error names the missing call; after `disable`, the statistics are still available."""
    program = """
try:
    jcache.stats()
except jcache.NotInEffect as error:
    text = str(error)
jcache.enable(os.environ["ROOT"])
compute()
jcache.disable()
compute(9)
import copy, pickle
stats = jcache.stats()
assert pickle.loads(pickle.dumps(stats)) == copy.deepcopy(stats) == stats
show(text, counts())
"""
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        text, counts = said(program, ROOT=root)
    assert "jcache.enable()" in text and counts[0] == 0 < counts[1]


# -- damage


@pytest.mark.full
@pytest.mark.smoke
def test_a_damaged_entry_is_compiled_anew_with_the_right_numbers(tmp_path: Path) -> None:
    """A damaged entry goes to quarantine and is stored again in the same call, and the statistics count it."""
    program = """
enable(sys.argv[1])
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    result = compute()
show(result, counts(), dict(jcache.stats().reasons.get("stored", {})), [str(warning.message) for warning in told])
"""
    _, cold, _, _ = said(program, tmp_path)
    root = open_root(tmp_path)
    (path,) = root.directory(Kind.EXECUTABLES).glob("jit__lambda*-cache")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    result, again, reasons, (told,) = run(PRELUDE + program, tmp_path).value
    assert result == [3, 3, 3] and again == [cold[1] - 1, 1, 0, 0]
    assert "the entry was damaged" in next(iter(reasons)) and "in quarantine now" in told
    assert said(program, tmp_path)[:2] == [[3, 3, 3], [cold[1], 0, 0, 0]]
    clean(tmp_path)


# -- threads and processes


@pytest.mark.full
@pytest.mark.smoke
def test_threads_that_compile_at_once(tmp_path: Path) -> None:
    """If several threads compile at once, each program is stored and counted once."""
    program = """
enable(sys.argv[1], max_size="1GiB")
results = {}
def work(number):
    results[number] = compute(number)
threads = [threading.Thread(target=work, args=[number]) for number in range(2, 10)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
show(sorted(results.values()), counts())
"""
    expected = [[number + 1] * 3 for number in range(2, 10)]
    results, cold = said(program, tmp_path)
    assert results == expected and cold == [0, 8, 0, 0]
    assert said(program, tmp_path) == [expected, [8, 0, 0, 0]]
    clean(tmp_path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_are_made_by_the_program(method: str, tmp_path: Path) -> None:
    """A forked child continues with jcache and counts for itself, a spawned one enables it; both hit."""
    script = tmp_path / "program.py"
    script.write_text(
        PRELUDE
        + """
import multiprocessing
def work(root, queue):
    if sys.argv[2] == "spawn":
        jcache.enable(root)
    queue.put((compute(), counts()))
if __name__ == "__main__":
    jcache.enable(sys.argv[1])
    context = multiprocessing.get_context(sys.argv[2])
    queue = context.SimpleQueue()
    child = context.Process(target=work, args=[sys.argv[1], queue])
    child.start()
    first = queue.get()
    child.join()
    show(first, compute(), counts())
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), str(tmp_path / "root"), method],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (result, cold), again, warm = json.loads(done.stdout.splitlines()[-1])
    assert result == again == [3, 3, 3]
    assert cold == [0, 1, 0, 0] and warm == [1, 0, 0, 0]
    with closing(Ledger(open_root(tmp_path / "root").ledger)) as ledger:
        told = [[report[name] for name in ("hits", "stored")] for report in map(json.loads, ledger.runs())]
    assert sorted(told) == [[0, 1], [1, 0]]
    clean(tmp_path / "root")


UNUSABLE = """
import sys
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1])

@jcache.jit
def double(x):
    return x * 2

@jcache.graph
def table(n):
    return list(range(n))

print(double(jnp.ones(3)).tolist(), table(3))
"""


def test_warnings_that_are_errors_end_no_program(tmp_path: Path) -> None:
    """With ``python -W error`` and an unusable root, the program runs without jcache, and the reason is printed."""
    (tmp_path / "file").touch()
    command = [sys.executable, "-W", "error", "-c", UNUSABLE, str(tmp_path / "file" / "root")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0, 2.0] [0, 1, 2]\n"), done.stderr
    assert "UserWarning: " in done.stderr and "Traceback" not in done.stderr


def test_workers_of_pytest_xdist(tmp_path: Path) -> None:
    """If a conftest enables jcache, each worker's process shares the root."""
    (tmp_path / "conftest.py").write_text("import jcache\n\njcache.enable(strict=True)\n")
    (tmp_path / "test_it.py").write_text(
        """
import jax, jcache, numpy as np, pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    assert jax.jit(lambda x: x + 41 + number)(np.float32(1)).item() == 42 + number
    assert jcache.stats().requests > 0
"""
    )
    root = tmp_path / "root"
    # A pytest that ends removes the directories of earlier ones below the same place: those of all our tests.
    (tmp_path / "scratch").mkdir()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path / "test_it.py")],
            env=environment({"JCACHE_DIR": root, "PYTEST_DEBUG_TEMPROOT": tmp_path / "scratch"}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert len(executables(root)) == 4
    clean(root)
