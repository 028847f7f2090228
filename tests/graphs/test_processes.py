"""Graphs and several processes: built once, taken over from the dead, and stale when what they came from changes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from tests.helpers.graph_programs import MODEL, graph_file, graphs_of, program, run, said, write_model
from tests.helpers.waiting import until

ASK = """
import json, sys, threading
import model
from jcache import GraphCache

cache = GraphCache(sys.argv[1])
log = model.Log(sys.argv[2], until=sys.argv[3])
values = []
together = threading.Barrier(int(sys.argv[4]))

def ask():
    if together.wait() == 0:
        print("asking", flush=True)
    values.append(cache.get_or_build(model.grow, 4, theta=0.5, log=log))

threads = [threading.Thread(target=ask) for _ in range(int(sys.argv[4]))]
[t.start() for t in threads]
[t.join() for t in threads]
assert values == [[0.0, 1.0, 2.0, 3.0]] * len(values), values
stats = cache.stats()
print(json.dumps([len(values), stats.hits, stats.builds]))
"""
GET = """
import json, sys
import model
from jcache import GraphCache

cache = GraphCache(sys.argv[1])
print(json.dumps([cache.get_or_build(model.grow, 3), cache.stats().hits]))
"""


@pytest.fixture
def at(tmp_path: Path) -> Path:
    return write_model(tmp_path / "code")


def await_asking(*children: "subprocess.Popen[str]") -> None:
    """Waits until all threads of these have begun to ask."""
    for child in children:
        assert child.stdout and child.stdout.readline() == "asking\n", child.communicate()


def builders(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def test_two_processes_with_threads_build_once(native: Root, at: Path, tmp_path: Path) -> None:
    """Of two processes with 8 threads each that ask for one graph, one thread builds, and all are served."""
    log, go = tmp_path / "log", tmp_path / "go"
    children = [program(ASK, native.path, log, go, 8, at=at) for _ in range(2)]
    await_asking(*children)
    go.touch()
    counts = [said(child) for child in children]
    assert [count[0] for count in counts] == [8, 8]
    assert sum(hits for _, hits, _ in counts) == 15 and sum(builds for _, _, builds in counts) == 1
    assert len(builders(log)) == 1 and len(graphs_of(native)) == 1
    assert os.listdir(native.building) == []


def test_a_killed_builder_is_taken_over(native: Root, at: Path, tmp_path: Path) -> None:
    """While one process builds and others wait, it is killed: one of them builds, the rest are served."""
    log, go = tmp_path / "log", tmp_path / "go"
    first = program(ASK, native.path, log, go, 8, at=at)
    await_asking(first)
    until(lambda: builders(log))
    others = [program(ASK, native.path, log, go, 8, at=at) for _ in range(2)]
    await_asking(*others)
    assert builders(log) == [str(first.pid)]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    go.touch()
    counts = [said(child) for child in others]
    assert [count[0] for count in counts] == [8, 8]
    assert len(builders(log)) == 2 and len(graphs_of(native)) == 1
    assert os.listdir(native.building) == []


@pytest.mark.full
def test_a_process_that_is_killed_while_it_stores(native: Root, at: Path, tmp_path: Path) -> None:
    """SIGKILL at any time leaves a whole graph or none: the next process gets the right value."""
    log = go = tmp_path / "log"  # which is there by the time that one looks for it
    for delay in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032):
        child = program(ASK, native.path, log, go, 4, at=at)
        await_asking(child)
        time.sleep(delay)  # a point of its work, not a wait for something
        child.kill()
        child.communicate()
    assert run(ASK, native.path, log, go, 4, at=at)[0] == 4
    assert run(ASK, native.path, log, go, 4, at=at)[1] == 4
    assert Quarantine(native).records() == []


@pytest.mark.full
def test_a_graph_is_hit_in_another_process_and_place(native: Root, at: Path, tmp_path: Path) -> None:
    """The same module in another directory is the same world; one with a comment is compared first, and stored once."""
    assert run(GET, native.path, at=at) == [[0.0, 2.0, 4.0], 0]
    elsewhere = write_model(tmp_path / "another" / "place", MODEL)
    assert run(GET, native.path, at=elsewhere) == [[0.0, 2.0, 4.0], 1]
    write_model(elsewhere, "# a comment\n\n" + MODEL)
    assert [run(GET, native.path, at=elsewhere)[1] for _ in range(3)] == [0, 1, 1]
    assert run(GET, native.path, at=at)[1] == 1 and len(graphs_of(native)) == 1


@pytest.mark.full
def test_a_changed_helper(native: Root, at: Path) -> None:
    """When the source of a helper changes between two processes the graph is built anew, under another key."""
    assert run(GET, native.path, at=at)[1] == 0
    write_model(at, MODEL.replace("2 * n", "3 * n"))
    assert run(GET, native.path, at=at) == [[0.0, 3.0, 6.0], 0]
    write_model(at)
    assert run(GET, native.path, at=at) == [[0.0, 2.0, 4.0], 1]
    assert len(graphs_of(native)) == 2


DYNAMIC = "import pkgutil\n" + MODEL.replace("rate(i) * theta", "pkgutil.resolve_name('model:ra' + 'te')(i) * theta")


@pytest.mark.full
def test_a_changed_helper_that_only_running_shows(native: Root, at: Path) -> None:
    """A helper that no analysis finds changes the world: the graph is built anew, and each world has its own."""
    write_model(at, DYNAMIC)
    assert run(GET, native.path, at=at) == [[0.0, 2.0, 4.0], 0]
    assert run(GET, native.path, at=at) == [[0.0, 2.0, 4.0], 1]
    write_model(at, DYNAMIC.replace("2 * n", "3 * n"))
    assert run(GET, native.path, at=at) == [[0.0, 3.0, 6.0], 0]
    assert run(GET, native.path, at=at) == [[0.0, 3.0, 6.0], 1]
    write_model(at, DYNAMIC)
    assert run(GET, native.path, at=at) == [[0.0, 2.0, 4.0], 1]
    assert not Quarantine(native).records() and len(graphs_of(native)) == 2


NESTED = (
    DYNAMIC
    + """
