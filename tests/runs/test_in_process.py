"""A process reports about itself what `jcache run` reports about it. Real JAX, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jcache.runs.environment import environment
from tests.jax_internals.test_cache_hook import said
from tests.runs.recorder.test_sitecustomize import BASE, report, run

JAX = """
import json, os, sys, threading, time
from pathlib import Path
import jax, numpy as np
from jax._src import compilation_cache as caches, compiler, lru_cache, monitoring
from jcache.jax_internals import cache_hook
from jcache.runs import observers
from jcache.runtime.events import EventKind
from jcache.runtime.executable_cache import ExecutableCache
from jcache.layout import Kind, Root
from jcache.store.ledger import Ledger
from jcache.store.roots import create_root
from jcache.runs.flush import flush, seconds_until_due
from jcache.runs.in_process import CacheMonitor
def tell(event):
    if event.kind is EventKind.REFUSED:
        observers.tell_not_stored(event.key, event.detail)
    elif event.kind is EventKind.DAMAGED:
        observers.tell_damaged(event.key, event.detail)
def use(root, on_event=tell, **options):
    cache = ExecutableCache(root, on_event=on_event, warn=lambda text: None, **options)
    jax.config.update("jax_compilation_cache_dir", str(root.directory(Kind.EXECUTABLES)))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    cache_hook.install(lambda path: cache)
    return cache
def step(number):
    jax.clear_caches()
    jax.jit(lambda x: x * number)(np.ones(2, np.float32)).block_until_ready()
def counted(watch):
    found = watch.report()
    return [found.hits, found.stored, found.not_stored, found.bypassed]
def entries(root):
    return sorted(root.directory(Kind.EXECUTABLES).glob("*-cache"))
base = Path(sys.argv[1])
"""

EVERY_OUTCOME = (
    JAX
    + """
whole, scenes, root = CacheMonitor(), {}, create_root(base / "root")
def scene(name, number):
    watch = CacheMonitor()
    step(number)
    found = watch.report()
    watch.stop()
    scenes[name] = [counted(watch), {outcome: dict(reasons) for outcome, reasons in found.reasons.items()}]
cache = use(root)
scene("stored", 2)
scene("hit", 2)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000)
scene("too fast", 3)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
(path,) = entries(root)
path.write_bytes(path.read_bytes()[:-10])
os.utime(path, (1, 1))
scene("damaged", 2)
use(root, may_write=False)
scene("refused", 4)
jax.config.update("jax_enable_compilation_cache", False)
caches.reset_cache()
scene("off", 5)
scene("off before", 6)
whole.stop()
print(json.dumps([scenes, whole.report().to_json()]))
"""
)


def test_importing_it_imports_no_jax() -> None:
    """Importing the module leaves JAX out."""
    program = "import sys, jcache.runs.in_process; print([name for name in sys.modules if name.startswith('jax')])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


@pytest.fixture(scope="module", name="outcomes")
def outcomes_fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the scenes of a process that was also recorded from outside, its own report, and the recorder's."""
    base = tmp_path_factory.mktemp("outcomes")
    (base / "log").mkdir()
    done = run(EVERY_OUTCOME, environment(base / "elsewhere", base / "log", BASE), arguments=[str(base)])
    scenes, whole = json.loads(done.stdout)
    return scenes, whole, json.loads(json.dumps(report(base / "log").to_json()))


@pytest.mark.smoke
@pytest.mark.jax
def test_every_outcome_is_counted_with_its_reason(outcomes: tuple[dict[str, Any], ...]) -> None:
    """Hits, stored programs, programs that are not stored and programs without a look-up are counted, each with its
    reason.
    """
    scenes, whole, _ = outcomes
    assert scenes == {
        "stored": [[0, 1, 0, 0], {}],
        "hit": [[1, 0, 0, 0], {}],
        "too fast": [[0, 0, 1, 0], {"not_stored": {"compiled in less than 1000 s": 1}}],
        "damaged": [[0, 1, 0, 0], {"stored": {"the entry was damaged: torn": 1}}],
        "refused": [[0, 0, 1, 0], {"not_stored": {"only process 0 writes": 1}}],
        "off": [[0, 0, 0, 1], {"bypassed": {"the compilation cache is disabled": 1}}],
        "off before": [[0, 0, 0, 1], {"bypassed": {"the compilation cache is disabled": 1}}],
    }
    assert (whole["hits"], whole["stored"], whole["not_stored"], whole["bypassed"]) == (1, 2, 2, 2)
    assert 0 < whole["seconds"] < 600
    assert (whole["exit_code"], whole["processes"], whole["platforms"], whole["notices"]) == (None, 1, ["cpu"], [])


