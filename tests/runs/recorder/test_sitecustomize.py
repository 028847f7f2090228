"""`jcache run` reports what JAX did, and the program cannot detect that it was recorded. Real JAX processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.runs.environment import RECORDER, environment
from jcache.runs.report import RunReport
from jcache.runtime.checked_reads import CheckedReads, serving
from tests.helpers.reports import collect

BASE = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "JCACHE_", "XLA_"))}
BASE["JAX_PLATFORMS"] = "cpu"
JAX = tuple(int(part) for part in version("jax").split(".")[:2])

# Three executables and nothing else: numpy arguments need no eager operation. Two of them come from other threads.
THREE = """
import threading
import jax, numpy as np
def f1(x): return x * 2 + 1
def f2(x): return x @ x.T
def f3(x): return jax.jit(f1)(x).sum()
x = np.ones((4, 4), np.float32)
threads = [threading.Thread(target=lambda f=f: jax.jit(f)(x).block_until_ready()) for f in (f1, f2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(jax.jit(f3)(x))
"""
# The same one executable, so that a second one of it in any process hits.
ONE = "import jax, numpy as np; jax.jit(lambda x: x * 3)(np.ones(5, np.float32)).block_until_ready()"


def run(
    program: str, env: dict[str, str], *, code: int = 0, cwd: Path | None = None, arguments: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=env, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def report(log_dir: Path) -> RunReport:
    return collect(log_dir, run_id="r", command=["python"], started_ns=0, seconds=1.0, exit_code=0)


@contextmanager
def served(cache_dir: Path, log_dir: Path) -> Iterator[None]:
    """Serve checked reads, as `jcache run` does while its program runs."""
    with closing(CheckedReads(Root(cache_dir, plain=True))) as reads, serving(reads, log_dir):
        yield


def record(program: str, cache_dir: Path, log_dir: Path, extra: dict[str, str] | None = None) -> RunReport:
    log_dir.mkdir()
    with served(cache_dir, log_dir):
        run(program, environment(cache_dir, log_dir, {**BASE, **(extra or {})}))
    return report(log_dir)


def keys(cache_dir: Path) -> set[str]:
    return {path.name.removesuffix("-cache") for path in cache_dir.glob("*-cache")}


def counts(found: RunReport) -> tuple[int, int, int, int]:
    assert found.requests == found.hits + found.stored + found.not_stored
    assert len(found.programs) == found.requests + found.bypassed
    return found.hits, found.stored, found.not_stored, found.bypassed


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunReport]:
    directory = tmp_path_factory.mktemp("cold")
    return directory / "cache", record(THREE, directory / "cache", directory / "log")


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_cold_run_stores_everything(cold: tuple[Path, RunReport]) -> None:
    """A cold run has one miss per jitted function, and its keys are the files in the directory."""
    cache_dir, found = cold
    assert counts(found) == (0, 3, 0, 0)
    assert {program.key for program in found.programs} == keys(cache_dir)
    assert {program.name for program in found.programs} == {"jit_f1", "jit_f2", "jit_f3"}
    assert all(program.seconds is not None and program.seconds > 0 for program in found.programs)
    assert (found.processes, found.jax_version, found.jaxlib_version) == (1, version("jax"), version("jaxlib"))
    assert found.trace_seconds > 0
    assert found.lower_seconds > 0
    assert found.compile_seconds > 0


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_warm_run_of_a_copy_elsewhere_hits(cold: tuple[Path, RunReport], tmp_path: Path) -> None:
    """A copy of the directory at another path gives hits only: no key depends on the path."""
    shutil.copytree(cold[0], tmp_path / "copy")
    found = record(THREE, tmp_path / "copy", tmp_path / "log")
    assert counts(found) == (3, 0, 0, 0)
    assert {program.key for program in found.programs} == keys(cold[0])
    assert found.retrieve_seconds > 0
    assert found.saved_seconds == 0  # JAX stored 0 whole seconds


@pytest.mark.full
@pytest.mark.smoke
@pytest.mark.jax
def test_damaged_entry_in_the_way(cold: tuple[Path, RunReport], tmp_path: Path) -> None:
    """JAX does not get a damaged entry: the entry goes to quarantine, and JAX compiles and stores the program again."""
    shutil.copytree(cold[0], tmp_path / "copy")
    (torn,) = (tmp_path / "copy").glob("jit_f2-*-cache")
    torn.write_bytes(torn.read_bytes()[:100])
    os.utime(torn, (0, 0))  # it is not in the making
    assert counts(record(THREE, tmp_path / "copy", tmp_path / "log")) == (2, 1, 0, 0)
    assert counts(record(THREE, tmp_path / "copy", tmp_path / "again")) == (3, 0, 0, 0)


@pytest.mark.jax
def test_children_are_counted(tmp_path: Path) -> None:
    """Spawned, forked and launched Python children count, also those that end by os._exit or SIGKILL."""
    program = tmp_path / "family.py"
    program.write_text(f"""
import multiprocessing, os, signal, subprocess, sys
import jax, numpy as np
def work(n):
    jax.jit(lambda x: x + n)(np.ones(n, np.float32)).block_until_ready()
if __name__ == "__main__":
    for how, n, end in (("fork", 2, lambda: os._exit(0)), ("fork", 3, lambda: os.kill(os.getpid(), signal.SIGKILL))):
        child = os.fork()
        if child == 0:
            work(n)
            end()
        os.waitpid(child, 0)
    for method in ("spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=work, args=(4,))
        process.start()
        process.join()
        assert process.exitcode == 0
    subprocess.run([sys.executable, "-c", {ONE!r}], check=True)
    work(5)
    os._exit(0)
""")
    log_dir, cache_dir = tmp_path / "log", tmp_path / "cache"
    log_dir.mkdir()
    env = environment(cache_dir, log_dir, BASE)
    with served(cache_dir, log_dir):
        done = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = report(log_dir)
    assert counts(found) == (1, 5, 0, 0)  # the forkserver's child finds what the spawned one stored
    assert {program.key for program in found.programs} == keys(cache_dir)
    assert found.processes == 6


@pytest.mark.jax
def test_daemon_that_closes_every_descriptor(tmp_path: Path) -> None:
    """If a program closes all its descriptors, no line of the recorder gets into the files that it opens next."""
    program = f"""
import jax, os
os.closerange(3, 256)
mine = open({str(tmp_path / "mine")!r}, "w+")
{THREE}
mine.seek(0)
assert mine.read() == ""
"""
    assert counts(record(program, tmp_path / "cache", tmp_path / "log")) == (0, 3, 0, 0)


@pytest.mark.jax
@pytest.mark.skipif(JAX < (0, 5), reason="this jax has no such setting")
def test_xla_caches_by_version(tmp_path: Path) -> None:
    """The setting that keeps paths out of keys is taken back for jax >= 0.11, and only then, and never the user's."""
    program = """
import jax, os
print(jax.config.jax_persistent_cache_enable_xla_caches, os.environ["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"])
"""
    (tmp_path / "log").mkdir()
    env = environment(tmp_path / "cache", tmp_path / "log", BASE)
    shown = "xla_gpu_per_fusion_autotune_cache_dir none\n" if JAX >= (0, 11) else "none none\n"
    assert run(program, env).stdout == shown
    env = environment(tmp_path / "cache", tmp_path / "log", {**BASE, "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "all"})
    assert run(program, env).stdout == "all all\n"


def plain(tmp_path: Path, name: str) -> dict[str, str]:
    (tmp_path / name).mkdir(exist_ok=True)
    return environment(tmp_path / "cache", tmp_path / name, {k: v for k, v in BASE.items() if k != "PYTHONPATH"})


LOOK = "import sys; print(sys.path, sorted(sys.modules), sys.argv, sys.flags)"


def test_python_without_jax_is_the_same(tmp_path: Path) -> None:
    """A Python without JAX has the same sys.path and the same modules, and leaves no file."""
    env = plain(tmp_path, "log")
    assert run(LOOK, env).stdout == run(LOOK, {k: v for k, v in env.items() if k != "PYTHONPATH"}).stdout
    assert not list((tmp_path / "log").iterdir())
    assert env["PYTHONPATH"] == RECORDER  # for grandchildren


@pytest.mark.parametrize(
    "text",
    [
        "print('mine', __name__, __file__)",
        "raise ValueError('broken')",
        "import missing_module",
        "import sitecustomize",
        "",
    ],
)
def test_sitecustomize_of_the_user_runs(tmp_path: Path, text: str) -> None:
    """The user's own sitecustomize runs as it would without the recorder, its failures included."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(text)
    env = plain(tmp_path, "log")
    env["PYTHONPATH"] += os.pathsep + str(tmp_path / "own")
    program = LOOK + "; print(sys.modules.get('sitecustomize'))"
    recorded, direct = run(program, env), run(program, {**env, "PYTHONPATH": str(tmp_path / "own")})
    assert (recorded.stdout, recorded.stderr) == (direct.stdout, direct.stderr)


def test_two_recorders_record_once(tmp_path: Path) -> None:
    """If a run is inside another run, each with its own jcache, only the inner one records it."""
    shutil.copytree(RECORDER, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    env = plain(tmp_path, "log")
    env["PYTHONPATH"] += os.pathsep + str(tmp_path / "other")
    program = "import sys; print(sum(hasattr(finder, 'jcache_recorder') for finder in sys.meta_path), sys.path)"
    shown = run(program, env).stdout
    assert shown.startswith("1 ")
    assert str(tmp_path / "other") not in shown


def test_import_of_jax_that_fails(tmp_path: Path) -> None:
    """A JAX that cannot be imported fails with the same traceback."""
    (tmp_path / "jax" / "_src").mkdir(parents=True)
    (tmp_path / "jax" / "__init__.py").write_text("from jax._src import config")
    (tmp_path / "jax" / "_src" / "__init__.py").write_text("")
    (tmp_path / "jax" / "_src" / "config.py").write_text("import no_such_jaxlib")
    env = plain(tmp_path, "log")
    recorded = run("import jax", env, code=1, cwd=tmp_path)
    assert "no_such_jaxlib" in recorded.stderr
    assert recorded.stderr == run("import jax", {**env, "PYTHONPATH": ""}, code=1, cwd=tmp_path).stderr


def test_log_directory_that_is_gone(tmp_path: Path) -> None:
    """A recorder that cannot write stays silent."""
    package = tmp_path / "jax" / "_src"
    package.mkdir(parents=True)
    for name in ("__init__", "_src/__init__", "_src/monitoring", "_src/compiler", "_src/other"):
        (tmp_path / "jax" / f"{name}.py").write_text("")
    env = plain(tmp_path, "log")
    (tmp_path / "log").rmdir()
    done = run("import jax._src.monitoring, jax._src.compiler, jax._src.other", env, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


GRAPH_FIRST = """
import numpy as np, jcache
@jcache.graph
def table(n): return np.arange(n)
table(3)
import jax
jax.jit(lambda x: x * 3)(np.ones(5, np.float32)).block_until_ready()
"""


@pytest.mark.jax
def test_jax_is_imported_after_a_graph(tmp_path: Path) -> None:
    """A process that has begun its log before JAX is imported logs JAX's versions at the import."""
    found = record(GRAPH_FIRST, tmp_path / "cache", tmp_path / "log", {"JCACHE_DIR": str(tmp_path / "root")})
    assert (found.processes, found.jax_version, found.jaxlib_version) == (1, version("jax"), version("jaxlib"))
    assert counts(found) == (0, 1, 0, 0) and found.graphs.stored == 1


FULL = """
import resource, signal, sys
import jax._src.lru_cache as caches
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
put = caches.LRUCache.put
def put_some(cache, key, value):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), limits[1]))
    try:
        return put(cache, key, value)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
caches.LRUCache.put = put_some
"""


@pytest.mark.full
@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("locked", [False, True])
def test_a_failed_write_leaves_nothing(tmp_path: Path, room: int, locked: bool) -> None:
    """Where JAX cannot write an entry to its end, the report says so, and the next process stores it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    if locked:
        (cache / ".lockfile").touch()  # as a bounded JAX makes it, which needs sidecars
    for number, (program, outcome) in enumerate([(FULL + ONE, "not_stored"), (ONE, "stored"), (ONE, "hit")]):
        logs = tmp_path / str(number)
        logs.mkdir()
        with served(cache, logs):
            run(program, environment(cache, logs, BASE), arguments=[str(room)])
        (told,) = report(logs).programs
        assert told.outcome == outcome and ("the write failed" in (told.reason or "")) is (outcome == "not_stored")
        assert len(list(cache.glob("jit_*"))) == (0 if number == 0 else 1 + locked)


@pytest.mark.full
def test_an_entry_that_is_not_whole_is_told(tmp_path: Path) -> None:
    """What may still be written is not served, JAX stores nothing beside it, and the report says why."""
    cache, logs, again = (tmp_path / name for name in ("cache", "logs", "again"))
    for place in (cache, logs, again):
        place.mkdir()
    with served(cache, logs):
        run(ONE, environment(cache, logs, BASE))
    (entry,) = cache.glob("*-cache")
    entry.write_bytes(b"")
    with served(cache, again):
        run(ONE, environment(cache, again, BASE))
    assert [told.reason for told in report(again).programs] == ["the entry with this key is incomplete"]