def outer(cache):
    return sum(cache.get_or_build(grow, 3))
"""
)
GET_OUTER = """
import json, sys
import model
from jcache import GraphCache

cache = GraphCache(sys.argv[1])
cache.get_or_build(model.grow, 3)
print(json.dumps([cache.get_or_build(model.outer, cache), cache.stats().builds]))
"""


IN_A_THREAD = (
    DYNAMIC
    + """
def outer(cache):
    import threading
    values = []
    thread = threading.Thread(target=lambda: values.extend(cache.get_or_build(grow, 3)))
    thread.start()
    thread.join()
    return sum(values)
"""
)


@pytest.mark.full
@pytest.mark.parametrize("text", [NESTED, IN_A_THREAD], ids=["in the same thread", "in another thread"])
def test_a_graph_built_of_one_that_was_loaded(native: Root, at: Path, text: str) -> None:
    """When the inner one's code changes, both are built anew, though only the inner one's code ran in its build."""
    write_model(at, text)
    assert run(GET_OUTER, native.path, at=at) == [6.0, 2]
    assert run(GET_OUTER, native.path, at=at) == [6.0, 0]
    write_model(at, text.replace("2 * n", "3 * n"))
    assert run(GET_OUTER, native.path, at=at) == [9.0, 2]


def test_a_shared_root_of_others(at: Path, tmp_path: Path) -> None:
    """A process that only reads a root is served by it once it has compared, and writes what it lacks into its own."""
    shared, own = create_root(tmp_path / "shared"), create_root(tmp_path / "own")
    run(GET, shared.path, at=at)
    get = GET.replace("GraphCache(sys.argv[1])", "GraphCache(sys.argv[1], read_only=sys.argv[2])")
    assert [run(get, own.path, shared.path, at=at)[1] for _ in range(2)] == [0, 1] and graphs_of(own) == []


CLASSES = """
import dataclasses

@dataclasses.dataclass
class Mesh:
    points: list