@pytest.mark.smoke
@pytest.mark.jax
def test_the_report_is_that_of_jcache_run(outcomes: tuple[dict[str, Any], ...]) -> None:
    """A process that `jcache run` records reports the same about itself: counts, reasons, programs, versions and times.
    Both receive JAX's durations, each at a slightly different time, and use these times to attribute them.
    """
    _, own, recorded = outcomes
    theirs = {"id", "command", "started", "seconds", "exit_code"}
    spent = {name for name in own if name.endswith("_seconds")}
    assert own.keys() == recorded.keys()
    assert {name: value for name, value in own.items() if name not in theirs | spent} == {
        name: value for name, value in recorded.items() if name not in theirs | spent
    }
    assert {name: own[name] > 0 for name in spent} == {name: recorded[name] > 0 for name in spent}


@pytest.mark.jax
def test_threads_that_compile_at_once(tmp_path: Path) -> None:
    """Each thread's programs are counted once, and a report in between shows no unfinished program as failed."""
    program = """
root = create_root(base / "root")
use(root)
watch, seen, done = CacheMonitor(), [], threading.Event()
def work(offset):
    for number in range(offset, offset + 8):
        jax.jit(lambda x: x * number)(np.ones(2, np.float32)).block_until_ready()
def ask():
    while not done.is_set():
        seen.append(counted(watch))
for _ in range(2):
    jax.clear_caches()
    threads = [threading.Thread(target=work, args=(10 * n,)) for n in range(1, 5)]
    asker = threading.Thread(target=ask)
    for thread in [asker, *threads]: thread.start()
    for thread in threads: thread.join()
    done.set()
    asker.join()
    done.clear()
found = watch.report()
keys = sorted({program.key for program in found.programs})
print(json.dumps([counted(watch), keys == [path.name.removesuffix("-cache") for path in entries(root)],
                  max(counts[2] + counts[3] for counts in seen), seen == sorted(seen, key=sum)]))
"""
    assert said(JAX + program, tmp_path) == [[32, 32, 0, 0], True, 0, True]


@pytest.mark.jax
def test_what_is_being_compiled_is_not_counted_yet(tmp_path: Path) -> None:
    """A report in the middle of a compilation leaves it out, and a later one counts it."""
    program = """
seen = []
use(create_root(base / "root"), on_event=lambda event: seen.append([str(event.kind), counted(watch)]))
watch = CacheMonitor()
step(2)
print(json.dumps([*seen, counted(watch)]))
"""
    assert said(JAX + program, tmp_path) == [["miss", [0] * 4], ["stored", [0] * 4], [0, 1, 0, 0]]


@pytest.mark.jax
def test_stopping_puts_everything_back(tmp_path: Path) -> None:
    """After the last monitor stops, JAX's modules hold their original objects, in whatever order monitors began and
    ended.
    """
    program = """
def state():
    lists = [value for name, value in vars(monitoring).items() if name.endswith("listeners") and name[0] == "_"]
    return [getattr(m, n) for m in (compiler, caches, lru_cache) for n in ("logger", "warnings") if hasattr(m, n)], [
        list(value) for value in lists if isinstance(value, list)]
def same(one, other):
    return one[1] == other[1] and all(a is b for a, b in zip(one[0], other[0], strict=True))
use(create_root(base / "root"))
before = state()
first, second, third = CacheMonitor(), CacheMonitor(), CacheMonitor()
touched = same(before, state())
step(2)
for watch in (second, first, third):
    watch.stop()
    watch.stop()
    step(3)
print(json.dumps([touched, same(before, state()), *map(counted, (first, second, third)),
                  len({repr(first.report().seconds), repr(first.report().seconds)})]))
"""
    assert said(JAX + program, tmp_path) == [
        False,
        True,
        [0, 2, 0, 0],
        [0, 1, 0, 0],
        [1, 2, 0, 0],
        1,
    ]


@pytest.mark.jax
def test_overlapping_monitors_leave_one_tap(tmp_path: Path) -> None:
    """A monitor that stops leaves no tap below a later one, so that JAX's messages always pass a single tap."""
    program = """
def taps(logger):
    return 1 + taps(vars(logger)["_original"]) if type(logger).__name__ == "LoggerTap" else 0
original, watch = caches.logger, CacheMonitor()
depths = []
for _ in range(5):
    later = CacheMonitor()
    watch.stop()
    watch = later
    depths.append(taps(caches.logger))
watch.stop()
print(json.dumps([depths, caches.logger is original]))
"""
    assert said(JAX + program, tmp_path) == [[1] * 5, True]


