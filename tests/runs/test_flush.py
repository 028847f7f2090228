"""A process writes its report to the ledger of a root: all of it once, seldom, and without harm. Real JAX processes."""

from pathlib import Path

import pytest

from tests.jax_internals.test_cache_hook import said
from tests.runs.test_in_process import JAX


@pytest.mark.jax
def test_the_ledger_is_told_once(tmp_path: Path) -> None:
    """However often a report is flushed, the ledger has one run, the exact seconds of stored programs, and each hit
    once.
    """
    program = """
root = create_root(base / "root")
cache = use(root)
first = CacheMonitor()
told = [flush(root, first), root.ledger.exists()]
step(2)
told.append(flush(root, first))
cache.flush()
step(2)
told += [flush(root, first), flush(root, first, notices=["a notice"])]
first.stop()
second = CacheMonitor()
step(2)
second.build_seconds.clear()
told.append(flush(root, second))
ledger = Ledger(root.ledger)
(known,) = ledger.known(Kind.EXECUTABLES).values()
runs = [json.loads(text) for text in ledger.runs()]
built = first.report().programs[0].seconds
told += [known.hits, known.seconds == built, known.run == first.id, known.origin, known.digest is not None]
told += [second.build_seconds == {known.key: built}, [run["id"] for run in runs] == [first.id, second.id]]
print(json.dumps([*told, runs[0]["hits"], runs[0]["stored"], runs[0]["exit_code"], runs[0]["notices"]]))
"""
    flushed = [False, False, True, True, True, True]
    known = [2, True, True, "program", True, True, True]
    assert said(JAX + program, tmp_path) == [*flushed, *known, 1, 1, None, ["a notice"]]


@pytest.mark.jax
def test_when_to_flush(tmp_path: Path) -> None:
    """The first flush is due a few seconds after the start, and then every half minute; a busy ledger gets
    all the next time.
    """
    program = """
from jcache import clock
moment = 1000.0
clock.monotonic = lambda: moment
root = create_root(base / "root")
cache = use(root)
watch = CacheMonitor()
told = [seconds_until_due(watch)]
moment += 6
told.append(seconds_until_due(watch))
step(2)
told += [flush(root, watch), seconds_until_due(watch)]
moment += 1
told.append(seconds_until_due(watch))
step(3)
import sqlite3
busy = sqlite3.connect(root.ledger, isolation_level=None)
busy.execute("BEGIN EXCLUSIVE")
told.append(flush(root, watch, wait=0.1))
busy.execute("ROLLBACK")
(run,) = map(json.loads, Ledger(root.ledger).runs())
told += [run["stored"], flush(root, watch)]
(run,) = map(json.loads, Ledger(root.ledger).runs())
print(json.dumps([*told, run["stored"]]))
"""
    assert said(JAX + program, tmp_path) == [5, 0, True, 30, 29, False, 1, True, 2]


@pytest.mark.jax
def test_flushing_fails_silently(tmp_path: Path) -> None:
    """A missing root, or a ledger that cannot be made, causes no message; a process that `jcache run` records writes
    nothing.
    """
    program = """
import shutil
root = create_root(base / "root")
cache = use(root)
watch = CacheMonitor()
step(2)
(base / "file").write_text("")
told = [flush(Root(base / name, plain=True), watch) for name in ("file", "nowhere")] + [(base / "nowhere").exists()]
os.environ["JCACHE_RUN_LOG"] = str(base)
told.append(flush(root, watch))
del os.environ["JCACHE_RUN_LOG"]
told.append(root.ledger.exists())
root.ledger.parent.mkdir(exist_ok=True)
root.ledger.mkdir()
flush(root, watch)
shutil.rmtree(root.path)
print(json.dumps([*told, flush(root, watch), root.path.exists()]))
"""
    assert said(JAX + program, tmp_path) == [False] * 7