def mesh(n):
    from shapes import Mesh
    return Mesh(list(range(n)))
"""
GET_MESH = """
import json, sys, warnings
from callbacks import mesh
from jcache import GraphCache

cache = GraphCache(sys.argv[1])
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    points = [cache.get_or_build(mesh, 3).points for _ in range(2)]
print(json.dumps([points, cache.stats().hits, [str(w.message) for w in said]]))
"""


def test_a_class_that_is_not_imported_yet(native: Root, tmp_path: Path) -> None:
    """A graph whose class nobody has imported is built, which imports it, and served from then on; it stays."""
    definition, _, function = CLASSES.partition("def mesh")
    at = write_model(tmp_path / "code", definition, "shapes")
    write_model(at, "def mesh" + function, "callbacks")
    points = [[0, 1, 2], [0, 1, 2]]
    assert run(GET_MESH, native.path, at=at) == [points, 1, []]
    values, hits, warned = run(GET_MESH, native.path, at=at)
    assert (values, hits) == (points, 1) or (values, hits, warned) == (points, 2, [])
    assert hits == 2 or "is in the cache, and is built all the same" in warned[0]
    assert len(graphs_of(native)) == 1 and Quarantine(native).records() == []


def test_a_class_that_has_other_fields_by_now(native: Root, tmp_path: Path) -> None:
    """A graph whose class has changed is not served: another one takes its place."""
    definition, _, function = CLASSES.partition("def mesh")
    at = write_model(tmp_path / "code", definition, "shapes")
    write_model(
        at,
        "import shapes\n\ndef mesh"
        + function.replace("from shapes import Mesh", "").replace("Mesh(", "vars(shapes)['Me' + 'sh']("),
        "callbacks",
    )
    points = [[0, 1, 2], [0, 1, 2]]
    assert run(GET_MESH, native.path, at=at)[:2] == [points, 1]
    write_model(at, definition.replace("points: list", "points: list\n    more: int = 0"), "shapes")
    assert run(GET_MESH, native.path, at=at)[:2] == [points, 1]
    assert run(GET_MESH, native.path, at=at)[:2] == [points, 2]


@pytest.mark.full
def test_pruning_while_others_load(native: Root, at: Path) -> None:
    """A process that loads graphs while others are pruned and cleared around it gets right ones, always."""
    code = """
import json, sys
import numpy as np
import jcache
from jcache import GraphCache

def big(n):
    return np.full(300_000, n, dtype=np.float64)

cache, loaded, rounds = GraphCache(sys.argv[1]), [], 0
while rounds < 30 or rounds < 3000 and (not cache.stats().hits or cache.stats().builds <= 5):
    for n in range(5):
        loaded.append((n, cache.get_or_build(big, n)))
    del loaded[:-40]
    assert all((array == n).all() for n, array in loaded)
    rounds += 1
    print("round", flush=True)
print(json.dumps([cache.stats().hits > 0, cache.stats().builds > 5]))
"""
    child = program(code, native.path, at=at)
    import jcache

    assert child.stdout
    for number, line in enumerate(child.stdout):
        if line != "round\n":
            assert json.loads(line) == [True, True]
        elif number % 2:  # while the next round is under way
            jcache.clear("graphs", root=native.path) if number % 4 == 1 else jcache.prune(
                root=native.path, max_entries=2
            )
    _, err = child.communicate()
    assert child.returncode == 0, err


@pytest.mark.full
def test_neither_numpy_nor_jax_is_imported(native: Root, at: Path) -> None:
    """A program that uses neither of them is served without them."""
    code = GET + "assert not {'numpy', 'jax', 'jaxlib'} & sys.modules.keys()"
    assert [run(code, native.path, at=at)[1] for _ in range(2)] == [0, 1]


def test_one_graph_file(native: Root, at: Path) -> None:
    """What is stored is one sealed file that ``head`` can show."""
    run(GET, native.path, at=at)
    head = graph_file(native).read_bytes()[:200]
    assert head.startswith(b"\x89jcache\n") and b'"build_seconds":' in head