@pytest.mark.jax
def test_taps_of_others_stay(tmp_path: Path) -> None:
    """A logger that another program has put over jcache's stays there and works."""
    program = """
import logging
watch = CacheMonitor()
caches.logger = theirs = logging.LoggerAdapter(caches.logger, {})
watch.stop()
use(create_root(base / "root"))
step(2)
print(json.dumps([caches.logger is theirs, type(compiler.logger) is logging.Logger, counted(watch)]))
"""
    assert said(JAX + program, tmp_path) == [True, True, [0, 0, 0, 0]]


@pytest.mark.jax
def test_a_forked_child_begins_anew(tmp_path: Path) -> None:
    """A child that renews its monitor counts only its own programs, even if a thread of its parent was being
    recorded.
    """
    program = """
use(create_root(base / "root"))
watch = CacheMonitor()
def forked(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        watch.renew()
        work()
        os.write(write, json.dumps([counted(watch), watch.id]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(os.read(read, 1000))
first = forked(lambda: step(2))
step(2)
step(3)
held, done = threading.Event(), threading.Event()
def hold():
    with watch._lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
second = forked(lambda: None)
done.set()
thread.join()
print(json.dumps([first[0], second[0], counted(watch), len({first[1], second[1], watch.id})]))
"""
    assert said(JAX + program, tmp_path) == [[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], 3]


@pytest.mark.jax
def test_nothing_that_goes_wrong_reaches_the_program(tmp_path: Path) -> None:
    """Events and messages of unknown shapes, and callbacks that raise, are lost, and nothing else."""
    program = """
class Evil:
    def __str__(self): raise RuntimeError("evil")
use(create_root(base / "root"))
watch = CacheMonitor(on_compiled=lambda: 1 / 0)
for duration in (None, "long", float("nan")):
    watch._on_event("/jax/compilation_cache/cache_retrieval_time_sec", duration, {})
    watch._on_event("/jax/core/compile/jaxpr_trace_duration", duration, {"fun_name": Evil()})
caches.logger.debug(Evil())
caches.logger.debug("Writing %s to persistent compilation cache")
observers.tell_not_stored(Evil(), Evil())
observers.tell("not_stored")
observers.tell("trace", name=Evil())
observers.tell("graph", outcome=[])
observers.tell("anything", e=3)
step(2)
print(json.dumps(counted(watch)))
"""
    assert said(JAX + program, tmp_path) == [0, 1, 0, 0]


@pytest.mark.jax
def test_a_program_that_runs_for_ever(tmp_path: Path) -> None:
    """Events without a consumer are not kept: a hundred thousand of them take less than a mebibyte."""
    program = """
import tracemalloc
def record(times):
    for _ in range(times):
        monitoring.record_event_duration_secs("/jax/core/compile/jaxpr_trace_duration", 1e-9)
watch = CacheMonitor()
record(2_000)  # what reads them is imported by then: to compile a module takes a mebibyte
tracemalloc.start()
record(100_000)
size, peak = tracemalloc.get_traced_memory()
print(json.dumps(peak))
"""
    assert said(JAX + program, tmp_path) < 1 << 20


@pytest.mark.jax
@pytest.mark.parametrize(
    ("how", "command"),
    [
        (["-c", "CODE", "more"], ["-c", "CODE", "more"]),
        (["-m", "package", "more"], ["-m", "package", "more"]),
        (["package/__main__.py", "more"], ["package/__main__.py", "more"]),
        (["package/ipykernel_launcher.py", "-f", "kernel.json"], ["jupyter", "notebook"]),
    ],
    ids=["code", "module", "script", "notebook"],
)
def test_the_command_of_a_process(tmp_path: Path, how: list[str], command: list[str]) -> None:
    """The report names the script, the module, the code or the notebook that the process runs."""
    code = "import json; from jcache.runs import in_process as i; print(json.dumps(i.CacheMonitor().report().command))"
    package = tmp_path / "package"
    package.mkdir()
    for name in ("__main__.py", "ipykernel_launcher.py"):
        (package / name).write_text(code)
    arguments = [code if word == "CODE" else word for word in how]
    env = {name: value for name, value in BASE.items() if name != "JPY_SESSION_NAME"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [code if word == "CODE" else word for word in command]
